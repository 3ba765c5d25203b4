#include "simulator/scenario.hpp"

#include "simulator/random_stream.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <map>

namespace dynamix::simulator {
namespace {

constexpr std::uint64_t purpose = 0x72616e64; // tells these random numbers from a world's
constexpr std::uint64_t surroundings_purpose = 0x73757272;

void append(std::vector<cluster::file_error>& errors, std::vector<cluster::file_error> more) {
  std::ranges::move(more, std::back_inserter(errors));
}

/// The factors of one randomised scenario, one after the other.
class factors {
public:
  factors(std::uint64_t seed, double range) : numbers_(seed, 0, purpose), range_(range) {}
  double next() { return std::exp(numbers_.uniform(-range_, range_)); }
  void vary(double& value, double low, double high) { value = std::clamp(value * next(), low, high); }

private:
  random_stream numbers_;
  double range_;
};

} // namespace

std::vector<cluster::file_error> load_scenario(const cluster::cluster_file& file, scenario& result) {
  std::vector<cluster::file_error> errors;
  scenario loaded{.file = file};
  if (file.workers().empty())
    errors.push_back(error_at(file, "host[0].roles", "no host has the role \"worker\"; nobody joins a simulation"));
  if (file.simulation.workload.empty())
    errors.push_back(
        error_at(file, "simulation.workload", "simulation.workload is empty; it must name a workload file"));
  else
    append(errors, read_workload(resolve_path(file, file.simulation.workload), loaded.workload));
  if (file.training.top_k > 0)
    errors.push_back(error_at(file, "training.top_k",
                              fmt::format("training.top_k is {}; the simulator does not know what leaving gradients "
                                          "out costs in accuracy, nor what it saves: set it to 0",
                                          file.training.top_k)));

  std::map<std::string, device_profile> read; // large clusters have few devices
  for (std::size_t i = 0; i < file.hosts.size(); ++i) {
    const auto& host = file.hosts[i];
    if (!host.has(cluster::role::worker))
      continue;
    const auto path = resolve_path(file, host.profile.empty() ? file.simulation.profile : host.profile);
    if (path.empty()) {
      errors.push_back(error_at(file, fmt::format("host[{}].profile", i),
                                "host \"" + host.name +
                                    "\" has no device profile; host.profile or simulation.profile must name one"));
      continue;
    }
    const auto [known, fresh] = read.try_emplace(path);
    if (fresh)
      append(errors, read_device_profile(path, known->second));
    loaded.profiles.insert(loaded.profiles.end(), host.members().size(), known->second);
  }
  if (errors.empty())
    result = std::move(loaded);
  return errors;
}

scenario randomise(const scenario& from, std::uint64_t seed) {
  if (from.file.simulation.randomise == 0)
    return from;
  scenario varied = from;
  factors by(seed, from.file.simulation.randomise);
  auto& simulation = varied.file.simulation;
  by.vary(simulation.bandwidth_mbit, 0.001, 1e7);
  by.vary(simulation.latency_us, 0, 1e7);
  by.vary(simulation.noise, 0, 2);
  by.vary(simulation.hiccup_rate, 0, 1);
  by.vary(simulation.slow_every_seconds, 0, 1e9);
  by.vary(simulation.slow_factor, 1.25, 100);
  by.vary(simulation.congest_every_seconds, 0, 1e9);
  by.vary(simulation.congest_factor, 1.25, 1000);
  by.vary(varied.workload.phi_start, 1e-3, 1e9);
  auto numbers = random_stream(seed, 0, surroundings_purpose);
  varied.surroundings = {.rtt_factor = std::exp(numbers.uniform(std::log(0.3), std::log(30))),
                         .idle_memory_ratio = numbers.uniform(0, 0.5),
                         .batch_memory_ratio = numbers.uniform(0, 0.5)};
  const double masked = numbers.uniform();
  if (masked < 2.0 / 6) {
    std::erase(varied.file.telemetry_sources, cluster::telemetry_source::ebpf); // sees both
    std::erase(varied.file.telemetry_sources,
               masked < 1.0 / 6 ? cluster::telemetry_source::tcp_info : cluster::telemetry_source::procfs);
  }
  for (auto& host : varied.file.hosts) {
    by.vary(host.bandwidth_mbit, 0, 1e7);
    for (auto& slot : host.slots)
      slot.bandwidth_mbit = host.bandwidth_mbit;
  }
  for (auto& profile : varied.profiles) {
    const double factor = by.next();
    for (auto& point : profile.points)
      point.seconds *= factor;
    profile.curve = monotone_curve(profile.points);
  }
  return varied;
}

} // namespace dynamix::simulator
