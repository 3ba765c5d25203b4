#include "simulator/host_model.hpp"

#include <algorithm>
#include <limits>

namespace dynamix::simulator {
namespace {

constexpr double hiccup_lowest = 1.3;
constexpr double hiccup_highest = 4;

/// A limit of which 0 means that there is none.
std::uint32_t limit(std::uint32_t batch) {
  return batch == 0 ? std::numeric_limits<std::uint32_t>::max() : batch;
}

} // namespace

double link_rate(const cluster::cluster_file& file, const cluster::host& of) {
  return (of.bandwidth_mbit > 0 ? of.bandwidth_mbit : file.simulation.bandwidth_mbit) * 1e6 / 8;
}

host_model::host_model(const scenario& what, const cluster::host& of, std::size_t position, std::uint64_t seed)
    : host(&of), profile(&what.profiles[position]),
      fits(std::min(limit(profile->batch_highest), limit(of.batch_highest))), bandwidth(link_rate(what.file, of)),
      noise(seed, position, computing), measurements(seed, position, measuring),
      slow_downs(what.file.simulation.slow_every_seconds, what.file.simulation.slow_seconds,
                 what.file.simulation.slow_factor, random_stream(seed, position, slowing_down)),
      congestions(what.file.simulation.congest_every_seconds, what.file.simulation.congest_seconds,
                  what.file.simulation.congest_factor, random_stream(seed, position, congesting)),
      hiccups_(seed, position, hiccuping) {}

bool host_model::present(double seconds) const {
  return host->join_at_seconds <= seconds && (host->leave_at_seconds == 0 || seconds < host->leave_at_seconds);
}

double host_model::emulated_slowdown(double seconds) const {
  double factor = 1;
  for (const auto& entry : host->emulate)
    if (entry.at_seconds <= seconds)
      factor = entry.compute_slowdown;
  return factor;
}

void host_model::draw_hiccup(double rate) {
  hiccup = hiccups_.uniform() < rate ? hiccups_.uniform(hiccup_lowest, hiccup_highest) : 1;
}

} // namespace dynamix::simulator
