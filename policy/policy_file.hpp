#pragma once

/// A policy's parameters as a tensor file. Metadata: format "dynamix-policy-1", kind, actions, state (the names of its
/// entries), hidden and version; other entries are passed over. So are tensors whose name begins with "learner.", which
/// belong to a learner, and "range." (policy/state_range.hpp).

#include "cluster/cluster_file.hpp"
#include "policy/policy_network.hpp"
#include "storage/tensor_file.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dynamix::policy {

/// What parameters must agree on with who uses them.
struct policy_shape {
  std::string kind;                  ///< "ppo", "ppo-add" or "ppo-simple"
  std::vector<std::int32_t> actions; ///< of ppo the scales
  std::uint32_t hidden = 0;

  /// How many actions the network chooses among: ppo has every scale with every belief.
  std::size_t outputs() const;
};
policy_shape shape_of(const cluster::cluster_file& file);
/// With fresh parameters.
policy_network make_network(const policy_shape& shape, std::uint64_t seed);

storage::tensor_file to_file(const policy_network& network, const policy_shape& shape, std::uint64_t version);
/// Takes the parameters and their version over. Returns an empty string, or why they do not fit; then nothing has
/// changed.
std::string from_file(const storage::tensor_file& file, const policy_shape& shape, policy_network& network,
                      std::uint64_t& version);
/// The same from the bytes of a file.
std::string from_bytes(std::span<const std::uint8_t> bytes, const policy_shape& shape, policy_network& network,
                       std::uint64_t& version);

} // namespace dynamix::policy
