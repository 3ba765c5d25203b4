#pragma once

/// The ledger's file: appended to by a run, read as a whole or followed while it is written.

#include "ledger/line_reader.hpp"
#include "ledger/rows.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::ledger {

/// Thread-safe: the arbitrator, its aggregator and the supervisors all write.
class writer {
public:
  virtual ~writer() = default;
  virtual void append(const row& row) = 0;
};

/// Takes whole lines as they are, without their newlines: of a ledger that is copied.
class line_writer {
public:
  virtual ~line_writer() = default;
  virtual void append_line(std::string_view line) = 0;
};

/// Appends to `path`, one write a line. A write that fails is logged once and the run goes on. `keep_bytes`: what all
/// parts of the ledger may take up (ledger/segments.hpp); 0: no limit, and one part.
std::unique_ptr<writer> open_file(const std::string& path, std::string& error, std::uint64_t keep_bytes = 0);
std::unique_ptr<line_writer> open_lines(const std::string& path, std::string& error, std::uint64_t keep_bytes = 0);

/// All rows of a ledger; a torn last line is left out. `error` says why the file cannot be read, or which segment is
/// damaged, and where: then the rows of the others are there.
std::vector<row> read_file(const std::string& path, std::string& error);

/// Follows a ledger that is being written.
class tail {
public:
  explicit tail(std::string path) : lines_(std::move(path)) {}

  /// The rows that were completed since the last call; none while the file does not exist.
  std::vector<row> read();
  /// The same, one by one: of a ledger that was never read, all at once take several times its size.
  void read(const std::function<void(row&&)>& take);
  /// Passes over the rows that are there.
  void skip() { lines_.skip_to_end(); }

private:
  line_reader lines_;
};

} // namespace dynamix::ledger
