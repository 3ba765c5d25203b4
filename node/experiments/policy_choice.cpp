#include "node/experiments/policy_choice.hpp"

#include "messages/types.hpp"
#include "storage/atomic_file.hpp"
#include "storage/tensor_file.hpp"

#include <cstdint>
#include <vector>

namespace dynamix::node {
namespace {

/// The metadata's kind; empty for what is not a policy file.
std::string kind_of(const std::string& path) {
  std::string contents;
  storage::tensor_file parsed;
  if (!storage::read_file(path, messages::max_policy_bytes, contents).empty())
    return "";
  const std::vector<std::uint8_t> bytes(contents.begin(), contents.end());
  if (!storage::decode(bytes, parsed).empty())
    return "";
  const auto kind = parsed.metadata.find("kind");
  return kind == parsed.metadata.end() ? "" : kind->second;
}

} // namespace

void drop_foreign_parameters(cluster::cluster_file& file) {
  auto& arbitrator = file.arbitrator;
  const auto kind = arbitrator.policy_file.empty() ? "" : kind_of(cluster::resolve_path(file, arbitrator.policy_file));
  if (!cluster::has_parameters(arbitrator.policy) || (!kind.empty() && kind != cluster::to_string(arbitrator.policy)))
    arbitrator.policy_file.clear();
}

} // namespace dynamix::node
