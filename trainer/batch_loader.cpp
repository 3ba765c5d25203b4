#include "trainer/batch_loader.hpp"

#include "trainer/augmentation.hpp"
#include "trainer/image_conversion.hpp"

#include <algorithm>

namespace dynamix::trainer {
namespace {

// Shuffled samples lie anywhere in memory; fetching ahead nearly halves the time of a batch.
constexpr std::uint64_t prefetch_distance = 2;

void prefetch(const std::uint8_t* first, std::size_t count) {
  constexpr std::size_t cache_line_bytes = 64;
  for (std::size_t i = 0; i < count; i += cache_line_bytes)
    __builtin_prefetch(first + i);
}

} // namespace

batch_loader::batch_loader(const dataset& data, channel_statistics statistics, torch::Device device)
    : data_(data), device_(device) {
  for (std::size_t channel = 0; channel < data.channels; ++channel) {
    scale_.push_back(1.0F / (255.0F * statistics.deviation[channel]));
    shift_.push_back(-statistics.mean[channel] / statistics.deviation[channel]);
  }
  reserve(0);
}

sample_batch batch_loader::load(std::span<const std::uint32_t> samples) {
  return fill(samples.size(), [&](std::uint64_t row) { return std::size_t{samples[row]}; });
}

sample_batch batch_loader::load(index_range range) {
  return fill(range.count, [&](std::uint64_t row) { return range.first + row; });
}

void batch_loader::reserve(std::int64_t rows) {
  labels_ = torch::empty({rows}, torch::kInt64);
  if (data_.choices) {
    inputs_ = torch::empty({rows, 1 + std::int64_t{candidates}}, torch::kInt64);
  } else if (data_.context > 0) {
    inputs_ = torch::empty({rows, data_.context}, torch::kInt64);
    labels_ = torch::empty({rows, data_.context}, torch::kInt64);
  } else {
    inputs_ = torch::empty({rows, data_.channels, data_.height, data_.width}, torch::kFloat32);
  }
}

template <class SampleAt>
void batch_loader::fill_choices(std::uint64_t count, SampleAt sample_at) {
  auto* output = inputs_.data_ptr<std::int64_t>();
  auto* labels = labels_.data_ptr<std::int64_t>();
  for (std::uint64_t row = 0; row < count; ++row) {
    const auto sample = data_.choices->at(sample_at(row));
    *output++ = sample.user;
    output = std::ranges::copy(sample.items, output).out;
    labels[row] = sample.chosen;
  }
}

template <class SampleAt>
void batch_loader::fill_text(std::uint64_t count, SampleAt sample_at) {
  auto* output = inputs_.data_ptr<std::int64_t>();
  auto* labels = labels_.data_ptr<std::int64_t>();
  for (std::uint64_t row = 0; row < count; ++row) {
    const auto* tokens = data_.text.tokens.data() + data_.text.starts[sample_at(row)];
    output = std::copy_n(tokens, data_.context, output);
    labels = std::copy_n(tokens + 1, data_.context, labels);
  }
}

template <class SampleAt>
void batch_loader::fill_images(std::uint64_t count, SampleAt sample_at) {
  const std::size_t pixels = std::size_t{data_.height} * data_.width;
  auto* output = inputs_.data_ptr<float>();
  auto* labels = labels_.data_ptr<std::int64_t>();
  const auto image_at = [&](std::uint64_t row) { return data_.images.data() + sample_at(row) * data_.image_bytes(); };
  for (std::uint64_t row = 0; row < count; ++row) {
    if (row + prefetch_distance < count)
      prefetch(image_at(row + prefetch_distance), data_.image_bytes());
    const auto* image = image_at(row);
    const auto change =
        augmentation_ ? draw_change(augmentation_->first, augmentation_->second, sample_at(row)) : image_change{};
    for (std::size_t channel = 0; channel < data_.channels; ++channel) {
      const auto* stored = image + (data_.grey ? 0 : channel * pixels);
      if (augmentation_) {
        changed_.resize(pixels);
        change_image(stored, data_.height, data_.width, change, changed_.data());
        stored = changed_.data();
      }
      convert_image(stored, pixels, scale_[channel], shift_[channel], output);
      output += pixels;
    }
    labels[row] = data_.labels[sample_at(row)];
  }
}

template <class SampleAt>
sample_batch batch_loader::fill(std::uint64_t count, SampleAt sample_at) {
  const auto rows = static_cast<std::int64_t>(count);
  if (inputs_.size(0) < rows)
    reserve(rows);
  if (data_.choices)
    fill_choices(count, sample_at);
  else if (data_.context > 0)
    fill_text(count, sample_at);
  else
    fill_images(count, sample_at);
  return {inputs_.narrow(0, 0, rows).to(device_), labels_.narrow(0, 0, rows).to(device_)};
}

} // namespace dynamix::trainer
