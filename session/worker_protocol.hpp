#pragma once

/// The worker's side of the protocol. Knows no CAF, no clock and no thread: events go in, effects come out, and both
/// depend on nothing but what went in before.

#include "cluster/cluster_file.hpp"
#include "session/events.hpp"
#include "session/leave.hpp"
#include "session/progress_watch.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::session {

struct worker_options {
  cluster::timeouts timeouts;
  std::uint32_t lowest_batch = 1; ///< a decision beyond these is refused
  std::uint32_t highest_batch = messages::max_batch;
  /// Training is another process's, which comes and goes: no hello without it, but for a guest's rank, which that
  /// process is told; and nobody judges how fast it is.
  bool external_trainer = false;
  bool guest = false;    ///< the file does not name its host: it may have to wait for a place, and lose it
  bool balances = false; ///< shares follow the workers' paces, whether an arbitrator is there or not
  bool serves = false;   ///< it sums for the others: it completes no steps, and nobody agrees with it on an end
  std::uint32_t workers = messages::max_workers; ///< ranks from here on only serve
  messages::hello identity; ///< protocol, cluster, digest, host, incarnation, heartbeat, newest checkpoint's steps
};

/// Of the worker on `host`, which is one of the file's workers or joins an open cluster; `digest` is the file's. A
/// decision beyond the limit of that host is refused.
worker_options options_of(const cluster::cluster_file& file, std::uint64_t digest, const std::string& host,
                          std::uint64_t incarnation);

/// A worker's life:
///
///     idle --connected--> greeting --accepted--> waiting --placed--> training --over--> leaving --> ended
///                            |refused               ^                    |
///                            v                      +---- hello ---------+ its generation ended or regroups
///                          ended
///
/// Beside it, the arbitrator may be lost at any time (orphaned): nobody decides batch sizes, training goes on, the
/// newest report that nobody heard is kept, and a hello follows each connect. Greeting repeats with a delay that
/// doubles while the arbitrator's host answers without deciding: its aggregator restarts, or it is not the leader.
///
/// A host that joins an open cluster and finds no place asks again (greeting), until it is told that training is over
/// or nobody has answered for the join time-out.
///
/// An external trainer that goes takes its worker out of the cluster (absence, as if its host were lost), and brings it
/// back when it comes again (hello).
///
/// Leaving depends on why:
///
///     training is over, aggregator in reach --> settle_aggregator --> say_farewell --> end
///     the host leaves --> say_farewell --> finish_training --> end     its peers wait for nothing but the farewell
///     orphaned --> the same without a word to the aggregator
///
/// One that has trained to the end and is orphaned, or whose farewell nobody has heard, looks for an arbitrator for the
/// rejoin time-out first: one that begins anew would wait for workers that have all ended.
class worker_protocol {
public:
  enum class phase : std::uint8_t { idle, greeting, waiting, training, leaving, ended };

  explicit worker_protocol(worker_options options);

  /// What is to be done now, in this order.
  std::vector<effect> handle(const moment& at, event what);

  phase now() const { return phase_; }
  bool orphaned() const { return !aggregator_; }
  bool leaves() const { return leave_asked_seconds_.has_value(); }
  std::uint32_t rank() const { return rank_; }
  /// The newest that was taken; generation 0 before the first.
  const messages::placement& newest() const { return *newest_; }
  /// Null before it has joined.
  decision_slot* decisions() const { return decisions_.get(); }

private:
  enum class farewell_step : std::uint8_t { none, seeking, settling, telling };

  void on(const events::connected& what);
  void on(const events::disconnected& what);
  void on(const events::aggregator_down& what);
  void on(const events::greeting_due& what);
  void on(const events::hello_answered& what);
  void on(const events::heartbeat_answered& what);
  void on(const events::aggregator_settled& what);
  void on(const events::farewell_answered& what);
  void on(const events::decision_received& what);
  void on(const events::placement_received& what);
  void on(const events::notice_received& what);
  void on(const events::stop_requested& what);
  void on(const events::leave_requested& what);
  void on(const events::tick& what);
  void on(const events::trainer_ready& what);
  void on(const events::trainer_lost& what);
  void on(const events::training_began& what);
  void on(events::window_completed& what);
  void on(const events::evaluated& what);
  void on(events::generation_left& what);

  // Finding an arbitrator.
  bool joined() const { return decisions_ != nullptr; }
  /// The arbitrator knows which generation this worker was in last, and whether it trains in it.
  bool known(bool training) const;
  messages::hello hello() const;
  bool reserves() const;
  void greet();
  void greet_later();
  void say_hello();
  void accepted(const messages::welcome& welcome);
  void refused(const messages::welcome& welcome);
  void orphan(const char* why);
  void tell_absence();
  // Being there.
  void beat();
  void look_for_answer();
  void send_waiting_report();
  void interrupt(const std::string& reason);
  // Coming to an end.
  messages::farewell farewell() const;
  void conclude();
  void settle();
  bool may_seek() const;
  void seek();
  void part();
  bool end_between_generations();
  void look_after_leave();
  void tell_farewell();
  void farewell_told();
  void end(bool succeeded, const std::string& reason);

  void emit(effect one) { effects_.push_back(std::move(one)); }
  void log(effects::log_level level, std::string text) { emit(effects::log{level, std::move(text)}); }

  worker_options options_;
  moment at_; ///< of the event under way
  std::vector<effect> effects_;
  phase phase_ = phase::idle;
  // The arbitrator.
  bool gateway_ = false;       ///< in reach
  bool aggregator_ = false;    ///< followed; otherwise orphaned
  std::uint32_t group_ = 0;    ///< of the process that trains, which may be formed anew while it does
  bool ready_;                 ///< to train
  std::string absent_because_; ///< set from the trainer's loss until the next welcome
  bool greeting_under_way_ = false;
  std::uint64_t greetings_ = 0; ///< hellos said; only the answer to the newest counts
  std::uint64_t said_generation_ = 0;
  bool said_training_ = false;
  std::uint32_t said_group_ = 0;
  std::uint64_t known_generation_ = 0; ///< as the newest hello said that was accepted
  bool known_training_ = false;        ///< the same
  std::uint32_t known_group_ = 0;      ///< the same
  double greeting_delay_seconds_ = 0;
  std::string waits_because_;                     ///< it has no place; as it was said last
  std::optional<double> answered_seconds_;        ///< when a hello was last answered; before that, the first tick
  std::optional<double> duplicate_since_seconds_; ///< refused since then: its former process seems to be there still
  // Training.
  std::uint32_t rank_ = 0;
  std::shared_ptr<decision_slot> decisions_;          ///< null before it has joined
  std::shared_ptr<const messages::placement> newest_; ///< never null
  progress_watch watch_;                              ///< of the training thread
  std::optional<messages::window_report>
      unheard_; ///< the newest report that waits for an aggregator, or for its answers
  std::optional<messages::window_report> undecided_; ///< the newest that was sent, until a decision on it has come
  std::uint32_t reports_under_way_ = 0;              ///< to the aggregator
  double telemetry_seconds_ = 0;                     ///< that measuring cost
  // The end.
  bool stop_asked_ = false;
  bool finishing_ = false; ///< no other placement is waited for
  std::optional<double> leave_asked_seconds_;
  leave_step leaving_by_ = leave_step::go;       ///< newest
  std::string left_because_;                     ///< set once it has parted from the others
  std::optional<std::uint64_t> attempted_steps_; ///< of the generation that was left last; none: none was
  messages::farewell account_;                   ///< training's own, of the same
  farewell_step farewell_step_ = farewell_step::none;
  double concluded_seconds_ = 0; ///< when training had ended
};

} // namespace dynamix::session
