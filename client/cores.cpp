#include "client/cores.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <iterator>
#include <memory>
#include <sched.h>
#include <set>
#include <unistd.h>

namespace dynamix::client {
namespace {

constexpr std::uint32_t cpus_max = 4096; ///< of one machine

void add_cpus(const cpu_core& core, std::vector<std::uint32_t>& cpus) {
  cpus.insert(cpus.end(), core.begin(), core.end());
}

std::vector<std::uint32_t> common_cpus(const std::vector<std::uint32_t>& some,
                                       const std::vector<std::uint32_t>& other) {
  std::vector<std::uint32_t> both;
  std::ranges::set_intersection(some, other, std::back_inserter(both));
  return both;
}

/// How many workers each node has: the next one always goes to the node that has most cores for it. There are at least
/// as many cores as workers, so no node gets more of them than it has cores.
std::vector<std::size_t> deal_workers(const machine_cores& machine, std::size_t workers) {
  std::vector<std::size_t> dealt(machine.size(), 0);
  for (std::size_t worker = 0; worker < workers; ++worker) {
    std::size_t best = 0;
    for (std::size_t node = 1; node < machine.size(); ++node)
      if (machine[node].size() * (dealt[best] + 1) > machine[best].size() * (dealt[node] + 1))
        best = node;
    ++dealt[best];
  }
  return dealt;
}

/// Room for the CPUs of any machine.
class cpu_set {
public:
  cpu_set() : set_(CPU_ALLOC(cpus_max), [](cpu_set_t* one) { CPU_FREE(one); }) {}

  /// That the thread may use, rising; empty: it has ended. 0: the calling one.
  std::vector<std::uint32_t> of(pid_t thread) {
    std::vector<std::uint32_t> cpus;
    if (::sched_getaffinity(thread, bytes_, set_.get()) != 0)
      return cpus;
    for (std::uint32_t cpu = 0; cpu < cpus_max; ++cpu)
      if (CPU_ISSET_S(cpu, bytes_, set_.get()))
        cpus.push_back(cpu);
    return cpus;
  }
  bool give(pid_t thread, const std::vector<std::uint32_t>& cpus) {
    CPU_ZERO_S(bytes_, set_.get());
    for (const auto cpu : cpus)
      CPU_SET_S(cpu, bytes_, set_.get());
    return ::sched_setaffinity(thread, bytes_, set_.get()) == 0;
  }

private:
  const std::size_t bytes_ = CPU_ALLOC_SIZE(cpus_max);
  std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set_;
};

std::vector<pid_t> own_threads() {
  std::vector<pid_t> threads;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task", none)) {
    const auto name = entry.path().filename().string();
    pid_t thread = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), thread).ec == std::errc())
      threads.push_back(thread);
  }
  return threads;
}

/// The list in a file; empty where there is none.
std::vector<std::uint32_t> read_cpu_list(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return parse_cpu_list(line);
}

} // namespace

std::vector<std::uint32_t> parse_cpu_list(const std::string& text) {
  std::set<std::uint32_t> cpus;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto take = [&](std::uint32_t& number) {
    const auto [stopped, error] = std::from_chars(at, end, number);
    at = stopped;
    return error == std::errc();
  };
  for (std::uint32_t first = 0; take(first);) {
    auto last = first;
    if (at != end && *at == '-' && (++at, !take(last)))
      break;
    for (auto cpu = first; cpu <= std::min(last, cpus_max - 1); ++cpu)
      cpus.insert(cpu);
    if (at == end || *at++ != ',')
      break;
  }
  return {cpus.begin(), cpus.end()};
}

std::string to_cpu_list(const std::vector<std::uint32_t>& cpus) {
  std::string text;
  for (std::size_t first = 0; first < cpus.size();) {
    auto last = first;
    while (last + 1 < cpus.size() && cpus[last + 1] == cpus[last] + 1)
      ++last;
    text += fmt::format("{}{}", text.empty() ? "" : ",", cpus[first]);
    if (last > first)
      text += fmt::format("-{}", cpus[last]);
    first = last + 1;
  }
  return text;
}

machine_cores describe_cores(const std::string& root, const std::vector<std::uint32_t>& allowed) {
  std::vector<std::vector<std::uint32_t>> nodes;
  for (const auto number : read_cpu_list(root + "/node/online"))
    nodes.push_back(common_cpus(read_cpu_list(fmt::format("{}/node/node{}/cpulist", root, number)), allowed));
  std::size_t known = 0;
  for (const auto& node : nodes)
    known += node.size();
  if (known != allowed.size())
    nodes = {allowed};
  machine_cores machine;
  for (const auto& node : nodes) {
    std::vector<cpu_core> cores;
    std::set<std::uint32_t> left(node.begin(), node.end());
    while (!left.empty()) {
      const auto cpu = *left.begin();
      auto core = common_cpus(read_cpu_list(fmt::format("{}/cpu/cpu{}/topology/thread_siblings_list", root, cpu)),
                              {left.begin(), left.end()});
      if (!std::ranges::binary_search(core, cpu))
        core = {cpu};
      for (const auto one : core)
        left.erase(one);
      cores.push_back(std::move(core));
    }
    if (!cores.empty())
      machine.push_back(std::move(cores));
  }
  return machine;
}

machine_cores read_machine_cores(const std::string& root) {
  return describe_cores(root, allowed_cpus());
}

std::vector<std::uint32_t> allowed_cpus() {
  return cpu_set().of(0);
}

std::vector<std::vector<std::uint32_t>> split_cores(const machine_cores& machine, std::size_t workers) {
  std::vector<std::vector<std::uint32_t>> parts(workers);
  std::size_t cores = 0;
  for (const auto& node : machine)
    cores += node.size();
  if (workers == 0 || cores < workers)
    return parts;
  if (workers <= machine.size()) {
    for (std::size_t node = 0; node < machine.size(); ++node)
      for (const auto& core : machine[node])
        add_cpus(core, parts[node * workers / machine.size()]);
  } else {
    const auto dealt = deal_workers(machine, workers);
    std::size_t next = 0;
    for (std::size_t node = 0; node < machine.size(); ++node) {
      const auto& here = machine[node];
      for (std::size_t core = 0; dealt[node] > 0 && core < here.size(); ++core)
        add_cpus(here[core], parts[next + core * dealt[node] / here.size()]);
      next += dealt[node];
    }
  }
  for (auto& part : parts)
    std::ranges::sort(part);
  return parts;
}

std::vector<std::uint32_t> cpus_to_keep(const std::vector<std::uint32_t>& present,
                                        const std::vector<std::uint32_t>& given) {
  if (given.empty())
    return present;
  auto both = common_cpus(present, given);
  return both.empty() ? given : both;
}

std::string keep_to_cpus(const std::vector<std::uint32_t>& given) {
  cpu_set set;
  const auto present = set.of(0);
  if (given.empty() || present.empty())
    return "";
  if (common_cpus(present, given).empty())
    return fmt::format("this process may use none of the CPUs {} that the agent gives it, and stays where it is",
                       to_cpu_list(given));
  const auto kept = cpus_to_keep(present, given);
  if (kept == present)
    return "";
  for (const auto thread : own_threads()) // one that has ended meanwhile needs none
    if (!set.give(thread, cpus_to_keep(set.of(thread), given)) && thread == ::getpid())
      return fmt::format("this process cannot be kept to the CPUs {}: {}", to_cpu_list(kept), std::strerror(errno));
  return fmt::format("this process keeps to the CPUs {}, its part of the host ([[host]] bind_cores)",
                     to_cpu_list(kept));
}

} // namespace dynamix::client
