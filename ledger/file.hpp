#pragma once

/// The ledger's file: appended to by a run, read as a whole or followed while it is written.

#include "ledger/rows.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::ledger {

/// Thread-safe: the arbitrator, its hub and the supervisors all write.
class writer {
public:
  virtual ~writer() = default;
  virtual void append(const row& row) = 0;
};

/// Appends to `path`, one write a line. A write that fails is logged once and the run goes on.
std::unique_ptr<writer> open_file(const std::string& path, std::string& error);

/// All rows of a ledger; a torn last line is left out. `error` says why the file cannot be read.
std::vector<row> read_file(const std::string& path, std::string& error);

/// Follows a ledger that is being written.
class tail {
public:
  explicit tail(std::string path) : path_(std::move(path)) {}

  /// The rows that were completed since the last call; none while the file does not exist.
  std::vector<row> read();

private:
  std::string path_;
  std::uint64_t offset_ = 0; ///< behind the last whole line
};

} // namespace dynamix::ledger
