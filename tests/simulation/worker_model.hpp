#pragma once

/// A worker's host: runs the real protocol of a worker (session/worker_protocol.hpp) and its real choice of whom to
/// reach, with a modelled connector and a modelled training thread (ring.hpp). In a tree the same process may hold an
/// arbitrator (tree_node.hpp), which comes and goes with it.

#include "session/reconnection.hpp"
#include "session/worker_protocol.hpp"
#include "tests/simulation/network.hpp"
#include "tests/simulation/ring.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::simulation {

class simulated_worker final : public connection_owner {
public:
  using phase = session::worker_protocol::phase;

  simulated_worker(simulation& world, std::uint32_t rank) : world_(world), rank_(rank) {}

  /// A new process; `checkpoint_steps` of the checkpoint that it could go on from.
  void start(std::uint64_t checkpoint_steps);
  void crash();
  void hang();
  void wake();
  /// Its host is asked to end (SIGTERM), and is started again so long after it has. Nothing happens where nobody would
  /// be left to go on.
  void ask_to_leave(std::int64_t restart_delay_us);
  /// Nobody waits for its farewell: it has said it, is gone, or was not asked to leave.
  bool has_left() const { return !alive_ || left_ || !away_; }
  bool leaves() const { return protocol_ && protocol_->leaves(); }
  bool alive() const { return alive_; }
  bool hung() const { return hung_; }
  /// It has come to its end by itself, well or not.
  bool finished() const { return finished_; }
  bool succeeded() const { return succeeded_; }
  bool farewell_heard() const { return farewell_heard_; }

  /// Runs in the process: later when it is stopped, never when it is gone.
  void run(std::uint64_t incarnation, std::function<void()> action);
  void after(std::int64_t delay_us, std::function<void()> action);

  // What the network brings.
  void connection_lost(const connection_ptr& one) override;
  void actor_gone(const connection_ptr& through, const caf::actor_addr& gone) override;
  void answered(std::uint64_t ticket, const answer& said);
  void take_decision(const message<messages::decision>& received);
  void take_placement(const message<messages::placement>& received, const meeting_point& where);
  void take_notice(const message<messages::generation_notice>& received);

  // What the training thread says.
  void training_began() { happen(session::events::training_began{}); }
  void report(const messages::window_report& record);
  void generation_left();

  std::uint32_t rank() const { return rank_; }
  std::uint64_t incarnation() const { return incarnation_; }
  phase now() const { return protocol_ ? protocol_->now() : phase::idle; }
  const messages::placement& newest() const;
  std::uint64_t checkpoint_steps() const { return checkpoint_steps_; }
  session::decision_slot& slot() { return *protocol_->decisions(); }
  training_thread thread; ///< and the state that it holds

private:
  struct performer;

  void happen(session::event what);
  void tick();
  void attempt();
  void attempt_later(double delay_seconds);
  void disconnect();
  void end(const session::effects::end& how);
  void leave_when_over();
  void restart_when_all_left();
  double now_seconds() const;
  /// `then` is told the answer, or that there was none in time.
  void request(const std::function<void(const connection_ptr&, std::uint64_t ticket)>& ask, std::uint32_t timeout_ms,
               std::function<void(const answer&)> then);
  template <class Text>
  void log(Text text) const;

  simulation& world_;
  std::uint32_t rank_;
  std::uint64_t incarnation_ = 0;
  bool alive_ = false;
  bool hung_ = false;
  bool finished_ = false;
  bool succeeded_ = false;
  bool farewell_heard_ = false;
  bool left_ = false;
  std::vector<std::function<void()>> deferred_;

  // The process's own, new with each start.
  std::optional<session::worker_protocol> protocol_;
  connection_ptr link_;                ///< null: the connector is trying
  std::vector<std::uint32_t> targets_; ///< hosts
  session::reconnection next_;
  bool attempt_due_ = false;
  actors::aggregator_actor aggregator_; ///< null while orphaned
  meeting_point store_;                 ///< of the placement that was taken last
  // Came with the event under way.
  actors::aggregator_actor answering_aggregator_;
  meeting_point offered_store_;
  std::uint64_t checkpoint_steps_ = 0;
  std::int64_t restart_delay_us_ = 0; ///< after a leave
  bool away_ = false;                 ///< since it was asked to leave, until it has a place again
  std::map<std::uint64_t, std::function<void(const answer&)>> pending_;
  std::uint64_t tickets_ = 0;
};

} // namespace dynamix::simulation
