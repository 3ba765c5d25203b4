#include "simulator/device_profile.hpp"
#include "swarm/cluster.hpp"
#include "swarm/conductor.hpp"
#include "swarm/part.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <thread>

namespace dynamix::swarm {
namespace {

simulator::scenario scenario_of(std::uint32_t workers) {
  simulator::scenario made{.file = describe(default_cluster(), workers, 20001, "/nonexistent")};
  simulator::device_profile profile{.name = "made up", .source = "made up"};
  for (const double batch : {8.0, 1024.0})
    profile.points.push_back({.batch = batch, .seconds = 0.001 * batch});
  profile.curve = simulator::monotone_curve(profile.points);
  made.profiles.assign(workers, profile);
  return made;
}

/// What the workers of all parts have reported and were told.
struct record {
  std::mutex mutex;
  std::vector<messages::window_report> reports;
};

constexpr std::uint32_t every_rank = 2000;

/// Decides at once: worker r gets 32 + r + window samples, but for one rank, or all, in one window.
class instant_transport final : public transport {
public:
  instant_transport(std::vector<std::uint32_t> ranks, transport_events& events, record& kept, std::uint32_t lost_rank)
      : ranks_(std::move(ranks)), events_(events), kept_(kept), lost_rank_(lost_rank) {}

  void join() override {
    for (const auto rank : ranks_)
      events_.placed(rank);
    counted_.hellos += ranks_.size();
  }
  void prepare(std::vector<messages::window_report> reports) override {
    const std::scoped_lock lock(kept_.mutex);
    kept_.reports.insert(kept_.reports.end(), reports.begin(), reports.end());
    ++window_;
  }
  void send() override {
    for (const auto rank : ranks_) {
      events_.sent(rank);
      ++counted_.sent;
      if ((rank == lost_rank_ || lost_rank_ == every_rank) && window_ == 2)
        continue;
      events_.applied({.key = {1, window_}, .rank = rank, .batch = 32 + rank + static_cast<std::uint32_t>(window_)});
      ++counted_.applied;
    }
  }
  void finish() override {
    for (const auto rank : ranks_)
      events_.left(rank);
  }
  swarm::traffic traffic() const override { return counted_; }

private:
  std::vector<std::uint32_t> ranks_;
  transport_events& events_;
  record& kept_;
  std::uint32_t lost_rank_;
  std::uint64_t window_ = 0;
  swarm::traffic counted_;
};

class Conducted : public ::testing::Test {
protected:
  /// Parts as threads of this process.
  swarm_outcome run(const conductor_options& options, std::uint32_t processes, const std::stop_token& stop = {}) {
    const auto scenario = scenario_of(options.workers);
    std::vector<channel> ours;
    std::vector<std::jthread> threads;
    for (const auto& ranks : deal_ranks(std::vector<std::uint32_t>(options.workers, 1), processes)) {
      auto [here, there] = channel::make_pair();
      ours.push_back(std::move(here));
      threads.emplace_back([this, ranks, &scenario, end = std::move(there)]() mutable {
        run_part(scenario, ranks, end, [&](transport_events& events) {
          return std::make_unique<instant_transport>(ranks, events, kept, lost_rank);
        });
      });
    }
    EXPECT_EQ(wait_until_up(ours, 10, stop), "");
    auto outcome = conduct(options, ours, {}, stop);
    ours.clear(); // parts that are still there end
    return outcome;
  }

  record kept;
  std::uint32_t lost_rank = 1000;
};

conductor_options small_options() {
  return {.workers = 6, .windows = 3, .warm_up = 1, .interval_ms = 20, .decision_patience_seconds = 0.3};
}

TEST_F(Conducted, RunsEveryWindowAndCountsEveryDecision) {
  const auto outcome = run(small_options(), 2);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.windows, 3U);
  EXPECT_EQ(outcome.expected, 24U);
  EXPECT_EQ(outcome.applied, 24U);
  EXPECT_EQ(outcome.lost, 0U);
  EXPECT_EQ(outcome.end_to_applied.size(), 18U); // the warm-up does not count
  EXPECT_EQ(outcome.sent_to_applied.size(), 18U);
  EXPECT_EQ(outcome.last_applied.size(), 3U);
  EXPECT_EQ(outcome.traffic.sent, 18U);
  EXPECT_EQ(outcome.whole.sent, 24U);
  EXPECT_EQ(outcome.whole.hellos, 6U);
  EXPECT_EQ(outcome.farewells, 6U);
  EXPECT_GE(outcome.measured_seconds, 0.04);
  for (const auto seconds : outcome.end_to_applied)
    EXPECT_GE(seconds, 0);
}

TEST_F(Conducted, PutsDecisionsInForceAsTrainingDoes) {
  run(small_options(), 3);
  ASSERT_EQ(kept.reports.size(), 24U);
  for (const auto& report : kept.reports) {
    EXPECT_EQ(report.first_step, 10 * (report.window - 1));
    EXPECT_EQ(report.batch, report.window == 1 ? 64 : 32 + report.rank + report.window - 1) << report.window;
    // Two of ten steps ran under the batch size before.
    const auto before = report.window == 1 ? 64 : report.window == 2 ? 64 : report.batch - 1;
    EXPECT_EQ(report.training.samples, 2 * before + 8 * report.batch);
  }
}

TEST_F(Conducted, WaitsAWindowLongerWhereWindowsHaveNoStepsToSpare) {
  auto options = small_options();
  options.window_steps = 4;
  run(options, 1);
  for (const auto& report : kept.reports)
    EXPECT_EQ(report.batch, report.window <= 2 ? 64 : 32 + report.rank + report.window - 2);
}

TEST_F(Conducted, TellsALostDecisionAndGoesOnWithTheBatchSizeInForce) {
  lost_rank = 4;
  const auto outcome = run(small_options(), 2);
  EXPECT_EQ(outcome.failure, "");
  EXPECT_EQ(outcome.lost, 1U);
  EXPECT_EQ(outcome.applied, 23U);
  for (const auto& report : kept.reports) {
    if (report.rank == 4 && report.window == 3) {
      EXPECT_EQ(report.batch, 32 + 4 + 1U);
    }
  }
}

TEST_F(Conducted, TellsNoLatencyOfAWindowWhoseDecisionsAreAllLost) {
  lost_rank = every_rank;
  const auto outcome = run(small_options(), 2);
  EXPECT_EQ(outcome.lost, 6U);
  EXPECT_EQ(outcome.windows, 3U);
  EXPECT_EQ(outcome.end_to_applied.size(), 12U);
  EXPECT_EQ(outcome.last_applied.size(), 2U);
}

TEST_F(Conducted, StopsWhenItIsTold) {
  std::stop_source source;
  source.request_stop();
  std::vector<channel> parts;
  auto [here, there] = channel::make_pair();
  parts.push_back(std::move(here));
  const auto outcome = conduct(small_options(), parts, {}, source.get_token());
  EXPECT_TRUE(outcome.stopped);
  EXPECT_NE(outcome.failure, "");
}

TEST_F(Conducted, SaysWhenAPartIsGone) {
  std::vector<channel> parts;
  auto [here, there] = channel::make_pair();
  parts.push_back(std::move(here));
  there.close();
  EXPECT_NE(conduct(small_options(), parts, {}, {}).failure.find("ended"), std::string::npos);
}

} // namespace
} // namespace dynamix::swarm
