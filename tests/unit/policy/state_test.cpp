#include "policy/state.hpp"
#include "samples.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cfloat>
#include <map>
#include <set>
#include <string>

namespace dynamix::policy {
namespace {

const cluster::batch limits{.initial = 64, .lowest = 32, .highest = 1024};

std::map<std::string, double> by_name(const std::vector<float>& state) {
  EXPECT_EQ(state.size(), state_size());
  std::map<std::string, double> named;
  for (std::size_t i = 0; i < state.size(); ++i)
    named[std::string(state_fields()[i].name)] = state[i];
  return named;
}

/// Two workers: the first slow with a small batch and everything measured, the second fast.
std::array<messages::window_report, 2> two_reports() {
  std::array reports = {testing::make_report(0, 2, 64), testing::make_report(1, 2, 192)};
  auto& first = reports[0];
  first.network = {.valid = true, .throughput_bytes_per_second = 9e6, .rtt_seconds = 1e-3, .retransmissions = 90};
  first.system = {.valid = true, .cpu_time_ratio = 3, .run_queue_wait_ratio = 1, .memory_ratio = 0.25};
  first.training = {.steps = 10,
                    .samples = 640,
                    .accuracy = 0.8,
                    .loss = 3,
                    .iteration_seconds = 0.4,
                    .compute_seconds = 0.3,
                    .exchange_seconds = 0.1,
                    .gradient_valid = true,
                    .sigma_norm = 1,
                    .sigma2_norm = 1,
                    .noise_scale = 1024,
                    .gain = 2};
  reports[1].network = {.valid = true, .throughput_bytes_per_second = 3e6, .rtt_seconds = 3e-3};
  auto& second = reports[1].training;
  second.samples = 1920;
  second.accuracy = 0.4;
  second.loss = 1;
  second.iteration_seconds = 0.3;
  second.compute_seconds = 0.1;
  return reports;
}

const plan_view plan{.valid = true,
                     .planned_batch = 512,
                     .planned_total = 512,
                     .assigned_total = 256,
                     .gain = 2,
                     .surprise = 0.5,
                     .surprise_largest = -1,
                     .jitter = 0.05,
                     .exchange_over_step = 0.25,
                     .noise_trend = 4};

TEST(State, MatchesHandComputedValues) {
  const auto reports = two_reports();
  const auto state = by_name(normalise(reports[0], 0.75, 128, sum_reports(reports), limits, plan));
  const std::map<std::string, double> expected = {
      {"relative_throughput", 1.1699250},   // 2 * log2(9 / 6)
      {"relative_rtt", -1},                 // log2(1 / 2)
      {"retransmission_rate", 1},           // log10(1 + 9)
      {"cpu_time_ratio", 2},                // log2(4)
      {"run_queue_wait_ratio", 1},          // log2(2)
      {"memory_ratio", -0.5},               // 2/4 - 1
      {"accuracy", 0.6},                    // 1.6 - 1
      {"accuracy_gain", 1},                 // 20 * 0.05
      {"relative_loss", 2},                 // 2 * log2(3 / 1.5)
      {"compute_share", 0.5},               // 2 * 3/4 - 1
      {"exchange_share", -0.5},             // 2 * 1/4 - 1
      {"relative_compute_time", 1.1699250}, // 2 * log2(0.3 / 0.2)
      {"relative_speed", -4.6438562},       // 640/3 and 1920 samples/s: 2 * log2(0.2)
      {"learning_rate_gain", 1},            // log2(2)
      {"sigma_norm", 0},                    // log2(2) - 1
      {"sigma2_norm", -1},                  // log2(2) - 2
      {"batch_position", -0.6},             // 2 * 1/5 - 1
      {"assigned_position", -0.2},          // 2 * 2/5 - 1
      {"batch_share", -1},                  // log2(2 * 64/256)
      {"global_accuracy", 0},               // (640*0.8 + 1920*0.4)/2560 = 0.5
      {"compute_imbalance", 1.1699250},     // 2 * log2(0.3 / 0.2)
      {"batch_spread", 1.5849625},          // log2(3)
      {"noise_over_batch", 1},              // log2(1024/256) / 2
      {"plan_gap", 2},                      // log2(512/128)
      {"plan_total_gap", 1},                // log2(512/256)
      {"plan_gain", 2},                     // 2 * log2(2)
      {"surprise", 1},                      // 2 * 0.5
      {"largest_surprise", -2},             // 2 * -1
      {"jitter", 0.5},                      // 10 * 0.05
      {"plan_exchange_share", -0.5},        // 2 * 0.25 - 1
      {"noise_trend", 2},                   // log2(4)
      {"network_valid", 1},
      {"system_valid", 1},
      {"gradient_valid", 1},
      {"noise_valid", 1},
      {"plan_valid", 1},
  };
  ASSERT_EQ(state.size(), expected.size());
  for (const auto& [name, value] : expected)
    EXPECT_NEAR(state.at(name), value, 1e-6) << name;
}

TEST(State, MasksWhatWasNotMeasured) {
  auto reports = two_reports();
  reports[0].network.valid = reports[0].system.valid = reports[0].training.gradient_valid = false;
  const auto state = normalise(reports[0], -1, 64, sum_reports(reports), limits, {});
  for (std::size_t i = 0; i < state.size(); ++i) {
    const auto& field = state_fields()[i];
    if (field.group == "network" || field.group == "system" || field.group == "gradient" || field.group == "noise" ||
        field.group == "plan" || field.group == "validity" || field.name == "accuracy_gain") {
      EXPECT_EQ(state[i], 0) << field.name;
    }
  }
}

TEST(State, IsTheSameInAnyUnit) {
  auto reports = two_reports();
  const auto one = normalise(reports[0], 0.75, 128, sum_reports(reports), limits, plan);
  for (auto& report : reports) { // steps a thousand times as long, a slower network, a loss that is summed
    for (auto* seconds : {&report.training.iteration_seconds, &report.training.compute_seconds,
                          &report.training.exchange_seconds, &report.training.data_seconds})
      *seconds *= 1000;
    report.network.throughput_bytes_per_second /= 64;
    report.network.rtt_seconds *= 64;
    report.training.loss *= 64;
  }
  const auto other = normalise(reports[0], 0.75, 128, sum_reports(reports), limits, plan);
  for (std::size_t i = 0; i < one.size(); ++i)
    EXPECT_NEAR(one[i], other[i], 1e-5) << state_fields()[i].name;
}

TEST(State, ShowsTheNoiseOfTheShardToAWorkerWhoseOwnStatisticsWarmUp) {
  const auto reports = two_reports(); // the second has no valid gradient
  const auto state = by_name(normalise(reports[1], -1, 192, sum_reports(reports), limits, plan));
  EXPECT_EQ(state.at("gradient_valid"), 0);
  EXPECT_EQ(state.at("noise_valid"), 1);
  EXPECT_NEAR(state.at("noise_over_batch"), 1, 1e-6);
}

TEST(State, DescribesEveryField) {
  const std::set<std::string_view> groups = {"network", "system", "training", "gradient", "batch",
                                             "global",  "noise",  "plan",     "validity"};
  std::set<std::string_view> names;
  for (const auto& field : state_fields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name << " twice";
    EXPECT_TRUE(groups.contains(field.group)) << field.group;
    EXPECT_FALSE(field.normalisation.empty()) << field.name;
    EXPECT_EQ(field.name.find(','), std::string_view::npos) << "names are joined by commas in a policy's file";
  }
  EXPECT_EQ(state_fields().size(), state_size());
  EXPECT_LE(state_size(), messages::max_state_size);
}

TEST(State, HasAPositionEvenWhereTheLimitsMeet) {
  const cluster::batch fixed{.initial = 64, .lowest = 64, .highest = 64};
  const auto reports = two_reports();
  EXPECT_EQ(by_name(normalise(reports[0], -1, 64, sum_reports(reports), fixed, plan)).at("batch_position"), 0);
}

TEST(GlobalSums, OfJoinedShardsAreThoseOfAllReports) {
  std::mt19937_64 generator(5);
  for (int round = 0; round < 100; ++round) {
    std::vector<messages::window_report> reports;
    for (std::uint32_t rank = 0; rank < 1 + generator() % 8; ++rank) {
      auto report = testing::make_report(rank, 1, 1 + generator() % 1024);
      report.training.accuracy = static_cast<double>(generator() % 101) / 100;
      report.training.loss = static_cast<double>(generator() % 1000) / 100;
      report.training.noise_scale = static_cast<double>(generator() % 100000);
      report.training.gradient_valid = generator() % 2 == 0;
      report.network = {.valid = generator() % 2 == 0,
                        .throughput_bytes_per_second = static_cast<double>(generator() % 1000),
                        .rtt_seconds = static_cast<double>(generator() % 1000)};
      reports.push_back(report);
    }
    const std::span all(reports);
    const auto cut = generator() % (reports.size() + 1);
    const auto whole = sum_reports(all);
    const auto joined = join(sum_reports(all.subspan(cut)), sum_reports(all.first(cut)));
    EXPECT_EQ(joined.reports, whole.reports);
    EXPECT_EQ(joined.batch_lowest, whole.batch_lowest);
    EXPECT_EQ(joined.compute_seconds_max, whole.compute_seconds_max);
    for (const auto& report : reports) {
      const auto one = normalise(report, 0.5, 64, whole, limits, plan);
      const auto two = normalise(report, 0.5, 64, joined, limits, plan);
      for (std::size_t i = 0; i < one.size(); ++i)
        EXPECT_NEAR(one[i], two[i], 1e-6) << state_fields()[i].name;
    }
  }
}

/// Any report that is legal, mostly at the edges of what is.
messages::window_report extreme_report(std::mt19937_64& generator) {
  constexpr std::array<double, 12> edges = {0.0, DBL_TRUE_MIN, 1e-300,  1e-9,     1.0,       3.7,
                                            1e9, 1e300,        DBL_MAX, INFINITY, -INFINITY, NAN};
  constexpr std::array<std::uint64_t, 5> counts = {0, 1, 1000, 1ULL << 40, ~0ULL};
  const auto edge = [&] { return edges[generator() % edges.size()]; };
  const auto share = [&] { return std::min(edge(), 1.0); };
  const auto coin = [&] { return generator() % 2 == 0; };
  auto report =
      testing::make_report(generator() % 4096, 1, generator() % 3 ? generator() % (messages::max_batch + 1) : 0);
  report.network = {coin(), edge(), edge(), counts[generator() % counts.size()]};
  report.system = {coin(), edge(), edge(), share()};
  report.training = {.steps = static_cast<std::uint32_t>(counts[generator() % counts.size()]),
                     .samples = counts[generator() % counts.size()],
                     .accuracy = share(),
                     .loss = edge(),
                     .iteration_seconds = edge(),
                     .compute_seconds = edge(),
                     .exchange_seconds = edge(),
                     .data_seconds = edge(),
                     .gradient_valid = coin(),
                     .sigma_norm = edge(),
                     .sigma2_norm = edge(),
                     .gradient_norm = edge(),
                     .noise_scale = edge(),
                     .gain = edge()};
  return report;
}

TEST(State, IsFiniteAndBoundedWhateverIsReported) {
  std::mt19937_64 generator(11);
  for (int round = 0; round < 5000; ++round) {
    std::vector<messages::window_report> reports;
    for (std::uint64_t i = 0; i < 1 + generator() % 4; ++i)
      reports.push_back(extreme_report(generator));
    const auto global = join(sum_reports(reports), sum_reports({}));
    const cluster::batch any{
        .initial = 1, .lowest = 1, .highest = static_cast<std::uint32_t>(1 + generator() % 1048576)};
    for (const auto& report : reports) {
      const double previous = generator() % 2 ? -1 : static_cast<double>(generator() % 2);
      const auto state = normalise(report, previous, generator() % (messages::max_batch + 1), global, any, plan);
      for (std::size_t i = 0; i < state.size(); ++i)
        ASSERT_TRUE(state[i] >= -5 && state[i] <= 5) << state_fields()[i].name << " = " << state[i]; // also no NaN
    }
  }
}

} // namespace
} // namespace dynamix::policy
