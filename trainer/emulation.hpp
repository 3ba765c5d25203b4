#pragma once

#include "cluster/cluster_file.hpp"

#include <span>

namespace dynamix::trainer {

/// The slow-down in force `elapsed_seconds` into the run: that of the latest entry that has begun, 1 before the first.
double slowdown_at(std::span<const cluster::emulation> entries, double elapsed_seconds);

/// How long to wait after computing for `compute_seconds`, so that both together take `slowdown` times as long.
double emulation_delay_seconds(double slowdown, double compute_seconds);

} // namespace dynamix::trainer
