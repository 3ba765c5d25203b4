#pragma once

#include <cstdint>

namespace dynamix::messages {

/// At the beginning of training steps count, not samples: the batch beyond which a larger one is worth nothing is near
/// 0 there (arXiv 2505.23971), and the noise scale, of gradients that hardly point anywhere yet, says the opposite. Of
/// so many steps it tells nothing: global batches stand, and a smaller one keeps the learning rate
/// (benchmarks/results/2026-11-28-small-start.md).
/// Where a script accumulates gradients, the learning rate counts its steps, everything else the batches of each.
inline constexpr std::uint64_t early_steps = 50;

} // namespace dynamix::messages
