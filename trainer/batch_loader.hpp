#pragma once

#include "client/proportional_split.hpp"
#include "trainer/dataset.hpp"

#include <torch/torch.h>

#include <cstdint>
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

/// Turns sample numbers into tensors. The tensors of a batch share the loader's buffer and hold until the next `load`;
/// on another device than the CPU they are copies.
class batch_loader {
public:
  /// `data` must outlive the loader. `statistics` are those of the training set, for both splits.
  batch_loader(const dataset& data, channel_statistics statistics, torch::Device device = torch::kCPU);

  /// From now on images are changed as `draw_change` says for this seed and epoch.
  void augment(std::uint64_t seed, std::uint64_t epoch) { augmentation_ = {seed, epoch}; }

  /// Samples by number, each below `data.size()`. An empty list gives tensors of 0 rows.
  sample_batch load(std::span<const std::uint32_t> samples);
  /// Samples [first, first + count) in the order of the file.
  sample_batch load(index_range range);

private:
  template <class SampleAt>
  sample_batch fill(std::uint64_t count, SampleAt sample_at);
  void reserve(std::int64_t rows);
  template <class SampleAt>
  void fill_images(std::uint64_t count, SampleAt sample_at);
  template <class SampleAt>
  void fill_choices(std::uint64_t count, SampleAt sample_at);
  template <class SampleAt>
  void fill_text(std::uint64_t count, SampleAt sample_at);

  const dataset& data_;
  std::vector<float> scale_; ///< a channel; value = byte * scale + shift
  std::vector<float> shift_;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> augmentation_; ///< seed and epoch
  std::vector<std::uint8_t> changed_;                                   ///< one channel of an image
  torch::Device device_;
  torch::Tensor inputs_; ///< grows to the largest batch seen
  torch::Tensor labels_;
};

} // namespace dynamix::trainer
