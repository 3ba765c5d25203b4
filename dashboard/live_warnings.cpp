#include "dashboard/live_run.hpp"
#include "dashboard/warning_limits.hpp"

#include <cstdio>

namespace dynamix::dashboard {
namespace {

constexpr std::uint64_t windows_for_a_verdict = 40;
constexpr std::uint64_t windows_for_a_trend = 120;
constexpr double recent_fault_seconds = 300;
constexpr std::size_t warnings_max = 20;
constexpr std::size_t names_max = 4;

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

std::string fixed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

/// "ada, ben and 3 more"
std::string list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < names_max; ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  return names.size() <= names_max ? text : text + " and " + std::to_string(names.size() - names_max) + " more";
}

void find_stuck(const live_run& run, std::vector<std::string>& found) {
  if (!cluster::adapts(run.file().arbitrator.policy) || run.file().arbitrator.shadow)
    return;
  std::vector<std::string> low;
  std::vector<std::string> high;
  for (const auto& worker : run.workers())
    if (worker.state == worker_state::training && worker.windows_at_bound >= windows_for_a_verdict)
      (worker.report.batch == worker.batch_lowest ? low : high).push_back(worker.name);
  if (!low.empty())
    found.push_back("Stuck at the lowest batch size: " + list(low) + ". A lower batch.lowest gives the policy room.");
  if (!high.empty())
    found.push_back("Stuck at the highest batch size: " + list(high) +
                    ". A higher batch.highest gives the policy room, if memory allows.");
}

void find_collapse(const live_run& run, std::vector<std::string>& found) {
  const auto& arbitrator = run.file().arbitrator;
  const auto& recent = run.recent();
  if (!cluster::has_parameters(arbitrator.policy) || arbitrator.shadow || recent.windows < windows_for_a_trend)
    return;
  if (recent.best_reward - recent.reward > collapse_of(run.file().reward_in_force(), recent.best_reward))
    found.push_back("The reward collapsed: " + fixed(recent.reward) + " lately, " + fixed(recent.best_reward) +
                    " at its best. Unless the cluster became slower, use an earlier policy or arbitrator.mode = "
                    "\"infer\".");
}

void find_faults(const live_run& run, std::vector<std::string>& found) {
  if (run.ended())
    return;
  std::vector<std::string> lost;
  for (const auto& worker : run.workers())
    if (worker.state == worker_state::lost)
      lost.push_back(worker.name);
  if (!lost.empty())
    found.push_back("Not training with the others: " + list(lost) + ".");
  for (const auto& [name, shard] : run.shards())
    if (shard.state == "late" || shard.state == "lost")
      found.push_back("The arbitrator of " + name + " is " + shard.state + ".");
  const auto& marks = run.marks();
  for (auto mark = marks.rbegin(); mark != marks.rend(); ++mark)
    if (mark->kind == "fault" &&
        mark->elapsed_seconds + recent_fault_seconds > static_cast<double>(run.newest(signal::elapsed_seconds)))
      return found.push_back("Lately: " + mark->text + ".");
}

} // namespace

std::vector<std::string> find_live_warnings(const live_run& run) {
  std::vector<std::string> found;
  const auto& recent = run.recent();
  find_faults(run, found);
  if (run.newest(signal::loss) >= diverged_loss)
    found.push_back("Training diverged: the loss is not finite. Try a smaller training.learning_rate or clip_norm.");
  if (recent.windows >= windows_for_a_verdict) {
    if (recent.telemetry_share > telemetry_share_max)
      found.push_back("Telemetry costs " + percent(recent.telemetry_share) +
                      " of the step time. [telemetry] sources = [] turns it off.");
    if (recent.stale_share > stale_share_max)
      found.push_back(percent(recent.stale_share) +
                      " of the reports come too late for their window. A larger cluster.detect_ms waits longer.");
    if (recent.guarded_share > guarded_share_max)
      found.push_back("The guard steps in in " + percent(recent.guarded_share) +
                      " of the windows. The policy does not fit this cluster: train it further, or use "
                      "arbitrator.policy = \"goodput\".");
  }
  find_stuck(run, found);
  find_collapse(run, found);
  for (auto event = run.events().rbegin(); event != run.events().rend() && found.size() < warnings_max; ++event)
    if (event->event == "warning")
      found.push_back((event->host.empty() ? "" : event->host + ": ") + event->text);
  if (found.size() > warnings_max)
    found.resize(warnings_max);
  return found;
}

} // namespace dynamix::dashboard
