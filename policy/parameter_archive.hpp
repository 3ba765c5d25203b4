#pragma once

/// Keeps the parameters that decide in a run, so that its decisions can be made again. Includes no Torch.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dynamix::policy {

/// FNV-1a over the bytes, 16 hexadecimal digits; empty for no bytes.
std::string digest_of(std::span<const std::uint8_t> parameters);

/// A directory of files `<digest>.dynamix`. One that is full takes no more: what was decided up to then can be made
/// again, what comes later cannot.
class parameter_archive {
public:
  static constexpr std::uint64_t default_bytes_max = 256U << 20;

  explicit parameter_archive(std::string directory, std::uint64_t bytes_max = default_bytes_max);

  /// Keeps them unless they are there whole: a file of another length, which a crash has left, is replaced. Returns an
  /// empty string, or why they are not kept.
  std::string keep(std::span<const std::uint8_t> parameters);
  /// Returns an empty string, or why they cannot be had: missing, damaged.
  std::string read(const std::string& digest, std::vector<std::uint8_t>& parameters) const;

private:
  std::string path_of(const std::string& digest) const { return directory_ + "/" + digest + ".dynamix"; }

  std::string directory_;
  std::uint64_t bytes_max_;
  std::uint64_t bytes_ = 0;
};

} // namespace dynamix::policy
