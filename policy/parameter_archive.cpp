#include "policy/parameter_archive.hpp"

#include "messages/types.hpp"
#include "storage/atomic_file.hpp"
#include "storage/fnv1a.hpp"

#include <array>
#include <cstdio>
#include <filesystem>
#include <utility>

namespace dynamix::policy {

std::string digest_of(std::span<const std::uint8_t> parameters) {
  if (parameters.empty())
    return {};
  const auto digest = storage::fnv1a().add(parameters).value();
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(digest));
  return text.data();
}

parameter_archive::parameter_archive(std::string directory, std::uint64_t bytes_max)
    : directory_(std::move(directory)), bytes_max_(bytes_max) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(directory_, ignored))
    bytes_ += entry.file_size(ignored);
}

std::string parameter_archive::keep(std::span<const std::uint8_t> parameters) {
  const auto digest = digest_of(parameters);
  if (digest.empty())
    return {};
  std::error_code error;
  auto there = std::filesystem::file_size(path_of(digest), error);
  if (error)
    there = 0;
  if (there == parameters.size())
    return {};
  if (bytes_ - there + parameters.size() > bytes_max_)
    return directory_ + " is full";
  std::filesystem::create_directories(directory_, error);
  if (auto problem = storage::write_private_file(path_of(digest), parameters); !problem.empty())
    return problem;
  bytes_ += parameters.size() - there;
  return {};
}

std::string parameter_archive::read(const std::string& digest, std::vector<std::uint8_t>& parameters) const {
  std::string contents;
  if (auto problem = storage::read_file(path_of(digest), 4 * messages::max_policy_bytes, contents); !problem.empty())
    return problem;
  parameters.assign(contents.begin(), contents.end());
  return digest_of(parameters) == digest ? "" : path_of(digest) + " is damaged";
}

} // namespace dynamix::policy
