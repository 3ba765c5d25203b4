#pragma once

/// A cluster of unequal hosts, small enough to simulate in a moment.

#include "simulator/scenario.hpp"
#include "tests/unit/parsed_cluster.hpp"

#include <gtest/gtest.h>

#include <string>

namespace dynamix::simulator::testing {

inline device_profile profile_of(double fixed_ms, double sample_ms) {
  device_profile profile{.name = "made up", .source = "made up"};
  for (const double batch : {8.0, 64.0, 512.0})
    profile.points.push_back({.batch = batch, .seconds = (fixed_ms + sample_ms * batch) / 1000});
  profile.curve = policy::step_time_curve(profile.points);
  return profile;
}

/// `workers` hosts, every other one four times as slow. `more` goes into the file.
inline scenario small_cluster(std::uint32_t workers = 4, const std::string& more = "") {
  scenario made{.file = parsed_cluster(R"([cluster]
name = "small"
[arbitrator]
policy = "ppo"
mode = "train"
guard = false
window_steps = 5
[training]
epochs = 6
[batch]
initial = 32
lowest = 8
highest = 512
[simulation]
randomise = 0.3
[ppo]
horizon = 8
[[host]]
name = "arbitrator"
port = 7000
roles = ["arbitrator"]
[[host]]
name = "worker"
port = 7001
count = )" + std::to_string(workers) + "\n" +
                                       more)};
  made.workload.epoch_samples = 20'000;
  for (std::uint32_t i = 0; i < workers; ++i)
    made.profiles.push_back(i % 2 == 0 ? profile_of(2, 0.05) : profile_of(2, 0.2));
  return made;
}

} // namespace dynamix::simulator::testing
