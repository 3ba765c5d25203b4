#pragma once

/// A policy's parameters as a tensor file. Metadata: format "dynamix-policy-1", kind, actions, state (the names of its
/// entries), hidden and version; other entries are passed over. So are tensors whose name begins with "learner.", which
/// belong to a learner, and "range." (policy/state_range.hpp). Includes Torch: internal to policy/.

#include "cluster/cluster_file.hpp"
#include "policy/actor_critic.hpp"
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
actor_critic make_network(const policy_shape& shape, std::uint64_t seed);

storage::tensor_file to_file(const actor_critic& network, const policy_shape& shape, std::uint64_t version);
/// Takes the parameters and their version over. Returns an empty string, or why they do not fit; then nothing has
/// changed.
std::string from_file(const storage::tensor_file& file, const policy_shape& shape, actor_critic& network,
                      std::uint64_t& version);
/// The same from the bytes of a file.
std::string from_bytes(std::span<const std::uint8_t> bytes, const policy_shape& shape, actor_critic& network,
                       std::uint64_t& version);

/// float32, float64, int64 or uint8, on the CPU.
storage::tensor_record to_record(std::string name, const torch::Tensor& tensor);
/// A copy of the named tensor when it has the type and shape of `like` and only finite numbers. Returns an empty
/// string, or what is wrong.
std::string read_tensor(const storage::tensor_file& file, const std::string& name, const torch::Tensor& like,
                        torch::Tensor& result);

} // namespace dynamix::policy
