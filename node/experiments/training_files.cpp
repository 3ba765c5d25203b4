#include "node/experiments/training_files.hpp"

#include "storage/atomic_file.hpp"
#include "storage/tensor_file.hpp"

#include <charconv>
#include <filesystem>
#include <sstream>

namespace dynamix::node {
namespace {

constexpr std::size_t training_bytes_max = 256U << 20U;

/// Adds where the tensors come from to their metadata.
std::string write_with_origin(const std::string& path, std::span<const std::uint8_t> bytes,
                              const training_origin& origin) {
  storage::tensor_file file;
  if (auto problem = storage::decode(bytes, file); !problem.empty())
    return path + ": " + problem;
  std::string scenarios;
  for (const auto& name : origin.scenarios)
    scenarios += (scenarios.empty() ? "" : "\n") + name;
  file.metadata["command"] = origin.command;
  file.metadata["commit"] = origin.commit;
  file.metadata["seed"] = std::to_string(origin.seed);
  file.metadata["scenarios"] = scenarios;
  return storage::write_private_file(path, storage::encode(file));
}

std::string read_bytes(const std::string& path, std::vector<std::uint8_t>& bytes) {
  std::string contents;
  if (auto problem = storage::read_file(path, training_bytes_max, contents); !problem.empty())
    return problem;
  bytes.assign(contents.begin(), contents.end());
  return {};
}

} // namespace

training_files::training_files(std::string policy)
    : policy_(std::move(policy)), page_(std::filesystem::path(policy_).replace_extension(".html").string()) {}

std::string training_files::write_policy(std::span<const std::uint8_t> parameters,
                                         const training_origin& origin) const {
  return write_with_origin(policy_, parameters, origin);
}

std::string training_files::write_training(std::span<const std::uint8_t> saved, const training_origin& origin) const {
  return write_with_origin(training(), saved, origin);
}

std::string training_files::write_report(const training_origin& origin, const simulator::training_curve& curve,
                                         const std::optional<simulator::validation_scores>& best) const {
  if (auto problem = storage::write_file_atomically(this->curve(), curve_csv(curve)); !problem.empty())
    return problem;
  const auto page = training_page(origin, curve, best);
  return page.empty() ? "" : storage::write_file_atomically(page_, page);
}

std::string training_files::read_training(std::vector<std::uint8_t>& saved, training_origin& origin) const {
  if (auto problem = read_bytes(training(), saved); !problem.empty())
    return problem;
  storage::tensor_file file;
  if (auto problem = storage::decode(saved, file); !problem.empty())
    return training() + ": " + problem;
  origin.command = file.metadata["command"];
  origin.commit = file.metadata["commit"];
  const auto& seed = file.metadata["seed"];
  if (std::from_chars(seed.data(), seed.data() + seed.size(), origin.seed).ec != std::errc())
    return training() + ": its seed is \"" + seed + "\"";
  std::istringstream names(file.metadata["scenarios"]);
  for (std::string name; std::getline(names, name);)
    origin.scenarios.push_back(name);
  return {};
}

std::string training_files::read_policy(std::vector<std::uint8_t>& parameters) const {
  return read_bytes(policy_, parameters);
}

} // namespace dynamix::node
