#pragma once

/// The modelled training: the members of a generation meet, take the source's state, and complete steps together. A
/// step completes when all members take part in it, on each in its own time, so a loss can leave some of them one step
/// ahead. Every member gathers and agrees with the trainer's own code.

#include "messages/types.hpp"
#include "session/agreement.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::simulation {

class simulation;
class simulated_worker;
class ring;

/// The store of a placement.
struct meeting_point {
  std::uint64_t store = 0;           ///< id of its actor
  std::uint64_t aggregator_life = 0; ///< of the aggregator that holds it
  friend auto operator<=>(const meeting_point&, const meeting_point&) = default;
};

/// What the members of a generation share: all that is in a checkpoint.
struct training_state {
  bool known = false;       ///< otherwise a fresh model
  std::uint64_t steps = 0;  ///< completed
  std::uint64_t digest = 0; ///< of all that happened to the parameters
  messages::decision_key last_applied;
  friend bool operator==(const training_state&, const training_state&) = default;
};

enum class thread_ending : std::uint8_t { completed, regrouped, lost };

/// A worker's training thread. It is the thread's as long as it has a place, and the worker's in between.
struct training_thread {
  training_state state;
  std::shared_ptr<ring> place; ///< null between two generations
  bool entered = false;        ///< the place
  bool interrupted = false;
  bool regroup = false; ///< has been asked for
  bool step_in_flight = false;
  bool first_step = true; ///< of the generation is still to be completed
  std::uint32_t batch = 0;
  messages::decision_key in_force;
  std::uint64_t first_step_of_window = 0;
  std::array<messages::decision, 2> brought{}; ///< to the agreement that is under way
  // Of the last generation that it left.
  thread_ending how = thread_ending::lost;
  std::string reason;
  std::uint64_t attempted_steps = 0;
};

class ring : public std::enable_shared_from_this<ring> {
public:
  ring(simulation& world, messages::placement place, meeting_point where)
      : world_(world), place_(std::move(place)), where_(where) {}

  /// The worker's thread begins with the place, or is freed from it.
  void enter(simulated_worker& worker);
  void interrupt(simulated_worker& worker, const std::string& reason);
  /// The worker's process is gone.
  void died(std::uint32_t rank);
  /// Something that held a step up may be over.
  void retry();

  const messages::placement& place() const { return place_; }
  const meeting_point& where() const { return where_; }
  bool training() const { return training_; }
  /// Further steps can complete.
  bool goes_on() const { return training_ && !failed_; }
  bool holds(std::uint32_t rank) const;

private:
  struct seat {
    std::uint64_t incarnation = 0; ///< 0: has not come
    bool here = false;
    bool begun = false; ///< the step that is under way
  };

  simulated_worker& worker(std::uint32_t rank) const;
  seat& seat_of(std::uint32_t rank);
  void start();
  void begin_step(simulated_worker& worker);
  void complete_step_together();
  void complete_step(simulated_worker& worker, const std::vector<session::step_row>& rows);
  void close_window(simulated_worker& worker, bool final);
  void take_leave(simulated_worker& worker, thread_ending how, const std::string& reason);
  void peer_lost(std::uint32_t rank);
  /// Nobody can take part in a step now: a member hangs, or members do not reach each other.
  bool held_up() const;

  simulation& world_;
  messages::placement place_;
  meeting_point where_;
  std::vector<seat> seats_;
  bool training_ = false;
  bool failed_ = false;    ///< a member is gone: no further step completes
  bool waits_ = false;     ///< all have begun the step, but something holds it up
  std::uint64_t step_ = 0; ///< completed together
  std::uint32_t begun_ = 0;
};

} // namespace dynamix::simulation
