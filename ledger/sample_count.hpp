#pragma once

/// Whether every sample was trained once an epoch, counted as the ledger is read. Pure.

#include "ledger/rows.hpp"

#include <cstdint>
#include <map>
#include <optional>

namespace dynamix::ledger {

struct sample_account {
  std::uint64_t dropped = 0;  ///< dealt, and not trained
  std::uint64_t repeated = 0; ///< trained more than once
};

class sample_count {
public:
  void add(const ledger::row& row);
  /// The sampler's place in the last window against what the workers say was trained; nothing where that window was not
  /// recorded, or where nothing tells an epoch's size. An epoch's size is that of the ledger's epochs, where a window
  /// in which one ended and the window before it are there whole, or else the data set's.
  std::optional<sample_account> against(std::uint64_t trained_samples) const;

private:
  /// What all workers say of one window.
  struct place {
    std::uint64_t generation = 0;
    std::size_t workers = 0;
    std::uint64_t epoch = 0;
    std::uint64_t cursor = 0;
    std::uint64_t first_step = 0;
    std::uint64_t next_step = 0;
    std::uint64_t trained = 0;
  };
  /// Nothing of a window in which a report is missing, or the batch of somebody who trains.
  static std::optional<place> place_of(const ledger::window& window);
  std::uint64_t epoch_samples() const;

  std::uint64_t dataset_samples_ = 0;
  std::optional<place> before_;
  std::map<std::uint64_t, std::uint64_t> epoch_sizes_; ///< how many epochs had which
  std::optional<place> last_;                          ///< behind which nobody trains on
};

} // namespace dynamix::ledger
