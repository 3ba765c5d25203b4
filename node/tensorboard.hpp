#pragma once

/// A run's scalars for TensorBoard, from its ledger's rows.

#include "ledger/file.hpp"
#include "node/event_file.hpp"
#include "node/window_series.hpp"

#include <cstdint>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace dynamix::node {

/// What one row has to say, and at which step of training. Pure but for what it remembers.
class scalar_reader {
public:
  struct moment {
    double wall_seconds = 0; ///< since 1970
    std::uint64_t step = 0;
    std::vector<scalar> scalars;
  };
  /// Nothing for rows without numbers. Batch sizes are told worker by worker up to 64 of them, beyond that the
  /// largest and the smallest.
  std::optional<moment> read(const ledger::row& row);

private:
  std::vector<scalar> scalars_of(const ledger::window& window);

  window_columns columns_;
  double started_seconds_ = 0; ///< of the arbitrator's life, since 1970
  std::uint64_t step_ = 0;
};

/// Follows a ledger in a thread of its own until it is destroyed, and writes what comes into a new event file.
class tensorboard_log {
public:
  /// `directory` is made. `skip`: rows that are there already belong to an earlier life and are in its event file.
  /// `problem` says why nothing can be written.
  tensorboard_log(const std::string& ledger, const std::string& directory, bool skip, std::string& problem);
  ~tensorboard_log();
  tensorboard_log(const tensorboard_log&) = delete;
  tensorboard_log& operator=(const tensorboard_log&) = delete;

private:
  void look();

  ledger::tail tail_;
  scalar_reader reader_;
  std::ofstream file_;
  std::jthread thread_;
};

} // namespace dynamix::node
