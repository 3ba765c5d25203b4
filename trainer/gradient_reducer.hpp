#pragma once

/// Sums the workers' gradients while backward still runs. Internal to the room: includes Torch.

#include "exchange/group.hpp"
#include "trainer/clock.hpp"
#include "trainer/device_copies.hpp"
#include "trainer/step_times.hpp"

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

namespace dynamix::trainer {

/// What one step's exchange brought, beside the gradients themselves.
struct reduction {
  std::uint64_t global_batch = 0;            ///< B = sum_i b_i
  double weighted_squares = 0;               ///< sum_i b_i |g_i|^2 over all workers, g_i the mean gradient of worker i
  double own_square = 0;                     ///< |g_i|^2 of this worker; 0 for batch 0
  double square = 0;                         ///< |g|^2 of the global batch's mean gradient, before any clipping
  double blocked_seconds = 0;                ///< waiting for peers and for the network
  std::vector<collective_times> collectives; ///< one a bucket
  std::vector<std::int64_t> rows;            ///< of all workers, by position; empty where there are none
};

/// What this worker tells all others in a step: as many numbers as its row has columns.
using row_source = std::function<std::vector<std::int64_t>()>;

/// The gradient of the global batch, g = sum_i (b_i/B) g_i, from losses that are SUMS over a worker's samples: their
/// gradients are b_i*g_i, so that one plain sum and one division by B give g at any batch sizes.
///
/// Parameters are packed into flat buckets, in reverse order since backward reaches the last ones first. A hook copies
/// each gradient into its bucket, and a bucket is sent off as soon as it is full and all before it are under way, so
/// the order is the same on all ranks. Sparse parameters (embeddings, of which a step touches few rows) come last,
/// those with rows of one length in one bucket, whose rows the exchange may leave out where they are zero. Beside the
/// gradients it sums b_i and the bucket's share of |b_i*g_i|^2 / b_i, which gives B and sum_i b_i|g_i|^2 without a
/// collective of their own. A worker with batch 0 runs no backward and sends zeros.
///
/// Every worker may have a row of whole numbers that all others see, with the last bucket of dense gradients
/// (exchange::bucket::rows). It is asked for when that bucket is sent off, as all but all of the step is computed by
/// then.
///
/// Top-k with error feedback, which is lossy: of each bucket of dense gradients a worker sends only the largest
/// numbers, and adds the rest, per sample, to its gradients of the next step. So the sums are sparse, and the exchange
/// may leave out what is zero; buckets that it sums whole anyway are left alone. What a worker has not sent by the end
/// of its generation is lost. Noise and norms are of what was sent. (Lin et al., Deep Gradient Compression, arXiv
/// 1712.01887, without its momentum correction.)
///
/// Where parameters lie on a device, so do the gradients: dense buckets are packed there, and copied to the host's
/// memory and back beside what the device computes. Nothing waits for the device but `send`, which follows backward's
/// end on the host and sends each bucket off as its copy arrives, while the device still computes the others. Rows of
/// sparse parameters are taken to the host as backward reaches them, last of all.
///
/// |.|^2 is summed here rather than by BLAS, in one order on every machine: what follows from it (gains, clipping) must
/// not differ in the last bit between hosts.
class gradient_reducer {
public:
  /// `parameters`: leaves that require a gradient, all float32 or all float64, on one device. `bucket_bytes` > 0; a
  /// parameter that is larger has a bucket of its own. `row_floats`: of each parameter, the length of its rows if it is
  /// sparse, or 0; empty: none is. Float64 parameters count as dense. `row_columns`: of a worker's row; 0: there are
  /// none. `top_k`: the share of dense float32 gradients that is sent, in [0, 1); 0, or without peers: all. `copies`:
  /// between the parameters' device and the host; null where that is the CPU.
  gradient_reducer(std::vector<torch::Tensor> parameters, exchange::group& peers, const clock& time,
                   std::size_t bucket_bytes, std::vector<std::size_t> row_floats = {}, std::size_t row_columns = 0,
                   double top_k = 0, std::unique_ptr<device_copies> copies = nullptr);
  /// Takes the gradients away from the parameters.
  ~gradient_reducer();
  gradient_reducer(const gradient_reducer&) = delete;
  gradient_reducer& operator=(const gradient_reducer&) = delete;

  /// Before backward (of which there is at most one, or see `accumulate`) of a loss that sums over `batch` samples.
  /// Drops all gradients. `row`: gives this worker's, once in the step, before `finish` returns; empty: zeros.
  void begin(std::uint32_t batch, row_source row = {});
  /// While it is on, a backward adds its gradients up for a later one, of the same step, with which it is off; the
  /// batch of `begin` is that of all of them. Off after `begin`.
  void accumulate(bool on) { accumulating_ = on; }
  /// Instead of `begin`, once one of several backwards has failed: the step's gradients are computed anew. What is on
  /// its way already stays, as it was complete.
  void begin_again();
  /// Whether what this worker has sent off in the step so far, up to where its row is asked for, is all finite. Rows of
  /// sparse parameters follow behind that.
  bool is_finite() const { return std::isfinite(own_sum_square_); }
  /// After backward: sends off what is not yet on its way. A parameter that backward did not reach counts as zero.
  /// Returns when the device has computed all gradients, and they are on their way.
  void send();
  /// Sends, unless `send` has. Waits for the sums and leaves the global batch's mean gradient in the parameters. Throws
  /// exchange::error.
  reduction finish();

private:
  struct bucket {
    std::shared_ptr<exchange::bucket> sum; ///< shared with the views into it
    std::vector<std::size_t> members;      ///< parameters, in the order of their gradients
    std::size_t floats = 0;                ///< of their gradients
    std::size_t row_floats = 0;            ///< of sparse parameters; 1 where the largest numbers are sent
    std::vector<float> rest;               ///< of earlier steps' gradients, where the largest numbers are sent
    std::uint32_t rest_batch = 0;          ///< times whose samples the rest counts; 0: there is none yet
    std::size_t missing = 0;               ///< of their gradients
    torch::Tensor host = {};               ///< the gradients in `sum`, flat, where a device has them too
    torch::Tensor device = {};             ///< as flat; undefined where there is no device, or for sparse parameters
    device_event copied = {};              ///< to the host
    double launched_seconds = 0;
  };

  void pack(std::size_t bucket_bytes);
  void add_bucket(const std::vector<std::size_t>& members, std::size_t row_floats, std::size_t columns = 0);
  void write_row();
  void clear_rows(bucket& sparse);
  void fill_rows(bucket& sparse, std::size_t parameter, const torch::Tensor& gradient);
  void accept(std::size_t parameter, const torch::Tensor& gradient);
  void take(std::size_t parameter, const torch::Tensor& gradient);
  void keep_largest(bucket& full);
  void advance();
  void launch(bucket& full);
  void forget_rests();
  void await(bucket& sent, reduction& result);

  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> views_;    ///< of each parameter into its bucket
  std::vector<std::size_t> row_floats_; ///< of each parameter; 0: dense
  std::vector<std::size_t> bucket_of_;
  std::vector<bool> filled_;
  std::vector<unsigned> hooks_;
  std::vector<bucket> buckets_;
  exchange::group& peers_;
  const clock& time_;
  const std::size_t row_columns_;
  const double top_k_;
  std::size_t row_bucket_ = 0; ///< where there are rows
  row_source row_;
  std::uint32_t batch_ = 0;
  std::size_t next_ = 0; ///< bucket to send off, or to copy to the host
  bool active_ = false;
  bool sent_ = false;
  bool accumulating_ = false;
  double own_sum_square_ = 0;             ///< |b_i g_i|^2
  std::unique_ptr<device_copies> copies_; ///< last: its copies end before the memory does
};

} // namespace dynamix::trainer
