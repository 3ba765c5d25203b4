#pragma once

/// When a window closes where it need not last window_steps: earlier at a surprise or when it lasts long, later when
/// steps are short and nothing happens. Pure, without Torch. Every worker lays a note into a slot of what the workers
/// sum at every step anyway, so all close the same windows without a message.
///
/// Windows keep their numbers: the steps from (w-1) k + 1 to w k may close window w once, with k = window_steps. What
/// an early end leaves of them belongs to the next window, and one that goes on takes the number of where it ends. So
/// the arbitrator decides no more often than without.

#include "cluster/cluster_file.hpp"
#include "messages/types.hpp"
#include "policy/pace_tracker.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace dynamix::policy {

struct window_options {
  std::uint32_t steps = 10;       ///< k, at least 5
  std::uint32_t settle_steps = 2; ///< cluster::settle_steps
  bool surprise = false;
  double shortest_seconds = 0; ///< no window closes before, but the last
  double longest_seconds = 0;  ///< it closes then, counted or not; 0: no bound
};

/// Nothing where windows are counted only: as the file says, or where nobody decides between the workers of the
/// built-in trainer.
std::optional<window_options> window_options_of(const cluster::cluster_file& file);

enum class window_end : std::uint8_t {
  none,     ///< it goes on; of a window in a ledger: an older program did not say
  counted,  ///< its steps are over
  overdue,  ///< it has lasted longest_seconds
  surprise, ///< somebody's speed has changed
  last,     ///< training has ended
};

/// Why a window closed, by its reports; an older one that stood in for a late one says nothing. `options`: by which the
/// workers watched; nothing: they counted.
window_end end_of(const messages::shard_report& window, const std::optional<window_options>& options);

/// One worker's part, in one generation.
class window_watch {
public:
  /// `closed_window`: the newest that has been closed before.
  window_watch(const window_options& options, std::uint64_t closed_window)
      : options_(options), closed_(closed_window) {}

  /// Whether the workers agree on decisions in the step that makes it `steps` completed ones: settle_steps behind the
  /// end of a window, and at the usual places.
  bool agrees(std::uint64_t steps) const;
  /// What this worker lays beside its gradients after computing a step, in a window that is `window_seconds` old. Its
  /// speed has changed where `own` has found a change since the last call: Page's CUSUM, see there.
  float note(const pace_tracker& own, double window_seconds);
  /// Whether the window closes with the step that made it `steps` completed ones, by what all have laid. The same on
  /// all.
  window_end close(std::uint64_t steps, std::span<const float> notes);

private:
  window_options options_;
  std::uint64_t closed_;
  std::uint64_t agree_at_ = 0;
  std::uint64_t changes_ = 0; ///< that are known
  bool surprised_ = false;    ///< in this window
};

} // namespace dynamix::policy
