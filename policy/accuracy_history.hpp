#pragma once

#include "messages/types.hpp"

#include <cstdint>
#include <map>

namespace dynamix::policy {

/// Remembers each worker's accuracy, so that the gain of a window can be told.
class accuracy_history {
public:
  /// Mean batch accuracy of the same worker's last window before `report`'s, negative when there is none; then
  /// remembers `report`. The same report may come again (it stands in for a late one) and gets the same answer. A new
  /// generation starts anew.
  double previous(const messages::window_report& report);
  void forget(std::uint32_t rank);

private:
  struct memory {
    std::uint64_t generation = 0;
    std::uint64_t window = 0;
    double accuracy = -1;
    double before = -1;
  };
  std::map<std::uint32_t, memory> workers_; ///< at most messages::max_workers, for ranks are below that
};

} // namespace dynamix::policy
