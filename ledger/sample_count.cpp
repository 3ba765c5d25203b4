#include "ledger/sample_count.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::ledger {

std::optional<sample_count::place> sample_count::place_of(const ledger::window& window) {
  place found{.generation = window.generation, .workers = window.workers.size()};
  std::uint64_t batches = 0;
  for (const auto& worker : window.workers) {
    const auto& report = worker.report;
    if (worker.stale || report.window != window.key.window)
      return std::nullopt;
    found.epoch = report.epoch;
    found.cursor = report.epoch_samples;
    found.first_step = report.first_step;
    found.next_step = report.first_step + report.training.steps;
    found.trained += report.training.samples;
    batches += report.batch;
  }
  // The group of a script may have members that are not, or no more, of their agents' generation.
  const bool whole = !window.workers.empty() && batches == window.workers.front().report.global_batch;
  return whole ? std::optional(found) : std::nullopt;
}

void sample_count::add(const ledger::row& row) {
  if (const auto* start = std::get_if<ledger::start>(&row.entry))
    dataset_samples_ = start->dataset_samples;
  const auto* window = std::get_if<ledger::window>(&row.entry);
  if (window == nullptr)
    return;
  const auto now = place_of(*window);
  if (now && before_ && now->generation == before_->generation && now->workers == before_->workers &&
      now->first_step == before_->next_step && now->epoch == before_->epoch + 1)
    ++epoch_sizes_[before_->cursor + now->trained - now->cursor];
  before_ = now;
  last_.reset(); // that of an earlier life is none
  for (const auto& worker : window->workers)
    if (worker.report.final)
      last_ = place{.epoch = worker.report.epoch, .cursor = worker.report.epoch_samples};
}

/// Who has died in the window has not said what it trained: of sizes that are as frequent, the largest.
std::uint64_t sample_count::epoch_samples() const {
  const auto most =
      std::ranges::max_element(epoch_sizes_, {}, [](const auto& size) { return std::pair(size.second, size.first); });
  return most == epoch_sizes_.end() ? dataset_samples_ : most->first;
}

std::optional<sample_account> sample_count::against(std::uint64_t trained_samples) const {
  if (!last_ || (last_->epoch > 0 && epoch_samples() == 0))
    return std::nullopt;
  const std::uint64_t dealt = last_->epoch * epoch_samples() + last_->cursor;
  return sample_account{.dropped = dealt - std::min(dealt, trained_samples),
                        .repeated = trained_samples - std::min(dealt, trained_samples)};
}

} // namespace dynamix::ledger
