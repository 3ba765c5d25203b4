#pragma once

#include "benchmarks/step_plan.hpp"
#include "cluster/cluster_file.hpp"
#include "session/decision_slot.hpp"
#include "trainer/session.hpp"

namespace dynamix::benchmarks {

/// The cluster file that `plan` stands for, with a window a chunk.
cluster::cluster_file describe(const step_plan& plan);
/// Trains as `plan.rank` does among `plan.world` processes. Throws std::runtime_error with the reason where it fails.
void train(const step_plan& plan, const cluster::cluster_file& file, trainer::decision_slot& decisions,
           trainer::observer& windows);

} // namespace dynamix::benchmarks
