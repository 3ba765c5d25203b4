#pragma once

/// What a seed does to the cluster.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dynamix::simulation {

class simulation;

enum class fault_kind : std::uint8_t {
  reset,           ///< a worker's connection breaks
  cut,             ///< a worker's link is silent for a while
  cut_half,        ///< the links of several workers are, and so are those between them and the others
  cut_peers,       ///< two workers do not reach each other
  crash,           ///< a worker's process dies and is started again
  hang,            ///< it is stopped, and goes on
  leave,           ///< a worker's host is asked to end, by its provider perhaps, and is started again
  slow_network,    ///< messages take long
  kill_arbitrator, ///< the actor; its supervisor starts it again
  kill_aggregator,
  kill_gateway,
  crash_host, ///< the arbitrator's process, started again without memory
  freeze_host,
  // Of a tree.
  kill_shard, ///< the actor; its supervisor starts it again
  kill_shard_arbitrator,
  kill_shard_gateway,
  cut_parent, ///< a shard's host and its parent's do not hear each other
  command,    ///< a person adds, drains or moves a shard
};
constexpr std::uint32_t fault_kinds = 13;
constexpr std::uint32_t tree_fault_kinds = 18;

/// When a fault strikes: at its time, or soon after the next event of a kind, counted from its time.
enum class fault_trigger : std::uint8_t { time, formation, decision, ending, hello, farewell };
constexpr std::uint32_t fault_triggers = 6;

struct planned_fault {
  fault_kind kind = fault_kind::reset;
  fault_trigger trigger = fault_trigger::time;
  std::int64_t at_us = 0;
  std::int64_t delay_us = 0; ///< behind the trigger
  std::int64_t duration_us = 0;
  std::uint32_t rank = 0;
  std::uint32_t other = 0;
  bool preempts = false; ///< of a leave: the host is taken back when its time is over, whether it has left or not
  bool done = false;
};

class fault_injector {
public:
  explicit fault_injector(simulation& world) : world_(world) {}

  /// Draws a plan; some seeds have none.
  void plan(std::int64_t horizon_us, std::uint32_t most);
  /// An event that faults may wait for.
  void notice(fault_trigger what);
  /// No fault strikes any more.
  void stop() { stopped_ = true; }
  /// What a fault has brought about goes on until now.
  void felt();
  std::uint64_t struck() const { return struck_; }
  std::int64_t last_us() const { return last_us_; }
  bool harmless() const { return plan_.empty(); }
  /// Nothing has happened but that hosts left, each in its time, and shards were added, drained or moved.
  bool orderly() const { return orderly_; }

private:
  void strike(const planned_fault& fault);
  void strike_worker(const planned_fault& fault);
  void ask_to_leave(const planned_fault& fault);
  void strike_host(const planned_fault& fault);
  void strike_tree(const planned_fault& fault);
  void command(const planned_fault& fault);
  /// What the fault has brought about ends after its time.
  void end_later(const planned_fault& fault, std::function<void()> undo);
  void cut_from_all(std::uint32_t host, const planned_fault& fault);

  simulation& world_;
  std::vector<planned_fault> plan_;
  bool stopped_ = false;
  bool orderly_ = true;
  std::uint64_t struck_ = 0;
  std::int64_t last_us_ = -1; ///< when a fault last struck or ended
};

} // namespace dynamix::simulation
