#include "client/cores.hpp"
#include "tests/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <random>
#include <sched.h>
#include <thread>
#include <unistd.h>

namespace dynamix::client {
namespace {

using cpus = std::vector<std::uint32_t>;
using cpu_lists = std::vector<cpus>;

/// Nodes of so many cores, one thread each, numbered through.
machine_cores machine_of(const std::vector<std::size_t>& nodes) {
  machine_cores machine;
  std::uint32_t cpu = 0;
  for (const auto cores : nodes) {
    auto& node = machine.emplace_back();
    for (std::size_t core = 0; core < cores; ++core)
      node.push_back({cpu++});
  }
  return machine;
}

TEST(CpuLists, AreReadAndWrittenAsTheKernelWritesThem) {
  EXPECT_EQ(parse_cpu_list("0-3,8,10-11\n"), (cpus{0, 1, 2, 3, 8, 10, 11}));
  EXPECT_EQ(parse_cpu_list("3,1,1-2"), (cpus{1, 2, 3}));
  EXPECT_TRUE(parse_cpu_list("").empty());
  EXPECT_TRUE(parse_cpu_list("nonsense").empty());
  EXPECT_EQ(parse_cpu_list("1-2,x"), (cpus{1, 2}));
  EXPECT_LE(parse_cpu_list("0-18446744073709551615").size(), 4096U);
  for (const std::string text : {"", "5", "0-3,8,10-11", "0,2,4-5"})
    EXPECT_EQ(to_cpu_list(parse_cpu_list(text)), text);
}

TEST(CoreSplit, SharesOneNodeOutInNeighbours) {
  EXPECT_EQ(split_cores(machine_of({8}), 2), (cpu_lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(split_cores(machine_of({8}), 3), (cpu_lists{{0, 1, 2}, {3, 4, 5}, {6, 7}}));
  EXPECT_EQ(split_cores(machine_of({2}), 2), (cpu_lists{{0}, {1}}));
}

TEST(CoreSplit, KeepsWorkersWithinNodes) {
  EXPECT_EQ(split_cores(machine_of({4, 4}), 4), (cpu_lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(split_cores(machine_of({4, 4}), 3), (cpu_lists{{0, 1}, {2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(split_cores(machine_of({6, 2}), 4), (cpu_lists{{0, 1}, {2, 3}, {4, 5}, {6, 7}}))
      << "a set of CPUs cuts a node";
}

TEST(CoreSplit, GivesWholeNodesWhereThereAreMoreOfThemThanWorkers) {
  EXPECT_EQ(split_cores(machine_of({2, 2, 2, 2}), 2), (cpu_lists{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(split_cores(machine_of({2, 2, 2}), 1), (cpu_lists{{0, 1, 2, 3, 4, 5}}));
}

TEST(CoreSplit, NeverCutsACoreBetweenItsThreads) {
  const machine_cores machine = {{{0, 4}, {1, 5}}, {{2, 6}, {3, 7}}};
  EXPECT_EQ(split_cores(machine, 4), (cpu_lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(split_cores(machine, 2), (cpu_lists{{0, 1, 4, 5}, {2, 3, 6, 7}}));
}

TEST(CoreSplit, LeavesWorkersFreeWhereThereAreMoreOfThemThanCores) {
  EXPECT_EQ(split_cores(machine_of({1, 2}), 4), cpu_lists(4));
  EXPECT_EQ(split_cores({}, 2), cpu_lists(2));
  EXPECT_TRUE(split_cores(machine_of({4}), 0).empty());
}

TEST(CoreSplit, GivesEachWorkerCoresOfItsOwnWhateverTheMachineIs) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<std::size_t> nodes(1 + random() % 8);
    std::size_t cores = 0;
    for (auto& node : nodes)
      cores += node = 1 + random() % 16;
    const auto machine = machine_of(nodes);
    const auto workers = 1 + random() % cores;
    const auto split = split_cores(machine, workers);
    ASSERT_EQ(split.size(), workers);
    cpus all;
    for (const auto& part : split) {
      ASSERT_FALSE(part.empty());
      all.insert(all.end(), part.begin(), part.end());
      const auto within = [&](const auto& node) {
        return node.front().front() <= part.front() && part.back() <= node.back().back();
      };
      if (workers > nodes.size()) {
        EXPECT_TRUE(std::ranges::any_of(machine, within)) << "a worker's cores are of two nodes";
      }
    }
    std::ranges::sort(all);
    EXPECT_EQ(std::ranges::adjacent_find(all), all.end()) << "a core is two workers'";
  }
}

/// A made-up /sys/devices/system.
class DescribedCores : public testing::Test {
protected:
  void add_node(int number, const std::string& list) { write("node/node" + std::to_string(number), "cpulist", list); }
  void add_threads(int cpu, const std::string& list) {
    write("cpu/cpu" + std::to_string(cpu) + "/topology", "thread_siblings_list", list);
  }
  void write(const std::string& below, const std::string& name, const std::string& contents) const {
    std::filesystem::create_directories(directory_.file(below));
    directory_.write(below + "/" + name, contents + "\n");
  }
  const temporary_directory directory_;
};

TEST_F(DescribedCores, HaveNodesAndThreads) {
  write("node", "online", "0-1");
  add_node(0, "0-1,4-5");
  add_node(1, "2-3,6-7");
  for (int cpu = 0; cpu < 8; ++cpu)
    add_threads(cpu, std::to_string(cpu % 4) + "," + std::to_string(cpu % 4 + 4));
  EXPECT_EQ(describe_cores(directory_.path(), {0, 1, 2, 3, 4, 5, 6, 7}),
            (machine_cores{{{0, 4}, {1, 5}}, {{2, 6}, {3, 7}}}));
  EXPECT_EQ(describe_cores(directory_.path(), {1, 2, 5}), (machine_cores{{{1, 5}}, {{2}}})) << "of a set of CPUs";
  EXPECT_EQ(describe_cores(directory_.path(), {2, 3, 6, 7}), (machine_cores{{{2, 6}, {3, 7}}}));
}

TEST_F(DescribedCores, AreOneNodeWhereTheSystemDoesNotSay) {
  EXPECT_EQ(describe_cores(directory_.path(), {0, 3}), (machine_cores{{{0}, {3}}}));
  write("node", "online", "0");
  add_node(0, "0-2");
  EXPECT_EQ(describe_cores(directory_.path(), {0, 3}), (machine_cores{{{0}, {3}}})) << "a CPU is of no node";
}

TEST(CpusToKeep, AreThoseThatBothAllow) {
  EXPECT_EQ(cpus_to_keep({0, 1, 2, 3}, {1, 2}), (cpus{1, 2}));
  EXPECT_EQ(cpus_to_keep({2, 3}, {1, 2}), (cpus{2})) << "the user has bound it to fewer";
  EXPECT_EQ(cpus_to_keep({0}, {1, 2}), (cpus{1, 2})) << "a thread that was bound before its process";
  EXPECT_EQ(cpus_to_keep({0, 1}, {}), (cpus{0, 1}));
}

/// The CPUs that a thread of this process may use.
cpus allowed_to(pid_t thread) {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(thread, sizeof set, &set), 0);
  cpus found;
  for (std::uint32_t cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set))
      found.push_back(cpu);
  return found;
}

TEST(KeptToCpus, AreAllThreadsOfAProcessAndThoseThatTheyStart) {
  const auto before = allowed_to(0);
  if (before.size() < 2)
    GTEST_SKIP() << "this process has one CPU";
  std::promise<pid_t> told;
  std::promise<void> over;
  std::thread other([&] {
    told.set_value(gettid());
    over.get_future().wait();
  });
  const auto thread = told.get_future().get();
  const auto line = keep_to_cpus({before.front()});
  EXPECT_NE(line.find("keeps to the CPUs " + std::to_string(before.front())), std::string::npos) << line;
  EXPECT_EQ(allowed_to(0), cpus{before.front()});
  EXPECT_EQ(allowed_to(thread), cpus{before.front()});
  cpus of_later;
  std::thread([&] { of_later = allowed_to(0); }).join();
  EXPECT_EQ(of_later, cpus{before.front()});
  EXPECT_EQ(keep_to_cpus({before.front()}), "") << "nothing is left to change";
  EXPECT_NE(keep_to_cpus({before.back()}).find("stays where it is"), std::string::npos);
  EXPECT_EQ(allowed_to(0), cpus{before.front()}) << "its user's word";
  over.set_value();
  other.join();
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const auto cpu : before)
    CPU_SET(cpu, &set);
  EXPECT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
}

TEST(MachineCores, AreThoseThatThisProcessMayUse) {
  cpus found;
  for (const auto& node : read_machine_cores())
    for (const auto& core : node)
      found.insert(found.end(), core.begin(), core.end());
  std::ranges::sort(found);
  EXPECT_EQ(found, allowed_to(0));
}

} // namespace
} // namespace dynamix::client
