#pragma once

#include "trainer/checkpoint.hpp"

#include <string>

namespace dynamix::trainer {

/// Writes a run's checkpoints into one directory and keeps the newest `keep` up to the one just written.
class checkpoint_files {
public:
  /// An empty `directory` turns writing off.
  explicit checkpoint_files(std::string directory, storage::file_writer write = storage::write_private_file,
                            std::size_t keep = 3)
      : directory_(std::move(directory)), write_(std::move(write)), keep_(keep) {}

  bool enabled() const { return !directory_.empty(); }
  /// Returns the path, or an empty string when writing failed or is off; `problem()` then says why.
  std::string write(const checkpoint& state);
  /// A checkpoint that `host` writes for itself since it has lost its peers. Of its own the newest `keep` stay, too.
  std::string write_for_host(const checkpoint& state, const std::string& host);

  const std::string& newest() const { return newest_; }
  /// Of the last write; empty when it went well.
  const std::string& problem() const { return problem_; }

private:
  std::string write_as(const checkpoint& state, const std::string& host);
  void remove_old(std::uint64_t step, const std::string& host) const;

  std::string directory_;
  storage::file_writer write_;
  std::size_t keep_;
  std::string newest_;
  std::string problem_;
};

} // namespace dynamix::trainer
