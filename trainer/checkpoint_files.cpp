#include "trainer/checkpoint_files.hpp"

#include <filesystem>

namespace dynamix::trainer {

namespace {

constexpr std::size_t kept_limit = 3;

} // namespace

std::string checkpoint_files::write(const checkpoint& state) {
  if (!enabled())
    return {};
  auto path = write_to(checkpoint_path(directory_, state.step), state);
  if (path.empty())
    return path;
  // Whoever wrote them: another member may have been the first before. Later ones are of a run that was resumed from
  // an earlier checkpoint, and stay.
  const auto written = checkpoints_up_to(directory_, state.step);
  for (std::size_t i = 0; i + kept_limit < written.size(); ++i) {
    std::error_code ignored; // one file too many does no harm
    std::filesystem::remove(written[i], ignored);
    std::filesystem::remove(written[i] + storage::signature_suffix, ignored);
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
  problem_ = write_checkpoint(path, state, write_);
  if (!problem_.empty())
    return {};
  newest_ = path;
  return path;
}

} // namespace dynamix::trainer
