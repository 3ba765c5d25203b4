#include "policy/policy_file.hpp"

#include "policy/measured_cluster.hpp"
#include "policy/state.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fmt/core.h>
#include <sstream>
#include <utility>

namespace dynamix::policy {
namespace {

constexpr const char* format_name = "dynamix-policy-1";

template <class Range, class Function>
std::string joined(const Range& range, Function text) {
  std::string result;
  for (const auto& item : range)
    result += (result.empty() ? "" : ",") + text(item);
  return result;
}

std::string action_names(const policy_shape& shape) {
  return joined(shape.actions, [](std::int32_t action) { return std::to_string(action); });
}

std::string state_names() {
  return joined(state_fields(), [](const state_field& field) { return std::string(field.name); });
}

/// Where two lists of state entries part, by name.
std::string compare_state(const std::string& theirs, const std::string& ours) {
  std::istringstream their_names(theirs);
  std::istringstream our_names(ours);
  for (int entry = 1;; ++entry) {
    std::string their_name;
    std::string our_name;
    const bool they_have = static_cast<bool>(std::getline(their_names, their_name, ','));
    const bool we_have = static_cast<bool>(std::getline(our_names, our_name, ','));
    if (!they_have && !we_have)
      return {};
    if (their_name != our_name)
      return fmt::format("its state has {} as entry {}, this program has {}",
                         they_have ? "\"" + their_name + "\"" : "nothing", entry,
                         we_have ? "\"" + our_name + "\"" : "nothing");
  }
}

std::string compare_metadata(const storage::tensor_file& file, const policy_shape& shape) {
  const auto get = [&file](const char* key) {
    const auto found = file.metadata.find(key);
    return found == file.metadata.end() ? std::string() : found->second;
  };
  if (get("format") != format_name)
    return "it is not a policy of this program (its format is \"" + get("format") + "\", not \"" + format_name + "\")";
  if (get("kind") != shape.kind)
    return "it is a \"" + get("kind") + "\" policy, the cluster file names \"" + shape.kind + "\"";
  if (get("actions") != action_names(shape))
    return "its actions are " + get("actions") + ", the cluster file's are " + action_names(shape);
  if (auto difference = compare_state(get("state"), state_names()); !difference.empty())
    return difference;
  if (get("hidden") != std::to_string(shape.hidden))
    return fmt::format("its layers have {} hidden units, the cluster file's {}", get("hidden"), shape.hidden);
  return {};
}

} // namespace

std::size_t policy_shape::outputs() const {
  return kind == cluster::to_string(cluster::policy_kind::ppo) ? actions.size() * beliefs : actions.size();
}

policy_shape shape_of(const cluster::cluster_file& file) {
  const bool planned = file.arbitrator.policy == cluster::policy_kind::ppo;
  return {.kind = std::string(cluster::to_string(file.arbitrator.policy)),
          .actions = planned ? file.arbitrator.scales : file.arbitrator.actions,
          .hidden = file.ppo.hidden};
}

policy_network make_network(const policy_shape& shape, std::uint64_t seed) {
  policy_network network(state_size(), shape.outputs(), shape.hidden);
  network.initialise(seed);
  return network;
}

storage::tensor_file to_file(const policy_network& network, const policy_shape& shape, std::uint64_t version) {
  storage::tensor_file file;
  file.metadata = {{"format", format_name},
                   {"kind", shape.kind},
                   {"actions", action_names(shape)},
                   {"state", state_names()},
                   {"hidden", std::to_string(shape.hidden)},
                   {"version", std::to_string(version)}};
  for (const auto& [name, dimensions, numbers] : network.parameters()) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(numbers.data());
    file.tensors.push_back({.name = name,
                            .type = storage::element_type::f32,
                            .shape = dimensions,
                            .data = {bytes, bytes + numbers.size() * sizeof(float)}});
  }
  return file;
}

std::string from_file(const storage::tensor_file& file, const policy_shape& shape, policy_network& network,
                      std::uint64_t& version) {
  if (auto difference = compare_metadata(file, shape); !difference.empty())
    return difference;
  const auto version_entry = file.metadata.find("version");
  const std::string version_text = version_entry == file.metadata.end() ? "" : version_entry->second;
  std::uint64_t read_version = 0;
  const char* end = version_text.data() + version_text.size();
  if (const auto [stop, error] = std::from_chars(version_text.data(), end, read_version);
      error != std::errc() || stop != end)
    return "its version is \"" + version_text + "\", not a number";

  auto replacement = network;
  for (auto& [name, expected, numbers] : replacement.parameters()) {
    if (auto error = check_tensor(file.find(name), name, storage::element_type::f32, expected); !error.empty())
      return error;
    std::memcpy(numbers.data(), file.find(name)->data.data(), numbers.size() * sizeof(float));
    if (!std::ranges::all_of(numbers, [](float number) { return std::isfinite(number); }))
      return "the tensor \"" + name + "\" has a number that is not finite";
  }
  for (const auto& record : file.tensors)
    if (!record.name.starts_with("learner.") && !record.name.starts_with("range.") &&
        std::ranges::none_of(replacement.parameters(), [&](const auto& own) { return own.name == record.name; }))
      return "the tensor \"" + record.name + "\" is not one of the policy's";
  network = std::move(replacement);
  version = read_version;
  return {};
}

std::string from_bytes(std::span<const std::uint8_t> bytes, const policy_shape& shape, policy_network& network,
                       std::uint64_t& version) {
  storage::tensor_file file;
  if (auto error = storage::decode(bytes, file); !error.empty())
    return error;
  return from_file(file, shape, network, version);
}

} // namespace dynamix::policy
