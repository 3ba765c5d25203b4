#include "policy/window_watch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <vector>

namespace dynamix::policy {
namespace {

/// Workers of one batch size whose steps take a second, but for noise and a slow-down of the first one.
class noisy_cluster {
public:
  noisy_cluster(std::size_t workers, double noise, window_options options, std::uint64_t seed)
      : trackers_(workers), watches_(workers, window_watch(options, 0)), noise_(noise), numbers_(seed) {}

  window_end step(double slowdown) {
    std::normal_distribution<double> normal;
    std::vector<float> notes;
    ++steps_;
    for (std::size_t i = 0; i < trackers_.size(); ++i) {
      const double seconds = (i == 0 ? slowdown : 1) * std::exp(noise_ * normal(numbers_));
      trackers_[i].measure(100, seconds);
      longest_ = std::max(longest_, seconds);
    }
    seconds_ += longest_;
    longest_ = 0;
    for (std::size_t i = 0; i < trackers_.size(); ++i)
      notes.push_back(watches_[i].note(trackers_[i], seconds_));
    auto end = window_end::none;
    for (std::size_t i = 0; i < watches_.size(); ++i) {
      const auto own = watches_[i].close(steps_, notes);
      EXPECT_TRUE(i == 0 || own == end) << "step " << steps_;
      end = own;
    }
    if (end != window_end::none)
      seconds_ = 0;
    return end;
  }
  std::uint64_t steps() const { return steps_; }
  const window_watch& first() const { return watches_.front(); }

private:
  std::vector<pace_tracker> trackers_;
  std::vector<window_watch> watches_;
  double noise_;
  std::mt19937_64 numbers_;
  std::uint64_t steps_ = 0;
  double seconds_ = 0;
  double longest_ = 0;
};

const window_options by_surprise{.surprise = true};

TEST(WindowWatch, TakesNoiseForASurpriseLessThanOnceAnHour) {
  for (const double noise : {0.03, 0.1}) {
    constexpr int hours = 50;
    noisy_cluster cluster(8, noise, by_surprise, 7);
    std::uint64_t surprises = 0;
    std::uint64_t windows = 0;
    for (int step = 0; step < hours * 3600; ++step) {
      const auto end = cluster.step(1);
      surprises += end == window_end::surprise ? 1 : 0;
      windows += end != window_end::none ? 1 : 0;
    }
    EXPECT_LE(surprises, hours) << noise;
    EXPECT_GE(windows, hours * 360 - surprises) << noise;
    RecordProperty("surprises_an_hour_" + std::to_string(noise), std::to_string(1.0 * surprises / hours));
  }
}

TEST(WindowWatch, ClosesAWindowInTheStepThatIsSlow) {
  std::size_t late = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    noisy_cluster cluster(4, 0.05, by_surprise, seed);
    for (std::uint64_t step = 0; step < 101 + seed % 7; ++step)
      cluster.step(1);
    std::size_t delay = 1;
    while (cluster.step(2) != window_end::surprise)
      ASSERT_LT(++delay, 10U);
    late += delay > 1 ? 1 : 0;
    EXPECT_TRUE(cluster.first().agrees(cluster.steps() + by_surprise.settle_steps));
  }
  EXPECT_LE(late, 2U);
}

/// Ends of windows, by the step, where these workers lay these notes.
std::vector<std::uint64_t> ends_of(const window_options& options, std::uint64_t steps,
                                   const std::function<float(std::uint64_t)>& note) {
  window_watch watch(options, 0);
  std::vector<std::uint64_t> ends;
  for (std::uint64_t step = 1; step <= steps; ++step)
    if (watch.close(step, std::vector{0.0F, note(step)}) != window_end::none)
      ends.push_back(step);
  return ends;
}

TEST(WindowWatch, ClosesEachNumberOnceAndGivesTheRestToTheNext) {
  EXPECT_EQ(ends_of(by_surprise, 30, [](auto) { return 0.0F; }), (std::vector<std::uint64_t>{10, 20, 30}));
  const auto surprised_at = [](std::uint64_t one, std::uint64_t other) {
    return ends_of(by_surprise, 30, [=](auto step) { return step == one || step == other ? 3.0F : 0.0F; });
  };
  EXPECT_EQ(surprised_at(3, 0), (std::vector<std::uint64_t>{3, 20, 30}));
  EXPECT_EQ(surprised_at(3, 14), (std::vector<std::uint64_t>{3, 14, 30}));
  EXPECT_EQ(surprised_at(10, 11), (std::vector<std::uint64_t>{10, 11, 30}));
  EXPECT_EQ(ends_of(by_surprise, 20, [](auto) { return std::nanf(""); }), (std::vector<std::uint64_t>{10, 20}));
}

TEST(WindowWatch, KeepsASurpriseForTheNextNumber) {
  window_watch watch(by_surprise, 1);
  pace_tracker own;
  for (int step = 0; step < 20; ++step)
    own.measure(100, 1);
  own.measure(100, 3); // in window 1, which is closed
  for (std::uint64_t step = 5; step <= 10; ++step) {
    EXPECT_EQ(watch.close(step, std::vector{watch.note(own, 1)}), window_end::none);
    if (step == 7)
      own.measure(100, 20); // again: one end answers both
  }
  EXPECT_EQ(watch.close(11, std::vector{watch.note(own, 1)}), window_end::surprise);
  EXPECT_EQ(watch.close(21, std::vector{watch.note(own, 1)}), window_end::none) << "it has been answered";
}

TEST(WindowWatch, KeepsToItsBoundsInSeconds) {
  const auto ends = [](window_options options, double step_seconds) {
    pace_tracker own;
    window_watch watch(options, 0);
    double seconds = 0;
    std::vector<std::uint64_t> found;
    for (std::uint64_t step = 1; step <= 40; ++step) {
      seconds += step_seconds;
      if (watch.close(step, std::vector{watch.note(own, seconds)}) == window_end::none)
        continue;
      seconds = 0;
      found.push_back(step);
    }
    return found;
  };
  EXPECT_EQ(ends({.shortest_seconds = 0.25}, 0.01), (std::vector<std::uint64_t>{30}));
  EXPECT_EQ(ends({.longest_seconds = 5}, 1), (std::vector<std::uint64_t>{5, 11, 21, 31}));
  EXPECT_EQ(ends({.shortest_seconds = 1, .longest_seconds = 20}, 1), (std::vector<std::uint64_t>{10, 20, 30, 40}));
}

TEST(WindowWatch, IsForThoseWhoAreDecidedForOnly) {
  cluster::cluster_file file;
  EXPECT_FALSE(window_options_of(file));
  file.arbitrator.surprise = true;
  EXPECT_TRUE(window_options_of(file));
  file.arbitrator.reflex = true;
  EXPECT_FALSE(window_options_of(file));
  file.arbitrator.reflex = false;
  for (const auto policy : {cluster::policy_kind::stigmergic, cluster::policy_kind::step_oracle}) {
    file.arbitrator.policy = policy;
    EXPECT_FALSE(window_options_of(file));
  }
  file.arbitrator.policy = cluster::policy_kind::goodput;
  EXPECT_TRUE(window_options_of(file));
  file.training.trainer = cluster::trainer_kind::client;
  EXPECT_FALSE(window_options_of(file));
}

TEST(WindowWatch, TellsByTheReportsWhyAWindowClosed) {
  const auto end = [](std::uint32_t steps, auto change, std::optional<window_options> options = by_surprise) {
    messages::shard_report of{.window = 2};
    for (const char* host : {"ada", "ben"})
      of.reports.push_back({.host = host, .window = 2, .first_step = 10, .training = {.steps = steps}});
    change(of.reports[1]);
    return end_of(of, options);
  };
  const auto nothing = [](auto&) {};
  const auto slower = [](auto& report) { report.reflex.changes = 1; };
  EXPECT_EQ(end(10, nothing), window_end::counted);
  EXPECT_EQ(end(10, nothing, std::nullopt), window_end::counted);
  EXPECT_EQ(end(4, nothing), window_end::overdue);
  EXPECT_EQ(end(4, slower), window_end::surprise);
  EXPECT_EQ(end(10, slower), window_end::surprise);
  EXPECT_EQ(end(10, slower, std::nullopt), window_end::counted) << "work moves by it, and windows do not end";
  EXPECT_EQ(end(4, slower, window_options{.longest_seconds = 1}), window_end::overdue);
  EXPECT_EQ(end(4, [](auto& report) { report.final = true; }), window_end::overdue) << "one alone does not say so";
  messages::shard_report last{.window = 2};
  for (const char* host : {"ada", "ben"})
    last.reports.push_back({.host = host, .window = 2, .first_step = 10, .final = true, .training = {.steps = 4}});
  EXPECT_EQ(end_of(last, by_surprise), window_end::last);
  const auto late = [](auto& report) {
    report.window = 1;
    report.first_step = 0;
    report.reflex.changes = 1;
  };
  EXPECT_EQ(end(10, late), window_end::counted) << "what stood in for a late report was told before";
}

} // namespace
} // namespace dynamix::policy
