#pragma once

#include "client/proportional_split.hpp"
#include "trainer/dataset.hpp"
#include "trainer/device_copies.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace dynamix::trainer {

using client::index_range;

/// As the data set's task wants them (trainer/task.hpp).
struct sample_batch {
  /// Images: each channel with mean 0 and deviation 1 over the training set. Of interactions the user and the items.
  torch::Tensor inputs;
  torch::Tensor labels;
};

/// Turns sample numbers into tensors. The tensors of a batch share the loader's buffer and hold until the next `load`
/// or `expect` behind it; on another device than the CPU they are copies.
///
/// With threads a batch that is expected is prepared while another is used. A batch is the same whether it was expected
/// or not, so what is expected needs only to be likely.
class batch_loader {
public:
  /// `data` must outlive the loader. `statistics` are those of the training set, for both splits.
  batch_loader(const dataset& data, channel_statistics statistics, torch::Device device = torch::kCPU,
               std::uint32_t threads = 0);
  ~batch_loader();
  batch_loader(const batch_loader&) = delete;
  batch_loader& operator=(const batch_loader&) = delete;

  /// From now on images are changed as `draw_change` says for this seed and epoch.
  void augment(std::uint64_t seed, std::uint64_t epoch) { augmentation_ = {seed, epoch}; }

  /// Samples by number, each below `data.size()`. An empty list gives tensors of 0 rows.
  sample_batch load(std::span<const std::uint32_t> samples);
  /// Samples [first, first + count) in the order of the file.
  sample_batch load(index_range range);

  /// The next `load` is likely to ask for these samples: they are prepared meanwhile. Nothing happens without threads,
  /// or for none. The batch that was loaded last stays as it is, those before it do not.
  void expect(std::span<const std::uint32_t> samples);
  /// How many batches of `load` had been expected.
  std::uint64_t expected_batches() const { return expected_batches_; }

private:
  using augmentation = std::optional<std::pair<std::uint64_t, std::uint64_t>>; ///< seed and epoch
  struct buffer {
    torch::Tensor inputs; ///< grows to the largest batch seen
    torch::Tensor labels;
  };
  class ahead;

  void reserve(buffer& into, std::int64_t rows) const;
  sample_batch give(const buffer& from, std::uint64_t count);
  /// Rows [first, last) of a batch; may run in several threads at once for rows of their own.
  template <class SampleAt>
  void fill(const buffer& into, std::uint64_t first, std::uint64_t last, const augmentation& changes,
            SampleAt sample_at) const;
  template <class SampleAt>
  void fill_images(const buffer& into, std::uint64_t first, std::uint64_t last, const augmentation& changes,
                   SampleAt sample_at) const;
  template <class SampleAt>
  void fill_choices(const buffer& into, std::uint64_t first, std::uint64_t last, SampleAt sample_at) const;
  template <class SampleAt>
  void fill_text(const buffer& into, std::uint64_t first, std::uint64_t last, SampleAt sample_at) const;

  const dataset& data_;
  std::vector<float> scale_; ///< a channel; value = byte * scale + shift
  std::vector<float> shift_;
  augmentation augmentation_;
  torch::Device device_;
  buffer used_;
  device_event copied_;          ///< of what was in `used_` to the device
  std::unique_ptr<ahead> ahead_; ///< null without threads
  std::uint64_t expected_batches_ = 0;
};

} // namespace dynamix::trainer
