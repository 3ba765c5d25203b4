#pragma once

#include <cstdint>

namespace dynamix::client {

/// What one step shows of the gradients. g_i is the mean gradient over worker i's b_i samples and
/// g = sum_i (b_i/B) g_i, B = sum_i b_i. Only workers with b_i > 0 count. A single worker passes its batch as two
/// halves, each a pseudo worker (`active_workers` = 2); its own square is then still that of its whole batch.
struct gradient_observation {
  std::uint32_t active_workers = 0;
  double weighted_square_sum = 0; ///< sum_i b_i |g_i|^2
  double global_square = 0;       ///< |g|^2, before any clipping
  std::uint64_t global_batch = 0; ///< B
  double own_square = 0;          ///< |g_i|^2 of this worker
  std::uint32_t own_batch = 0;    ///< b_i; 0: this worker shows nothing in this step
};

/// Unbiased estimates from one step (McCandlish et al., arXiv 1812.06162, appendix A, for unequal batches).
struct noise_sample {
  bool valid = false;
  double trace = 0;           ///< tr(Sigma) of one sample's gradient; the estimate may be negative
  double gradient_square = 0; ///< |G|^2 of the true gradient; the estimate may be negative
};

/// tr = (sum_i b_i|g_i|^2 - B|g|^2) / (n - 1); |G|^2 = |g|^2 - tr/B. Not valid for fewer than two active workers or
/// numbers that are not finite.
noise_sample estimate_noise(const gradient_observation& observation);

/// What is known after averaging over steps.
struct noise_estimate {
  bool valid = false;     ///< `noise_scale` has warmed up
  bool own_valid = false; ///< `sigma2_norm` and `sigma_norm` have, too
  double trace = 0;
  double gradient_square = 0; ///< at least `floor` of the mean |g|^2, so that the quotients stay bounded
  double noise_scale = 0;     ///< phi, samples, >= 0: the critical batch that the noise share speaks for
  double noise_error = 0;     ///< standard error of ln(phi), by how the steps' shares spread; 0: not known
  double sigma2_norm = 0;     ///< max(0, E|g_i|^2 - |G|^2) / |G|^2 at the worker's present batch size
  double sigma_norm = 0;      ///< its root
};

/// Mean of a stream that forgets: m = decay*m + (1-decay)*x, divided by the weight given so far (as in Adam).
struct debiased_average {
  double sum = 0;
  double weight = 0;

  void add(double value, double decay) {
    sum = decay * sum + (1 - decay) * value;
    weight = decay * weight + (1 - decay);
  }
  double value() const { return weight > 0 ? sum / weight : 0; }
  friend bool operator==(const debiased_average&, const debiased_average&) = default;
};

/// The averages that all ranks share bit for bit; goes into checkpoints.
struct noise_state {
  std::uint64_t steps = 0;
  debiased_average share; ///< of noise in |g|^2, at a global batch of `batch`
  double batch = 0;
  debiased_average trace;
  debiased_average gradient_square;
  debiased_average global_square;
  friend bool operator==(const noise_state&, const noise_state&) = default;
};

struct noise_options {
  double decay = 0.97;             ///< of the averages of tr and |G|^2, [0, 1): about 33 steps
  std::uint32_t warm_up_steps = 8; ///< valid samples before the estimate is
  double floor = 0.01;             ///< |G|^2 is at least this part of the mean |g|^2
  /// Critical batch over tr/|G|^2: 1.7 to 2.4 in trainings of LeNet, VGG11 and a Transformer at fixed batches of 16 to
  /// 1,024, 0.5 to 1 at a cool learning rate.
  double critical = 2;
  double horizon_least = 4; ///< steps that the share is averaged over: half of those taken, within these bounds
  double horizon_most = 33;
};

/// The noise scale phi from the share of noise in each step's gradient, s = tr/(B |g|^2). Of tr = tr(Sigma) and B an
/// expected share of S = tr/(tr + B |G|^2) comes to phi = critical B S/(1 - S). A step's share is bounded, so one
/// gradient a hundred times as large as the others is one step of many. Averages of tr and |G|^2 it rules for as long
/// as they last, as do quotients of single steps. When B changes the average is restated so that phi stays. The first
/// steps change phi most, and their average is shorter. How far the steps' shares lie from their mean says how well phi
/// is known; what it does not say is how near `critical` is to the truth.
class gradient_noise {
public:
  explicit gradient_noise(noise_options options = {});

  /// Takes one step in, and gives back its own raw estimate (for the learning-rate rule).
  noise_sample observe(const gradient_observation& observation);
  noise_estimate estimate() const;

  noise_state state() const { return state_; }
  /// The worker's own average and the shares' spread are not part of the state and warm up anew. So does phi from a
  /// state without a share.
  void restore(const noise_state& state);

private:
  void add_share(const noise_sample& sample, const gradient_observation& observation);
  double noise_error(double share) const;

  noise_options options_;
  noise_state state_;
  // b_i (|g_i|^2 - |G|^2) estimates the same trace at every batch size, so its parts are averaged rather than |g_i|^2,
  // which would lag behind each change of the batch size.
  debiased_average own_weighted_square_;
  debiased_average own_batch_mean_;
  std::uint64_t own_steps_ = 0;
  std::uint32_t own_batch_ = 0;
  debiased_average spread_; ///< of squared deviations of a step's share from the mean before it
  double weights_ = 0;      ///< of the steps since `restore` in the mean share
  double squared_weights_ = 0;
};

} // namespace dynamix::client
