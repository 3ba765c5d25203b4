#include "cluster/cluster_file.hpp"
#include "simulator/generator.hpp"
#include "simulator/scenario.hpp"
#include "simulator/simulation.hpp"
#include "tests/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>
#include <unistd.h>
#include <vector>

namespace dynamix::simulator {
namespace {

constexpr std::uint64_t seeds = 60;

class GeneratedScenarios : public testing::Test {
protected:
  scenario load(const generated_scenario& made) {
    for (const auto& file : made.files)
      directory_.write(file.path, file.text);
    const auto read = cluster::read_cluster_file(directory_.file(made.files.front().path));
    for (const auto& error : read.errors)
      ADD_FAILURE() << made.name << ": " << error.message;
    scenario loaded;
    for (const auto& error : load_scenario(read.file, loaded))
      ADD_FAILURE() << made.name << ": " << error.message;
    return loaded;
  }

  const temporary_directory directory_;
};

TEST_F(GeneratedScenarios, LoadAndCoverAllGroups) {
  std::map<std::string, int> groups;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    for (const auto purpose : {generated_for::test, generated_for::training}) {
      const auto made = generate_scenario(purpose, seed, "");
      const auto loaded = load(made);
      const auto workers = loaded.file.workers().size();
      EXPECT_GE(workers, 2U) << made.name;
      EXPECT_LE(workers, 512U) << made.name;
      if (purpose == generated_for::test)
        ++groups[std::regex_replace(made.name, std::regex("test-[0-9]+-"), "")];
    }
  }
  EXPECT_EQ(groups.size(), 12U);
  for (const auto& [group, count] : groups)
    EXPECT_EQ(count, 5) << group;
}

TEST_F(GeneratedScenarios, AreTheSameEveryTimeAndDifferBySeedAndPurpose) {
  std::set<std::string> texts;
  for (std::uint64_t seed = 0; seed < seeds; ++seed)
    for (const auto purpose : {generated_for::test, generated_for::training}) {
      std::string text;
      for (const auto& file : generate_scenario(purpose, seed, "p").files)
        text += file.text;
      std::string again;
      for (const auto& file : generate_scenario(purpose, seed, "p").files)
        again += file.text;
      EXPECT_EQ(text, again);
      texts.insert(text.substr(text.find("[training]")));
    }
  EXPECT_EQ(texts.size(), 2 * seeds);
}

TEST_F(GeneratedScenarios, HaveDevicesThatDifferByNoMoreThanWasAsked) {
  const auto spread = [&](std::uint64_t seed, double slowness) {
    const auto loaded = load(generate_scenario(generated_for::training, seed, "", {.slowness = slowness}));
    const auto seconds = [](const device_profile& profile) { return profile.points.front().seconds; };
    const auto [fastest, slowest] = std::ranges::minmax_element(loaded.profiles, {}, seconds);
    return seconds(*slowest) / seconds(*fastest);
  };
  double widest = 1;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    EXPECT_NEAR(spread(seed, 1), 1, 1e-6);
    const double narrow = spread(seed, 1.5);
    const double wide = spread(seed, slowness_max);
    EXPECT_LE(narrow, 1.5 * 1.001) << "times are written to a tenth of a microsecond";
    EXPECT_NEAR(std::log(wide) / std::log(slowness_max), std::log(narrow) / std::log(1.5), 1e-3)
        << "every kind keeps its place in the range";
    widest = std::max(widest, wide);
  }
  EXPECT_GT(widest, 5);
}

TEST_F(GeneratedScenarios, EveryRunOfStaticReachesItsTarget) {
  for (const std::uint64_t seed : {0U, 3U, 6U, 9U}) {
    auto loaded = load(generate_scenario(generated_for::test, seed, ""));
    loaded.file.arbitrator.policy = cluster::policy_kind::static_batch;
    simulation run(std::move(loaded), std::vector<std::uint8_t>{}, 1);
    while (run.advance()) {
    }
    EXPECT_EQ(run.result().failure, "");
    EXPECT_GT(run.result().seconds_to_target, 0) << seed;
  }
}

/// Mean and standard deviation over seeds of the logarithm of the time to target.
struct course {
  double mean = 0;
  double deviation = 0;
};

course course_of(const std::vector<double>& logs) {
  course of;
  for (const double each : logs)
    of.mean += each / static_cast<double>(logs.size());
  for (const double each : logs)
    of.deviation += (each - of.mean) * (each - of.mean) / static_cast<double>(logs.size() - 1);
  of.deviation = std::sqrt(of.deviation);
  return of;
}

bool differ(const course& one, const course& other) {
  return std::abs(one.mean - other.mean) > std::max(1e-3, 2 * std::max(one.deviation, other.deviation));
}

/// Whatever a drawn scenario claims to vary changes what happens. `static` keeps its batch size, so what only matters
/// to other batch sizes is seen in how much an oracle gains over it.
TEST_F(GeneratedScenarios, MoveTheTimeToTargetByEveryAxisMoreThanByTheirNoise) {
  using enum generator_axis;
  // The exchange is drawn as a share of a step, so the size of the gradients moves bandwidth, and no time. The latency
  // of a message, at most a thousandth of a step, moves less than the noise.
  const std::set<generator_axis> no_time{gradients, latency};
  const std::set<generator_axis> by_gain{fixed_share, sharpness, memory, initial_batch, noise_scale, noise_growth};
  // As many seconds are slow whether each slow-down is short or long: that is seen by who decides late.
  const std::set<generator_axis> by_delay{slow_seconds};
  const auto measure = [&](std::uint64_t seed, generator_axis axis, double place) {
    std::vector<double> logs;
    for (std::uint64_t run_seed = 1; run_seed <= 4; ++run_seed) {
      const auto seconds = [&](cluster::policy_kind policy) {
        auto loaded = load(generate_scenario(generated_for::training, seed, "", {.pinned = pinned_axis{axis, place}}));
        loaded.file.arbitrator.policy = policy;
        loaded.file.arbitrator.balance = cluster::balance_kind::off;
        simulation run(std::move(loaded), std::vector<std::uint8_t>{}, run_seed);
        while (run.advance()) {
        }
        EXPECT_EQ(run.result().failure, "");
        return run.result().seconds_to_target;
      };
      const double fixed = seconds(cluster::policy_kind::static_batch);
      if (by_delay.contains(axis))
        logs.push_back(std::log(seconds(cluster::policy_kind::goodput) / seconds(cluster::policy_kind::step_oracle)));
      else
        logs.push_back(std::log(by_gain.contains(axis) ? fixed / seconds(cluster::policy_kind::step_oracle) : fixed));
    }
    return course_of(logs);
  };
  for (std::size_t i = 0; i < generator_axes; ++i) {
    const auto axis = static_cast<generator_axis>(i);
    if (no_time.contains(axis) || axis == change_kind) // the test below has its kinds
      continue;
    // Not every scenario has a host without memory, a slow link, or a co-tenant.
    bool moved = false;
    std::string seen;
    for (const std::uint64_t seed : {9U, 3U, 15U, 21U, 27U, 33U, 39U}) {
      const auto low = measure(seed, axis, 0.02);
      const auto high = measure(seed, axis, 0.98);
      seen += std::to_string(low.mean) + " ± " + std::to_string(low.deviation) + " to " + std::to_string(high.mean) +
              " ± " + std::to_string(high.deviation) + "; ";
      moved = differ(low, high);
      if (moved)
        break;
    }
    EXPECT_TRUE(moved) << "axis " << i << ": " << seen;
  }
}

/// Each kind of change, and all of them together, against the same scenario without its changes.
TEST_F(GeneratedScenarios, MoveTheTimeToTargetByEachKindOfChangeMoreThanByTheirNoise) {
  constexpr int kinds = 5; // co-tenants, throttling, spot, congestion, all
  const auto measure = [&](std::uint64_t seed, int kind, bool changes) {
    std::vector<double> logs;
    for (std::uint64_t run_seed = 1; run_seed <= 4; ++run_seed) {
      const pinned_axis pinned{generator_axis::change_kind, (kind + 0.5) / kinds};
      auto loaded = load(generate_scenario(generated_for::training, seed, "", {.pinned = pinned}));
      loaded.file.arbitrator.policy = cluster::policy_kind::static_batch;
      if (!changes) {
        loaded.file.simulation.slow_every_seconds = loaded.file.simulation.congest_every_seconds = 0;
        for (auto& host : loaded.file.hosts) {
          host.emulate.clear();
          host.join_at_seconds = host.leave_at_seconds = 0;
        }
      }
      simulation run(std::move(loaded), std::vector<std::uint8_t>{}, run_seed);
      while (run.advance()) {
      }
      EXPECT_EQ(run.result().failure, "");
      logs.push_back(std::log(run.result().seconds_to_target));
    }
    return course_of(logs);
  };
  for (int kind = 0; kind < kinds; ++kind) {
    // Not every scenario exchanges enough for congestion, or has a host that can leave.
    bool moved = false;
    std::string seen;
    for (const std::uint64_t seed : {9U, 3U, 15U, 21U, 27U, 33U, 39U}) {
      const auto still = measure(seed, kind, false);
      const auto changing = measure(seed, kind, true);
      seen += std::to_string(still.mean) + " ± " + std::to_string(still.deviation) + " to " +
              std::to_string(changing.mean) + " ± " + std::to_string(changing.deviation) + "; ";
      moved = differ(still, changing);
      if (moved)
        break;
    }
    EXPECT_TRUE(moved) << "kind " << kind << ": " << seen;
  }
}

/// The rows that describe the distribution stand in the document.
TEST_F(GeneratedScenarios, AreDescribedInTheDocument) {
  const auto text = text_of_file(DYNAMIX_SOURCE_DIRECTORY "/docs/simulation-files.md");
  EXPECT_NE(text.find(describe_generator_markdown()), std::string::npos) << describe_generator_markdown();
}

/// Who acts on the truth of every step is not slower than who acts on it once a window, where hosts change within one.
TEST_F(GeneratedScenarios, AnOracleOfEveryStepBeatsThatOfEveryWindow) {
  const auto seconds = [&](cluster::policy_kind policy) {
    auto loaded = load(generate_scenario(generated_for::test, 33, "")); // changing, slow steps, 2-8 workers
    loaded.file.arbitrator.policy = policy;
    loaded.file.simulation.slow_every_seconds = 60;
    loaded.file.simulation.slow_seconds = 30;
    loaded.file.simulation.slow_factor = 6;
    simulation run(std::move(loaded), std::vector<std::uint8_t>{}, 1);
    while (run.advance()) {
    }
    return run.result().seconds_to_target;
  };
  EXPECT_LT(seconds(cluster::policy_kind::step_oracle), 0.98 * seconds(cluster::policy_kind::oracle));
}

} // namespace
} // namespace dynamix::simulator
