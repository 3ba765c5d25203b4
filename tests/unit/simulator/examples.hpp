#pragma once

/// Scenarios whose step times can be computed by hand.

#include "simulator/scenario.hpp"

#include <cstdint>
#include <string>

namespace dynamix::simulator::testing {

constexpr double fixed_seconds = 0.010;
constexpr double sample_seconds = 0.001;
/// Of a batch size on a host of `quiet_scenario`.
constexpr double computing_seconds(double batch) {
  return fixed_seconds + sample_seconds * batch;
}

inline device_profile linear_profile(double speed = 1) {
  device_profile profile{.name = "line", .source = "made up"};
  for (const double batch : {8.0, 64.0, 1024.0})
    profile.points.push_back({.batch = batch, .seconds = computing_seconds(batch) / speed});
  profile.curve = monotone_curve(profile.points);
  return profile;
}

/// Equal hosts w0, w1, ... without noise, that exchange nothing; windows of one step; phi does not grow. B0 is 64 a
/// worker, B_ref is 256.
inline scenario quiet_scenario(std::size_t workers) {
  scenario made;
  auto& file = made.file;
  file.name = "quiet";
  file.training.epochs = 10'000;
  file.batch = {.initial = 64, .lowest = 8, .highest = 1024};
  file.arbitrator.policy = cluster::policy_kind::static_batch;
  file.arbitrator.window_steps = 1;
  file.simulation.noise = 0;
  file.simulation.bandwidth_mbit = 8000; // 1e9 bytes per second
  file.simulation.latency_us = 0;
  file.simulation.overlap = 1;
  file.hosts.push_back({.name = "north", .port = 7000, .roles = {cluster::role::arbitrator}});
  for (std::size_t i = 0; i < workers; ++i) {
    file.hosts.push_back({.name = "w" + std::to_string(i), .port = static_cast<std::uint16_t>(7001 + i)});
    made.profiles.push_back(linear_profile());
  }
  made.workload = {.name = "made up",
                   .source = "made up",
                   .gradient_mib = 0,
                   .phi_start = 1000,
                   .phi_exponent = 0,
                   .accuracy_noise = 0,
                   .phi_noise = 0};
  return made;
}

/// The host of worker `position`.
inline cluster::host& worker(scenario& of, std::size_t position) {
  return of.file.hosts[position + 1];
}

} // namespace dynamix::simulator::testing
