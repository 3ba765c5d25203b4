#pragma once

#include "messages/types.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace dynamix::ledger {

/// Each worker's newest report that was counted. A worker that has not heard of a decision says its newest report again
/// to whoever arbitrates then, and nobody decides on its last one.
class counted_reports {
public:
  bool has(const messages::window_report& report) const {
    const auto found = newest_.find(report.host);
    return found != newest_.end() && found->second == place_of(report);
  }
  /// False: it was counted before.
  bool count(const messages::window_report& report) {
    return std::exchange(newest_[report.host], place_of(report)) != place_of(report);
  }
  void clear() { newest_.clear(); }

private:
  using place = std::optional<std::pair<std::uint64_t, std::uint64_t>>; ///< generation and window
  static place place_of(const messages::window_report& report) { return std::pair{report.generation, report.window}; }

  std::map<std::string, place> newest_;
};

} // namespace dynamix::ledger
