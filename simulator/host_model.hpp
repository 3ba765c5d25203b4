#pragma once

/// One worker's host in virtual time. Internal to the room.

#include "simulator/episodes.hpp"
#include "simulator/random_stream.hpp"
#include "simulator/scenario.hpp"

#include <cstdint>

namespace dynamix::simulator {

/// Of its link, bytes per second.
double link_rate(const cluster::cluster_file& file, const cluster::host& of);

/// Everything random about it comes from streams of its own.
struct host_model {
  /// What a stream of random numbers is for.
  enum purpose : std::uint64_t { computing = 1, hiccuping, slowing_down, congesting, measuring };

  /// `what` must outlive it.
  host_model(const scenario& what, const cluster::host& host, std::size_t position, std::uint64_t seed);

  bool present(double seconds) const;
  /// By the file's `emulate`, as trainer/emulation.hpp has it.
  double emulated_slowdown(double seconds) const;
  /// For the next window; `rate`: how many windows have one.
  void draw_hiccup(double rate);

  const cluster::host* host;
  const device_profile* profile;
  std::uint32_t fits; ///< largest batch size that memory holds
  double bandwidth;   ///< of its link, bytes per second
  double hiccup = 1;  ///< factor on computing in the window at hand
  random_stream noise;
  random_stream measurements;
  episodes slow_downs;
  episodes congestions;

private:
  random_stream hiccups_;
};

} // namespace dynamix::simulator
