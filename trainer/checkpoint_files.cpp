#include "trainer/checkpoint_files.hpp"

#include <algorithm>
#include <filesystem>

namespace dynamix::trainer {

namespace {

constexpr std::size_t kept_limit = 3;

} // namespace

std::string checkpoint_files::write(const checkpoint& state) {
  if (!enabled())
    return {};
  auto path = write_to(checkpoint_path(directory_, state.step), state);
  if (path.empty() || std::ranges::find(kept_, path) != kept_.end())
    return path;
  kept_.push_back(path);
  if (kept_.size() > kept_limit) {
    std::error_code ignored; // one file too many does no harm
    std::filesystem::remove(kept_.front(), ignored);
    kept_.pop_front();
  }
  return path;
}

std::string checkpoint_files::write_for_host(const checkpoint& state, const std::string& host) {
  if (!enabled())
    return {};
  std::filesystem::path path = checkpoint_path(directory_, state.step);
  path.replace_filename(path.stem().string() + "-" + host + path.extension().string());
  return write_to(path.string(), state);
}

std::string checkpoint_files::write_to(const std::string& path, const checkpoint& state) {
  std::error_code failed; // writing says it better
  std::filesystem::create_directories(directory_, failed);
  problem_ = write_checkpoint(path, state);
  if (!problem_.empty())
    return {};
  newest_ = path;
  return path;
}

} // namespace dynamix::trainer
