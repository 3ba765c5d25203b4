#include "actors/host/layout_file.hpp"

#include "storage/atomic_file.hpp"
#include "storage/json_text.hpp"

#include <nlohmann/json.hpp>
#include <spdlog/spdlog.h>

namespace dynamix::actors {
namespace {

constexpr std::size_t max_file_bytes = 1U << 20;

} // namespace

shard_layout read_layout(const std::string& path) {
  std::string text;
  if (!storage::read_file(path, max_file_bytes, text).empty())
    return {};
  try {
    const auto json = nlohmann::json::parse(text);
    return {.cluster_digest = json.at("cluster_digest").get<std::uint64_t>(),
            .serving = json.at("serving").get<std::vector<std::uint32_t>>(),
            .homes = json.at("homes").get<std::vector<std::uint32_t>>()};
  } catch (const nlohmann::json::exception& error) {
    spdlog::warn("layout_not_read error={}", storage::quoted(error.what()));
    return {};
  }
}

std::string write_layout(const std::string& path, const shard_layout& layout) {
  const nlohmann::json json = {
      {"cluster_digest", layout.cluster_digest}, {"serving", layout.serving}, {"homes", layout.homes}};
  return storage::write_file_atomically(path, json.dump());
}

} // namespace dynamix::actors
