#pragma once

#include "cluster/cluster_file.hpp"

namespace dynamix::simulator {

/// What a sample is worth at a global batch and the learning rate that a rule gives it. Pure.
///
/// With S = B/B0, the ideal learning rate for B is the base rate times AdaScale's gain r = (phi/B0 + 1)/(phi/B + 1)
/// (Johnson et al., arXiv 2007.05105), for adaptive optimisers times sqrt(r). Assumed, not fitted: with the ideal rate
/// adaptive optimisers are as efficient as SGD; a lower rate makes in proportion less progress; a higher one does
/// neither good nor harm.
struct learning {
  cluster::learning_rate_rule rule = cluster::learning_rate_rule::adascale;
  bool adaptive = false;      ///< Adam or AdamW
  double initial_batch = 256; ///< B0, global: that of the base rate
  double reference_batch = 256;

  /// The gain that the trainer reports: r, 1, S or sqrt(S).
  double gain(double phi, double batch) const;
  /// On the base rate: the gain, or its root for AdaScale with an adaptive optimiser.
  double rate_factor(double phi, double batch) const;
  /// Progress of a sample, as a share of that of one at B_ref: (phi + B_ref)/(phi + B) * min(1, rate/ideal rate).
  double efficiency(double phi, double batch) const;
};

} // namespace dynamix::simulator
