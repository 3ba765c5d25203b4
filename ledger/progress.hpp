#pragma once

/// How far a run is, from its ledger's rows alone. Pure.

#include "ledger/counted_reports.hpp"
#include "ledger/rows.hpp"

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::ledger {

class progress {
public:
  void add(const ledger::row& row);

  /// False before the first window.
  bool training() const { return window_ > 0; }
  /// Whether the workers have come together: a generation was formed, or a window closed.
  bool begun() const { return formed_ || training(); }
  std::uint64_t window() const { return window_; }
  /// Of all workers since the first epoch's start; since the run's where the samples of an epoch are not known.
  double samples_done() const { return samples_done_; }
  std::uint64_t epoch() const { return epoch_; } ///< of the last window, from 0
  /// 0: not known, as for training processes that are not dynamix-node's; so are the planned ones.
  double samples_per_epoch() const { return static_cast<double>(start_.dataset_samples); }
  double samples_planned() const { return start_.epochs * static_cast<double>(start_.dataset_samples); }
  /// Over the last windows; 0 while unknown.
  double samples_per_second() const;
  /// To the last epoch's end; negative while unknown. In samples, so a batch size that changes does not mislead it.
  double eta_seconds() const;
  double target_accuracy() const { return start_.target_accuracy; }
  struct target_eta {
    double soonest_seconds = 0;
    std::optional<double> latest_seconds; ///< nothing: perhaps not before the last epoch
  };
  /// To the evaluation that will show the target accuracy, if accuracy goes on as it did: the test error falls with a
  /// power of the samples, fitted to the last evaluations; at the latest where the power is smaller than fitted by
  /// three standard errors. Nothing where there is no target, where fewer than three evaluations are known, where they
  /// do not show that the error still falls, or where the last epoch comes first.
  std::optional<target_eta> time_to_target() const;
  double elapsed_seconds() const { return elapsed_seconds_; }
  std::optional<double> test_accuracy() const { return test_accuracy_; }
  /// Mean batch accuracy of the last window, weighted by samples.
  double batch_accuracy() const { return batch_accuracy_; }
  /// Worker and batch size in force, by rank.
  const std::vector<std::pair<std::string, std::uint32_t>>& batches() const { return batches_; }
  /// For a person, what the first window waits for: "waiting for workers: 3 of 4 are here, dot is missing"; and what
  /// has gone wrong meanwhile.
  std::string waiting() const;

private:
  void add_window(const ledger::window& window);
  void note(const ledger::event& event);

  struct point {
    double seconds;
    double samples;
  };
  struct evaluated {
    double samples;
    double error; ///< 1 - test accuracy
  };
  ledger::start start_;
  std::deque<point> recent_;
  std::deque<evaluated> evaluations_; ///< the last few
  bool formed_ = false;
  std::uint64_t window_ = 0;
  double samples_done_ = 0;
  std::uint64_t epoch_ = 0;
  double elapsed_seconds_ = 0;
  double batch_accuracy_ = 0;
  std::optional<double> test_accuracy_;
  std::vector<std::pair<std::string, std::uint32_t>> batches_;
  counted_reports counted_;
  std::set<std::string> here_; ///< workers that have joined
  bool stepped_ = false;       ///< the generation has completed a step
  std::string trouble_;        ///< the last event before training that is not of the usual ones
};

/// "epoch 2/5  34 %  5,123 samples/s  test accuracy 86.1 %  ETA at most 1:42, 88.5 % in 0:21 to 1:05  batch ada 164 ben
/// 139"; without a target accuracy nothing can end training early, and it says "ETA 1:42".
std::string progress_line(const progress& now);

} // namespace dynamix::ledger
