#pragma once

/// The states that a policy was trained on, kept beside its parameters. Includes no Torch.

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::policy {

/// Least and largest value of every entry of the state vector. Empty: not known.
struct state_range {
  std::vector<float> low;
  std::vector<float> high;
};

/// The range in a policy's bytes; empty where they hold none, or none for this program's state vector.
state_range trained_range(std::span<const std::uint8_t> parameters);

} // namespace dynamix::policy
