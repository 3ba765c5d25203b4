// Who shares cores with others (session/core_sharing.hpp), measured and in the steps of all.

#include "client/core_demand.hpp"
#include "client/cores.hpp"
#include "client/lockstep.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <thread>

namespace dynamix::client {
namespace {

using testing::Each;
using testing::ElementsAre;

/// Members of which each computes for so many seconds a sample.
class SharedCores : public testing::Test {
protected:
  void begin(std::vector<double> sample_seconds, messages::balancing balances) {
    sample_seconds_ = std::move(sample_seconds);
    for (std::uint32_t i = 0; i < sample_seconds_.size(); ++i) {
      steps_.emplace_back(
          lockstep_options{.position = i,
                           .members = std::vector<member_batch>(sample_seconds_.size(), {.initial = 64}),
                           .samples = 1 << 20,
                           .balances = balances});
      steps_.back().start_epoch();
    }
  }

  /// Returns the batch sizes of the next step. `decided`: what all members hold, if anything.
  std::vector<std::uint32_t> step(std::vector<std::uint32_t> decided = {}) {
    std::vector<step_row> rows;
    window_ += decided.empty() ? 0 : 1;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      dealt_step dealt;
      steps_[i].deal(dealt);
      steps_[i].deliver();
      steps_[i].computed(sample_seconds_[i] * static_cast<double>(dealt.own));
      std::array<messages::decision, 2> held{};
      if (!decided.empty())
        held[0] = {.key = {1, window_}, .batch = decided[i]};
      rows.push_back(steps_[i].write_row(held, session::step_request::none, 1, 0));
    }
    for (auto& member : steps_) {
      session::agreement agreed;
      EXPECT_EQ(member.read_rows(rows, agreed), "");
      member.rate(0);
      member.complete(false);
      EXPECT_EQ(member.newest_batches().batches, steps_[0].newest_batches().batches);
    }
    return steps_[0].newest_batches().batches;
  }

  std::vector<std::uint32_t> steps(int count) {
    for (int i = 1; i < count; ++i)
      step();
    return step();
  }

  std::vector<lockstep> steps_;

private:
  std::vector<double> sample_seconds_;
  std::uint64_t window_ = 0;
};

session::core_use use(std::uint32_t set) {
  return {.set = set, .cpus = 1, .demand_percent = 100};
}

TEST_F(SharedCores, MoveNothingBeforeAllHaveToldOfTheirs) {
  begin({1, 1, 4}, messages::balancing::automatic);
  EXPECT_THAT(steps(30), Each(64));
  steps_[0].measured_cores(use(1));
  steps_[1].measured_cores(use(2));
  EXPECT_THAT(steps(30), Each(64));
  steps_[2].measured_cores(use(3));
  EXPECT_LT(step()[2], 32U) << "in the step in which the last one tells";
  EXPECT_EQ(steps_[0].take_balance().shared_cpus, 0U);
}

TEST_F(SharedCores, KeepWhatWasDecidedWhileOthersShareByTheirPaces) {
  begin({1, 4, 1, 4}, messages::balancing::automatic);
  for (std::uint32_t i = 0; i < 4; ++i)
    steps_[i].measured_cores(use(i < 2 ? 7 : i)); // the first two compute on one core
  const auto shares = steps(30);
  EXPECT_EQ(shares[0], 64U);
  EXPECT_EQ(shares[1], 64U);
  EXPECT_EQ(shares[2] + shares[3], 128U);
  for (std::size_t i = 0; i < 4; ++i) {
    const auto told = steps_[i].take_balance();
    EXPECT_EQ(told.shared_cpus, i < 2 ? 1U : 0U);
    EXPECT_EQ(told.shared_demand, i < 2 ? 2 : 0);
  }
  const auto decided = step({40, 50, 60, 70});
  EXPECT_EQ(decided[0], 40U);
  EXPECT_EQ(decided[1], 50U);
  EXPECT_EQ(decided[2] + decided[3], 130U);
  EXPECT_THAT(steps(5)[1], 50U);
}

TEST_F(SharedCores, CountForNothingWhereSharesFollowPacesAnyhow) {
  begin({1, 4}, messages::balancing::shares);
  for (auto& member : steps_)
    member.measured_cores(use(7));
  EXPECT_LT(steps(30)[1], 32U);
}

TEST_F(SharedCores, AreToldAnewByThoseWhoTrainTogetherFromNowOn) {
  begin({1, 4, 1}, messages::balancing::automatic);
  for (std::uint32_t i = 0; i < 3; ++i)
    steps_[i].measured_cores(use(i == 2 ? 7 : i + 1));
  steps(30);
  for (auto& member : steps_) {
    member.regroup({true, true, true});
    EXPECT_TRUE(member.shared_cores().empty());
  }
  const auto before = steps_[0].newest_batches().batches;
  EXPECT_EQ(steps(20), before);
  for (auto& member : steps_)
    member.measured_cores(use(7));
  step();
  EXPECT_EQ(steps_[0].shared_cores()[2].cpus, 1U);
  EXPECT_EQ(steps(20), before);
}

/// Keeps this many threads on the CPUs that the test may use at present for as long as it lives.
class burning_threads {
public:
  explicit burning_threads(int count) {
    for (int i = 0; i < count; ++i)
      threads_.emplace_back([this] {
        while (!over_)
          ;
      });
  }
  ~burning_threads() {
    over_ = true;
    for (auto& each : threads_)
      each.join();
  }

private:
  std::atomic<bool> over_ = false;
  std::vector<std::thread> threads_;
};

void keep_to(const std::vector<std::uint32_t>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const auto cpu : cpus)
    CPU_SET(cpu, &set);
  ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
}

session::core_use measured(std::chrono::milliseconds step) {
  core_demand demand;
  for (int i = 0; i < 20 && demand.use().cpus == 0; ++i) {
    std::this_thread::sleep_for(step);
    demand.step_ended(std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count());
  }
  return demand.use();
}

/// They run half of the time that one does alone, and ask for twice as much as there is.
TEST(CoreDemand, CountsThreadsThatWaitForACpu) {
  if (!std::ifstream("/proc/self/schedstat"))
    GTEST_SKIP() << "this kernel does not tell how long threads wait";
  const auto cpus = allowed_cpus();
  keep_to({cpus.back()});
  const auto alone = [&] {
    const burning_threads threads(1);
    return measured(std::chrono::milliseconds(20));
  }();
  const auto crowded = [&] {
    const burning_threads threads(3);
    return measured(std::chrono::milliseconds(20));
  }();
  keep_to(cpus);
  EXPECT_EQ(alone.cpus, 1);
  EXPECT_EQ(crowded.set, alone.set);
  EXPECT_GT(crowded.demand_percent, 150) << "nearly 300";
  EXPECT_LT(alone.demand_percent, crowded.demand_percent) << "nearly 100; on a busy machine who measures waits, too";
  EXPECT_LT(measured(std::chrono::milliseconds(20)).demand_percent, crowded.demand_percent) << "nobody computes";
}

TEST(CoreDemand, TellsOneSetOfCpusFromAnother) {
  const auto cpus = allowed_cpus();
  if (cpus.size() < 2)
    GTEST_SKIP() << "needs two CPUs";
  const auto all = measured(std::chrono::milliseconds(10));
  keep_to({cpus[0]});
  const auto first = measured(std::chrono::milliseconds(10));
  keep_to({cpus[1]});
  const auto second = measured(std::chrono::milliseconds(10));
  keep_to(cpus);
  EXPECT_NE(first.set, second.set);
  EXPECT_NE(first.set, all.set);
  EXPECT_EQ(all.cpus, cpus.size());
  EXPECT_EQ(measured(std::chrono::milliseconds(10)).set, all.set);
}

TEST(CoreDemand, IsReadTwiceAndBehindEnoughStepsAndTime) {
  core_demand demand;
  for (int i = 0; i < 100; ++i) {
    demand.step_ended(0.0001 * i);
    EXPECT_EQ(demand.use().cpus, 0) << "too short a time";
  }
  demand.step_ended(0.06);
  EXPECT_GT(demand.use().cpus, 0);
  core_demand slow;
  for (int i = 0; i < 8; ++i) {
    slow.step_ended(10.0 * i);
    EXPECT_EQ(slow.use().cpus, 0) << "too few steps";
  }
  slow.step_ended(80);
  EXPECT_GT(slow.use().cpus, 0);
  const auto before = slow.use();
  slow.step_ended(1e9);
  EXPECT_EQ(slow.use().demand_percent, before.demand_percent);
}

} // namespace
} // namespace dynamix::client
