#pragma once

/// Who belongs to the cluster, and which generation trains. Knows no CAF and no clock.
///
///     none --enough have come--> running --a member is lost or has left--> ending --all that are left wait--+
///                                  ^ |somebody wants to join                  ^|member lost                 |
///                                  | v                                        ||                            |
///                                  | regrouping ------------------------------+|                            |
///                                  |     |all members wait                     |                            |
///                                  +-----+-------------------------------------+----------------------------+
///
/// `decide` says what is to be done now and why, and changes nothing; `membership::next` does what it says.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::actors {

enum class member_state : std::uint8_t {
  awaited,  ///< has not come yet
  waiting,  ///< for a place in the next generation
  training, ///< in its generation
  departed, ///< said farewell at the end of training
  left,     ///< said farewell before that: its host was asked to end
  failed,   ///< said farewell before that: it could not go on
  lost,     ///< its connection broke, or it fell silent
};

struct member {
  std::string host;    ///< empty: a place of an open cluster that nobody has had
  bool guest = false;  ///< a host that the file does not name, or a place for one
  bool serves = false; ///< it sums for the others, and has no state of its own
  member_state state = member_state::awaited;
  std::uint64_t incarnation = 0; ///< 0: it has never come to this arbitrator
  std::uint64_t generation = 0;  ///< newest that it was placed in
  std::uint32_t group = 0;       ///< processes in the group of the one that trains for it; 0: it trains itself
  std::uint64_t steps = 0;       ///< completed, in memory
  std::uint64_t said_steps = 0;  ///< in its newest hello, or its farewell
  std::uint64_t checkpoint_steps = 0;
  double joins = 0;                   ///< that it was taken in, less one for each second since, as of its newest
  double joined_seconds = 0;          ///< when that was
  // What it costs the others (actors/aggregator/disruption.hpp).
  double goings = 0;             ///< that it has gone, less what is forgotten since, as of its newest
  double went_seconds = 0;       ///< when that was
  std::uint32_t suspected = 0;   ///< generations in a row that came to nothing without it, too
  std::uint32_t holds = 0;       ///< that it was left out, since it was in order for long
  double held_until_seconds = 0; ///< not to train before
  double seen_seconds = 0;            ///< last sign of life
  double since_seconds = 0;           ///< in this state
  std::optional<double> told_seconds; ///< when it was last told that its generation ends or regroups
  std::string detail;                 ///< why it is lost or has failed or, as it says, has come out of its generation

  bool unused() const { return host.empty(); }
  bool present() const { return state == member_state::waiting || state == member_state::training; }
};

enum class generation_phase : std::uint8_t { none, running, regrouping, ending };

struct membership_state {
  std::vector<member> members;       ///< by rank
  std::uint32_t workers_min = 0;     ///< training begins with as many; 0: with all that are expected
  std::uint32_t host_places_max = 0; ///< of an open cluster, that one host may have
  bool fixed_group = false;          ///< the training processes' group is their user's: all of it train or none
  double began_seconds = -1;         ///< when it was first looked at
  std::optional<std::uint32_t> finished_before; ///< who finished training under an arbitrator before this one
  bool stop_was_asked = false;                  ///< of all, by this arbitrator
  std::uint64_t generation = 0;                 ///< newest that was formed
  std::uint64_t floor = 0;                      ///< newest that is known to have been formed elsewhere
  std::vector<std::uint32_t> placed;            ///< its members
  bool announced = true;                        ///< its members have been sent their places
  bool adopted = false;                         ///< it was formed by an arbitrator before this one
  generation_phase phase = generation_phase::none;
  double phase_seconds = 0;           ///< when the phase began
  std::uint64_t first_steps = 0;      ///< completed when the generation began
  std::uint64_t attempted_steps = 0;  ///< furthest that any member got or tried to get
  double progress_seconds = 0;        ///< when a step was last completed
  std::uint64_t heard_generation = 0; ///< newest that a hello has told of
  std::uint64_t heard_steps = 0;      ///< furthest that hellos told to have got or tried to get in it
  std::string reason;                 ///< of the phase
  bool unexplained = false;           ///< `reason` names who came out of it, perhaps because another has gone
  std::uint32_t barren = 0;           ///< generations in a row before it that completed no step
  double formed_seconds = 0;          ///< when it was formed, or heard of
  std::uint64_t reached = 0;          ///< steps that it has completed (actors/aggregator/disruption.hpp)
  std::uint64_t proven = 0;           ///< the most of those that any has completed
  bool nobody_went = false;           ///< it is ending without that anybody had gone
  std::uint32_t fruitless = 0;        ///< generations in a row before it that came to nothing
  double fruitful_seconds = 0;        ///< when the first of these was formed
  std::optional<std::uint32_t> suspect; ///< who was left out of it for that
};

/// What is to be done, in this order, and why.
struct membership_change {
  struct loss {
    std::uint32_t rank;
    std::string detail;
  };
  std::vector<loss> lost;
  struct hold {
    std::uint32_t rank;
    double seconds;
    std::string detail;
  };
  std::vector<loss> false_completions; ///< what they said does not count: they have failed
  std::vector<hold> held;              ///< they are left out of what is formed
  std::optional<generation_phase> phase;
  std::string reason;       ///< of the phase
  bool unexplained = false; ///< as in membership_state
  bool nobody_went = false; ///< the same
  std::vector<std::pair<std::uint32_t, messages::generation_notice>> notices;
  std::optional<messages::placement> placement;
  std::uint32_t barren = 0;     ///< generations in a row before the placement that completed no step
  std::uint32_t fruitless = 0;  ///< the same that came to nothing
  bool tries = false;           ///< the placement is without `held`, to find out whether it lasts
  std::uint64_t steps = 0;      ///< that the placement starts from
  std::uint64_t steps_lost = 0; ///< tried or completed in the generation before, and not among `steps`

  bool empty() const {
    return lost.empty() && false_completions.empty() && held.empty() && !phase && notices.empty() && !placement;
  }
};

membership_change decide(double now_seconds, const membership_state& state, const cluster::timeouts& timeouts);
struct found_place {
  std::optional<std::uint32_t> rank;
  std::string reason; ///< why there is none
};
/// The rank for a worker that has none: of a place that nobody has had, or else of who has been gone longest, and long
/// enough to be forgotten. No host gets more than its share, however many names it has for its workers.
found_place find_place(double now_seconds, const membership_state& state, const cluster::timeouts& timeouts,
                       const std::string& worker);
/// "ben has left", "ben is lost: ..."; empty for one that has not gone.
std::string why_gone(const member& one);
/// Why nobody is left and nobody can still come; empty: that is not so.
std::string why_over(double now_seconds, const membership_state& state, const cluster::timeouts& timeouts);

class membership {
public:
  /// `file`: with its places, where it is open. Generations are numbered above `floor`. `finished_before`: who is known
  /// to have come to the end of training. `names`: by rank, of the hosts that have had places before.
  membership(const cluster::cluster_file& file, const cluster::timeouts& timeouts, std::uint64_t floor = 0,
             std::optional<std::uint32_t> finished_before = {}, const std::vector<std::string>& names = {});

  /// Judges a hello, and takes the worker in if it is accepted.
  messages::welcome admit(const messages::hello& hello, double now_seconds);
  /// Why its counters cannot be true; `admit` refuses it. Empty: they can.
  std::string why_implausible(const messages::hello& hello) const;
  /// The same: more steps than a worker completes between two signs of life. `beat` ignores it.
  std::string why_implausible(const messages::heartbeat& sign) const;
  /// A sign of life. True when it tells of the first completed step of a generation.
  bool beat(const messages::heartbeat& sign, double now_seconds);
  /// Said farewell. False if it was not present, or is present as another process.
  bool departed(const messages::farewell& farewell, double now_seconds);
  /// Its connection broke without a farewell. False if it was not present.
  bool disconnected(std::uint32_t rank, const std::string& detail, double now_seconds);
  /// The members of the newest generation have been sent their places: from here on they are told what becomes of it.
  void announced() { state_.announced = true; }
  /// What is to be done now; it counts as done. Call at least every beat interval: a caller that comes late has slept
  /// itself, and holds nobody's silence in that time against them.
  std::vector<membership_change> next(double now_seconds);

  const membership_state& state() const { return state_; }
  std::uint64_t generation() const { return state_.generation; }
  std::uint64_t cluster_digest() const { return digest_; }
  /// Newest term that any worker has obeyed; a new arbitrator's lies above it.
  std::uint64_t highest_term() const { return highest_term_; }
  bool is_member(std::uint32_t rank) const;
  /// Has been given a place in the newest generation, and has not left it.
  bool is_placed(std::uint32_t rank) const;
  /// How many more than are here training waits for before it begins; 0: it has begun, or does not wait for a number.
  std::size_t missing() const;
  /// Every member of the newest generation has come to this arbitrator.
  bool complete() const;
  /// Has state to go on from, and reports windows.
  bool trains(std::uint32_t rank) const { return !state_.members[rank].serves; }
  /// Whoever ends from here on does as asked.
  void stop_asked() { state_.stop_was_asked = true; }
  /// The workers have come to the end of training, not only one that says so: nobody can join any more.
  bool ending(double now_seconds) const;
  /// Once the run is over: members that were lost and have never said that training is complete, on more machines than
  /// those that have. Empty: it is complete by all that is known.
  std::string doubts() const;
  /// Why the run is over: nobody is present, and nobody can still come. Empty: it is not.
  std::string over(double now_seconds) const;
  std::size_t count(member_state state) const;
  /// "cy and dot": for messages to people.
  std::string names(member_state state) const;
  std::string names(const std::vector<std::uint32_t>& ranks) const;

private:
  messages::welcome refuse(messages::welcome_verdict verdict, std::string detail) const;
  messages::welcome check(const messages::hello& hello, double now_seconds) const;
  messages::welcome check_guest(const messages::hello& hello, double now_seconds) const;
  void adopt(const messages::hello& hello, double now_seconds);
  void gone(std::uint32_t rank, member_state how, const std::string& detail, double now_seconds);
  void apply(const membership_change& change, double now_seconds);
  void judge_trial(double now_seconds, const membership_change& change);

  std::string cluster_;
  std::uint64_t digest_;
  cluster::timeouts timeouts_;
  std::uint64_t highest_term_ = 0;
  double looked_seconds_ = -1; ///< last `next`
  membership_state state_;
};

} // namespace dynamix::actors
