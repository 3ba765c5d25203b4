#pragma once

#include "cluster/cluster_file.hpp"

#include <cstdint>

namespace dynamix::trainer {

/// The factor on the learning rate of a step that begins after `done` of `wanted` samples (of all workers) and trains
/// `step_samples` more. It counts samples, not steps, so batch sizes that change do not bend it, and a resume finds it
/// again. It rises linearly over `warmup_samples`; then, with `cosine`, it falls to 0 at the end of training by half a
/// cosine (Loshchilov and Hutter, arXiv 1608.03983, without restarts).
double schedule_factor(const cluster::training& training, std::uint64_t done, std::uint64_t step_samples,
                       std::uint64_t wanted);

} // namespace dynamix::trainer
