#pragma once

/// A worker's host: behaves like actors/worker.cpp, connector.cpp and telemetry.cpp towards the arbitrator's host, with
/// a modelled training thread (ring.hpp). Its decisions lie in a real trainer::decision_slot, and a real
/// actors::progress_watch looks after its thread.

#include "actors/progress_watch.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/ring.hpp"
#include "trainer/decision_slot.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::simulation {

class simulated_worker {
public:
  enum class phase : std::uint8_t { idle, greeting, waiting, training, leaving, ended };

  simulated_worker(simulation& world, std::uint32_t rank) : world_(world), rank_(rank) {}

  /// A new process; `checkpoint_steps` of the checkpoint that it could go on from.
  void start(std::uint64_t checkpoint_steps);
  void crash();
  void hang();
  void wake();
  /// Its host is asked to end (SIGTERM), and is started again so long after it has. Nothing happens where nobody would
  /// be left to go on.
  void ask_to_leave(std::int64_t restart_delay_us);
  bool leaves() const { return leave_asked_seconds_.has_value(); }
  bool alive() const { return alive_; }
  bool hung() const { return hung_; }
  /// It has come to its end by itself, well or not.
  bool finished() const { return now_ == phase::ended; }
  bool succeeded() const { return succeeded_; }
  bool farewell_heard() const { return farewell_heard_; }

  /// Runs in the process: later when it is stopped, never when it is gone.
  void run(std::uint64_t incarnation, std::function<void()> action);
  void after(std::int64_t delay_us, std::function<void()> action);

  // What the network brings.
  void connection_lost(const connection_ptr& one);
  void actor_gone(const connection_ptr& through, const caf::actor_addr& gone);
  void answered(std::uint64_t ticket, const answer& said);
  void take_decision(const frame& received);
  void take_place(const frame& received, const meeting_point& where);
  void generation_changes(const frame& received);

  // What the training thread says.
  void generation_left();
  void beat();
  void report(const messages::window_report& record);

  std::uint32_t rank() const { return rank_; }
  std::uint64_t incarnation() const { return incarnation_; }
  phase now() const { return now_; }
  const messages::placement& newest() const { return newest_; }
  std::uint64_t checkpoint_steps() const { return checkpoint_steps_; }
  trainer::decision_slot& slot() { return *slot_; }
  training_thread thread; ///< and the state that it holds

private:
  bool orphaned() const { return !hub_; }
  bool known(bool training) const { return known_generation_ == newest_.generation && known_training_ == training; }
  messages::hello hello() const;
  void attempt();
  void say_hello();
  void greet();
  void greet_later();
  void accepted(const messages::welcome& welcome, const actors::aggregator_actor& hub);
  void refused(const messages::welcome& welcome);
  void orphan();
  void tick();
  void interrupt(const std::string& reason);
  void look_after_leave();
  void part();
  void conclude();
  void say_farewell();
  void end(bool succeeded, const std::string& reason);
  void request(const std::function<void(const connection_ptr&, std::uint64_t ticket)>& ask, std::int64_t timeout_us,
               std::function<void(const answer&)> then);
  template <class Text>
  void log(Text text) const;

  simulation& world_;
  std::uint32_t rank_;
  std::uint64_t incarnation_ = 0;
  bool alive_ = false;
  bool hung_ = false;
  bool succeeded_ = false;
  bool farewell_heard_ = false;
  std::vector<std::function<void()>> deferred_;

  // The process's own, new with each start.
  phase now_ = phase::idle;
  connection_ptr link_; ///< null: the connector is trying
  std::int64_t connect_delay_us_ = 0;
  bool has_gateway_ = false;
  actors::aggregator_actor hub_;                   ///< null while orphaned
  std::optional<messages::window_report> unheard_; ///< the newest report since it is orphaned
  std::unique_ptr<trainer::decision_slot> slot_;
  std::optional<actors::progress_watch> watch_;
  messages::placement newest_;
  std::uint64_t checkpoint_steps_ = 0;
  bool greeting_under_way_ = false;
  std::uint64_t greetings_ = 0;
  std::uint64_t known_generation_ = 0;
  bool known_training_ = false;
  double greeting_delay_seconds_ = 0;
  double duplicate_since_seconds_ = -1;
  std::optional<double> leave_asked_seconds_;
  std::int64_t restart_delay_us_ = 0; ///< after a leave
  bool away_ = false;                 ///< since it was asked to leave, until it has a place again
  std::map<std::uint64_t, std::function<void(const answer&)>> pending_;
  std::uint64_t tickets_ = 0;
};

} // namespace dynamix::simulation
