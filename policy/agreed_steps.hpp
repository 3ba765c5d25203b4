#pragma once

/// Which step a window's decisions are due at, from what its workers say of their steps. They train in step, so all who
/// reported in time say the same: progress is not taken from one of them. Pure, without Torch.

#include "messages/types.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::policy {

/// A worker whose steps are not those of the others.
struct doubted_steps {
  std::uint32_t rank = 0;
  std::string host;
  std::string reason; ///< one sentence for a person
};

struct agreed_steps {
  std::uint64_t due_step = 0; ///< the first under the decisions on this window
  std::uint64_t end_step = 0; ///< completed at the window's end
  bool last = false;          ///< training ends with this window, as more than half say
  std::vector<doubted_steps> doubted;
};

/// What most of those who reported in time say; of as many the step nearest to where this window's number puts it, then
/// the earlier one, for what is due too early is only applied late. Where nobody reported in time, the last reports
/// count. Who is more than two windows off is doubted. For any numbers; steps beyond messages::max_counter count as
/// that.
agreed_steps agree_on_steps(const messages::shard_report& window, std::uint32_t window_steps);

} // namespace dynamix::policy
