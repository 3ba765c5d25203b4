#include "trainer/checkpoint_files.hpp"

#include <filesystem>

namespace dynamix::trainer {

std::string checkpoint_files::write(const checkpoint& state) {
  return write_as(state, "");
}

std::string checkpoint_files::write_for_host(const checkpoint& state, const std::string& host) {
  return write_as(state, host);
}

/// Whoever wrote them: another member may have been the first before. Later ones are of a run that was resumed from an
/// earlier checkpoint, and stay.
void checkpoint_files::remove_old(std::uint64_t step, const std::string& host) const {
  const auto written = checkpoints_up_to(directory_, step, host);
  for (std::size_t i = 0; i + keep_ < written.size(); ++i) {
    std::error_code ignored; // one file too many does no harm
    std::filesystem::remove(written[i], ignored);
    std::filesystem::remove(written[i] + storage::signature_suffix, ignored);
  }
  for (const auto& torn : unfinished_checkpoints(directory_))
    if (torn.step <= step && torn.of == checkpoint_path(directory_, torn.step, host)) {
      std::error_code ignored;
      std::filesystem::remove(torn.path, ignored);
    }
}

std::string checkpoint_files::write_as(const checkpoint& state, const std::string& host) {
  if (!enabled())
    return {};
  std::error_code failed; // writing says it better
  std::filesystem::create_directories(directory_, failed);
  const auto path = checkpoint_path(directory_, state.step, host);
  problem_ = write_checkpoint(path, state, write_);
  if (std::filesystem::exists(path, failed)) // also where it could not be signed
    remove_old(state.step, host);
  if (!problem_.empty())
    return {};
  newest_ = path;
  return path;
}

} // namespace dynamix::trainer
