#include "node/experiments/fault_scripts.hpp"

#include "node/launch/client_cluster.hpp"
#include "node/launch/launcher.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <thread>
#include <utility>

namespace dynamix::node {
namespace {

using clock = std::chrono::steady_clock;

/// From one start of a script to its next: one that cannot live does not take the machine.
constexpr std::chrono::seconds start_interval{1};
constexpr std::uint32_t deaths_most = 10; ///< of one worker's script before training begins: it will not
constexpr std::chrono::minutes check_patience{10};
constexpr std::chrono::milliseconds end_look_interval{20};

std::string absolute_path(const std::string& path) {
  return std::filesystem::absolute(path).lexically_normal().string();
}

void wait_for(child_process& process, clock::time_point deadline, const std::stop_token& hurry) {
  while (process.running() && clock::now() < deadline && !hurry.stop_requested())
    std::this_thread::sleep_for(end_look_interval);
}

/// Of what a command has said.
std::string end_of_log(const std::string& path) {
  const auto text = last_lines(path, 1);
  const auto begin = text.find_first_not_of(' ');
  return text.substr(begin, text.find_last_not_of('\n') + 1 - begin);
}

} // namespace

fault_scripts::fault_scripts(const faults::fault_plan& plan, const cluster::cluster_file& file,
                             const run_directory& run)
    : plan_(plan), run_(run) {
  if (plan.script.empty())
    return;
  const auto workers = file.workers();
  std::string host;
  std::size_t slot = 0;
  for (std::size_t rank = 0; rank < workers.size(); ++rank) {
    const auto& name = workers[rank]->name;
    slot = std::exchange(host, cluster::host_of(name)) == host ? slot + 1 : 0;
    auto& made = entries_.emplace_back();
    made.worker = name;
    made.socket = absolute_path(run.agent(rank));
    made.options = command(plan.script, cluster::file_name_of(name) + ".script");
    auto& variables = made.options.environment;
    variables.insert(variables.end(), {{"DYNAMIX_AGENT", made.socket},
                                       {"RANK", std::to_string(rank)},
                                       {"WORLD_SIZE", std::to_string(workers.size())},
                                       {"LOCAL_RANK", std::to_string(slot)},
                                       {"OMP_NUM_THREADS", "1"}});
  }
}

child_options fault_scripts::command(const std::string& text, const std::string& name) const {
  const auto directory = std::filesystem::path(absolute_path(plan_.path)).parent_path().string();
  return {.program = "/bin/sh",
          .arguments = {"-c", "cd -- \"$0\" && exec " + text, directory},
          .environment = {{"DYNAMIX_RUN", absolute_path(run_.path())}},
          .output = run_.log(name)};
}

fault_scripts::entry* fault_scripts::find(const std::string& worker) {
  const auto found = std::ranges::find(entries_, worker, &entry::worker);
  return found == entries_.end() ? nullptr : &*found;
}

std::vector<host_end> fault_scripts::look(host_processes& hosts, bool starts, bool trains) {
  std::vector<host_end> ended;
  const auto now = clock::now();
  for (auto& each : entries_) {
    if (const auto exit = each.process.poll(); exit && !std::exchange(each.seen_ended, true)) {
      each.done = exit->well();
      each.deaths += each.done ? 0 : 1;
      if (!each.done && (!starts || (!trains && each.deaths == deaths_most)))
        complain(each, *exit);
      ended.push_back({each.worker, *exit});
    }
    if (!starts || each.held || each.done || !each.seen_ended || now - each.started < start_interval ||
        !hosts.running(cluster::host_of(each.worker)) || !is_socket(each.socket))
      continue;
    each.started = now;
    each.seen_ended = !each.process.start(each.options).empty();
  }
  return ended;
}

bool fault_scripts::cannot_live() const {
  return std::ranges::any_of(entries_, [](const auto& each) { return each.deaths >= deaths_most; });
}

pid_t fault_scripts::id(const std::string& worker) {
  auto* found = find(worker);
  return found != nullptr && found->process.running() ? found->process.id() : 0;
}

void fault_scripts::signal(const std::string& worker, int number) {
  if (auto* found = find(worker))
    found->process.signal(number);
}

void fault_scripts::signal_all_of(const std::string& host, int number) {
  for (auto& each : entries_)
    if (cluster::host_of(each.worker) == host)
      each.process.signal(number);
}

void fault_scripts::hold_down(const std::string& worker, bool held) {
  if (auto* found = find(worker))
    found->held = held;
}

std::vector<std::string> fault_scripts::finish(std::chrono::seconds patience, const std::stop_token& hurry) {
  const auto deadline = clock::now() + patience;
  for (auto& each : entries_) {
    wait_for(each.process, deadline, hurry);
    if (each.process.running()) {
      each.process.kill_group();
      if (!hurry.stop_requested())
        complaints_.push_back(fmt::format("the script of {} did not end with training", each.worker));
    } else if (const auto exit = each.process.poll(); exit && !exit->well() && !each.seen_ended) {
      complain(each, *exit);
    }
  }
  if (auto problem = run_check(hurry); !problem.empty())
    complaints_.push_back(std::move(problem));
  return std::move(complaints_);
}

void fault_scripts::complain(const entry& of, const child_exit& exit) {
  complaints_.push_back(
      fmt::format("the script of {} ended with {}: {}", of.worker, to_string(exit), end_of_log(of.options.output)));
}

std::string fault_scripts::run_check(const std::stop_token& hurry) {
  if (plan_.check.empty() || hurry.stop_requested())
    return "";
  const auto options = command(plan_.check, "check");
  child_process check;
  if (auto problem = check.start(options); !problem.empty())
    return problem;
  wait_for(check, clock::now() + check_patience, hurry);
  const auto exit = check.poll();
  check.kill_group();
  if (exit && exit->well())
    return "";
  return fmt::format("the plan's check {}: {}", exit ? "ended with " + to_string(*exit) : "does not end",
                     end_of_log(options.output));
}

} // namespace dynamix::node
