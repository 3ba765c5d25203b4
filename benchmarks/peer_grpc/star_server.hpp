#pragma once

#include "cluster/cluster_file.hpp"

namespace dynamix::benchmarks {

/// The arbitrator of the star: gRPC's callback API on its own threads, and one thread that decides as the arbitrator
/// does (policy/deliberation.hpp). A window closes when every worker of the file has called; then all calls are
/// answered. Serves until the process is ended. Returns 1 when the port cannot be had.
int serve_star(const cluster::cluster_file& file);

} // namespace dynamix::benchmarks
