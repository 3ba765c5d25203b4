#pragma once

#include "actors/ledger.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

/// Follows a ledger that is being written.
class ledger_tail {
public:
  explicit ledger_tail(std::string path) : path_(std::move(path)) {}

  /// The rows that were completed since the last call; none while the file does not exist.
  std::vector<actors::ledger_row> read();

private:
  std::string path_;
  std::uint64_t offset_ = 0; ///< behind the last whole line
};

} // namespace dynamix::node
