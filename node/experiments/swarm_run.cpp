#include "node/experiments/swarm_run.hpp"

#include "ledger/file.hpp"
#include "node/reports/text.hpp"
#include "swarm/process_usage.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fmt/core.h>
#include <fstream>
#include <thread>
#include <utility>

namespace dynamix::node {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds members_look_interval{20};
constexpr std::chrono::seconds start_patience{60};
constexpr std::chrono::seconds start_patience_each{3}; ///< more for each process: they share this machine's cores
constexpr std::chrono::seconds end_patience{60};
constexpr std::size_t last_words_bytes = 600;

/// The end of what a process said.
std::string last_words(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file)
    return {};
  const auto size = static_cast<std::size_t>(file.tellg());
  const auto wanted = std::min(size, last_words_bytes);
  std::string text(wanted, '\0');
  file.seekg(static_cast<std::streamoff>(size - wanted));
  file.read(text.data(), static_cast<std::streamsize>(wanted));
  return text;
}

class running_swarm {
public:
  running_swarm(const swarm_run_options& options, const swarm_told& told, const std::stop_token& stop)
      : options_(options), told_(told), stop_(stop) {}

  swarm_run run() {
    auto problem = start_deciding();
    if (problem.empty())
      problem = start_parts();
    if (problem.empty()) {
      for (auto& level : made_.levels)
        level.idle_bytes = sum_of(level, &swarm::process_usage::memory_bytes);
      conduct();
      if (made_.outcome.failure.empty() && options_.kill_leader_before > 0 && made_.killed.empty())
        made_.outcome.failure = "no replica had said by then that it leads";
      if (made_.outcome.failure.empty() && options_.orderly_end)
        wait_for_ends();
    } else {
      made_.outcome.failure = problem;
      made_.outcome.stopped = stop_.stop_requested();
    }
    if (!made_.outcome.stopped && !made_.outcome.failure.empty())
      made_.outcome.failure += find_dead();
    return std::move(made_);
  }

private:
  struct member {
    std::string level;
    std::string host; ///< of one that decides
    std::string output;
    child_process process;
    double cpu_before = 0;
  };

  std::string start(const std::string& level, const child_options& options, const std::string& host = "") {
    auto& one = members_.emplace_back(member{.level = level, .host = host, .output = options.output, .process = {}});
    return one.process.start(options);
  }

  std::string start_deciding() {
    for (const auto& level : options_.deciding) {
      made_.levels.push_back({.name = level.name, .processes = static_cast<std::uint32_t>(level.processes.size())});
      for (std::size_t i = 0; i < level.processes.size(); ++i)
        if (auto problem = start(level.name, level.processes[i], level.hosts[i]); !problem.empty())
          return problem;
    }
    for (const auto& level : options_.deciding)
      for (const auto port : level.ports)
        if (auto problem = wait_until_listening(level.name, port); !problem.empty())
          return problem;
    return {};
  }

  std::string wait_until_listening(const std::string& level, std::uint16_t port) {
    for (const auto deadline = clock::now() + start_patience + members_.size() * start_patience_each;
         clock::now() < deadline; std::this_thread::sleep_for(members_look_interval)) {
      if (stop_.stop_requested())
        return "stopped before the end";
      if (swarm::is_listening(port))
        return {};
      if (std::ranges::any_of(members_, [](auto& each) { return !each.process.running(); }))
        return "a process has ended before it listened";
    }
    return fmt::format("the {} does not listen on port {}", level, port);
  }

  std::string start_parts() {
    made_.levels.push_back({.name = "workers", .processes = static_cast<std::uint32_t>(options_.parts.size())});
    for (auto part : options_.parts) {
      auto [ours, theirs] = swarm::channel::make_pair();
      part.input = theirs.descriptor();
      if (auto problem = start("workers", part); !problem.empty())
        return problem;
      channels_.push_back(std::move(ours));
    }
    told_(fmt::format("starting {} processes", members_.size()));
    return swarm::wait_until_up(
        channels_, std::chrono::duration<double>(start_patience + members_.size() * start_patience_each).count(),
        stop_);
  }

  void conduct() {
    const auto& wanted = options_.conductor;
    const swarm::conductor_hooks hooks{
        .joining =
            [&](std::uint64_t placed) {
              told_(grouped(placed) + " of " + grouped(wanted.workers) + " workers have a place");
            },
        .before_measured = [&] { look_before(); },
        .before_window =
            [&](std::uint64_t window) {
              if (window == options_.kill_leader_before)
                kill_leader();
            },
        .after_measured = [&] { look_after(); },
        .after_window =
            [&](const swarm::swarm_outcome& so_far) {
              const auto counted = std::exchange(counted_, so_far.end_to_applied.size());
              if (so_far.windows == options_.kill_leader_before)
                made_.after_kill.assign(so_far.end_to_applied.begin() + static_cast<std::ptrdiff_t>(counted),
                                        so_far.end_to_applied.end());
              told_(swarm_progress(so_far, wanted.windows));
            }};
    made_.outcome = swarm::conduct(wanted, channels_, hooks, stop_);
  }

  /// The newest that the ledger names.
  void kill_leader() {
    std::string leader;
    std::string ignored;
    for (const auto& row : ledger::read_file(options_.ledger, ignored))
      if (const auto* event = std::get_if<ledger::event>(&row.entry);
          event != nullptr && event->event == ledger::event_kind::leader)
        leader = event->host;
    const auto found = std::ranges::find(members_, leader, &member::host);
    if (leader.empty() || found == members_.end())
      return;
    found->process.signal(SIGKILL);
    made_.killed = leader;
  }

  template <class Value>
  Value sum_of(const level_usage& level, Value swarm::process_usage::*value) {
    Value sum{};
    for (auto& each : members_)
      if (each.level == level.name)
        if (const auto usage = swarm::usage_of(each.process.id()))
          sum += (*usage).*value;
    return sum;
  }

  void look_before() {
    for (auto& each : members_)
      if (const auto usage = swarm::usage_of(each.process.id()))
        each.cpu_before = usage->cpu_seconds;
  }

  void look_after() {
    for (auto& level : made_.levels) {
      for (auto& each : members_) {
        const auto usage = each.level == level.name ? swarm::usage_of(each.process.id()) : std::nullopt;
        if (!usage)
          continue;
        const auto seconds = usage->cpu_seconds - each.cpu_before;
        level.cpu_seconds += seconds;
        level.busiest_cpu_seconds = std::max(level.busiest_cpu_seconds, seconds);
        level.memory_bytes += usage->memory_bytes;
      }
    }
  }

  void wait_for_ends() {
    told_("waiting for the results");
    for (const auto deadline = clock::now() + end_patience; clock::now() < deadline && !stop_.stop_requested();
         std::this_thread::sleep_for(members_look_interval))
      if (std::ranges::none_of(members_, [](auto& each) { return each.process.running(); }))
        return;
  }

  /// ": arbitrator ended with exit code 1: ..." of the first that ended in another way than well.
  std::string find_dead() {
    for (auto& each : members_)
      if (const auto exit = each.process.poll();
          exit && !exit->well() && (each.host.empty() || each.host != made_.killed))
        return "; a process of level \"" + each.level + "\" ended with " + to_string(*exit) + "\n" +
               last_words(each.output);
    return {};
  }

  const swarm_run_options& options_;
  const swarm_told& told_;
  const std::stop_token& stop_;
  std::vector<member> members_;
  std::vector<swarm::channel> channels_;
  std::size_t counted_ = 0; ///< decisions in windows that count, when the newest of them was over
  swarm_run made_;
};

} // namespace

swarm_run run_swarm(const swarm_run_options& options, const swarm_told& told, const std::stop_token& stop) {
  return running_swarm(options, told, stop).run();
}

} // namespace dynamix::node
