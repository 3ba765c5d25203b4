#include "trainer/batch_loader.hpp"

#include "trainer/augmentation.hpp"
#include "trainer/image_conversion.hpp"
#include "trainer/out_of_memory.hpp"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <thread>

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

/// The threads, and the one batch that they prepare, each a part of its rows.
class batch_loader::ahead {
public:
  ahead(const batch_loader& loader, std::uint32_t threads) : loader_(loader) {
    for (std::uint32_t part = 0; part < threads; ++part)
      threads_.emplace_back([this, part, threads](const std::stop_token& stop) { work(stop, part, threads); });
  }

  void begin(std::span<const std::uint32_t> samples, const augmentation& changes) {
    wait();
    samples_.clear(); // until there is room
    loader_.reserve(buffer_, static_cast<std::int64_t>(samples.size()));
    samples_.assign(samples.begin(), samples.end());
    changes_ = changes;
    const std::scoped_lock lock(mutex_);
    left_ = threads_.size();
    failed_ = false;
    ++batch_;
    changed_.notify_all();
  }

  /// Whether this batch has been prepared; then it is in `into`, and what was there is used for the next one.
  bool take(std::span<const std::uint32_t> samples, const augmentation& changes, buffer& into) {
    if (samples.empty() || changes != changes_ || !std::ranges::equal(samples, samples_))
      return false;
    wait();
    samples_.clear();
    if (failed_)
      return false;
    std::swap(buffer_, into);
    return true;
  }

private:
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return left_ == 0; });
  }

  void work(const std::stop_token& stop, std::uint32_t part, std::uint32_t parts) {
    for (std::uint64_t done = 0;;) {
      {
        std::unique_lock lock(mutex_);
        if (!changed_.wait(lock, stop, [&] { return batch_ != done; }))
          return;
        done = batch_;
      }
      bool failed = false;
      try {
        loader_.fill(buffer_, samples_.size() * part / parts, samples_.size() * (part + 1) / parts, changes_,
                     [this](std::uint64_t row) { return std::size_t{samples_[row]}; });
      } catch (const std::exception&) { // whoever loads it runs into it again
        failed = true;
      }
      const std::scoped_lock lock(mutex_);
      failed_ = failed_ || failed;
      --left_;
      changed_.notify_all();
    }
  }

  const batch_loader& loader_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t batch_ = 0; ///< counts those begun
  std::size_t left_ = 0;    ///< threads that are not done with it
  bool failed_ = false;
  // Only changed while all threads wait.
  std::vector<std::uint32_t> samples_;
  augmentation changes_;
  buffer buffer_;
  std::vector<std::jthread> threads_; ///< last: they end before what they use
};

batch_loader::batch_loader(const dataset& data, channel_statistics statistics, torch::Device device,
                           std::uint32_t threads)
    : data_(data), device_(device) {
  for (std::size_t channel = 0; channel < data.channels; ++channel) {
    scale_.push_back(1.0F / (255.0F * statistics.deviation[channel]));
    shift_.push_back(-statistics.mean[channel] / statistics.deviation[channel]);
  }
  reserve(used_, 0);
  if (threads > 0)
    ahead_ = std::make_unique<ahead>(*this, threads);
}

batch_loader::~batch_loader() = default;

sample_batch batch_loader::load(std::span<const std::uint32_t> samples) {
  copied_.wait();
  if (ahead_ && ahead_->take(samples, augmentation_, used_)) {
    ++expected_batches_;
  } else {
    reserve(used_, static_cast<std::int64_t>(samples.size()));
    fill(used_, 0, samples.size(), augmentation_, [&](std::uint64_t row) { return std::size_t{samples[row]}; });
  }
  return give(used_, samples.size());
}

sample_batch batch_loader::load(index_range range) {
  copied_.wait();
  reserve(used_, static_cast<std::int64_t>(range.count));
  fill(used_, 0, range.count, augmentation_, [&](std::uint64_t row) { return range.first + row; });
  return give(used_, range.count);
}

void batch_loader::expect(std::span<const std::uint32_t> samples) {
  if (!ahead_ || samples.empty())
    return;
  try {
    ahead_->begin(samples, augmentation_);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) // then it is loaded when it is wanted
      throw;
  }
}

/// Makes room for `rows`.
void batch_loader::reserve(buffer& into, std::int64_t rows) const {
  if (into.inputs.defined() && into.inputs.size(0) >= rows)
    return;
  // Memory of the host that a device copies from by itself, where there is one.
  const auto of = [&](torch::ScalarType type) { return torch::TensorOptions(type).pinned_memory(device_.is_cuda()); };
  buffer made; // whole or not at all: memory may be short, and then half a batch is tried
  if (data_.choices) {
    made = {torch::empty({rows, 1 + std::int64_t{candidates}}, of(torch::kInt64)),
            torch::empty({rows}, of(torch::kInt64))};
  } else if (data_.context > 0) {
    made = {torch::empty({rows, data_.context}, of(torch::kInt64)),
            torch::empty({rows, data_.context}, of(torch::kInt64))};
  } else {
    made = {torch::empty({rows, data_.channels, data_.height, data_.width}, of(torch::kFloat32)),
            torch::empty({rows}, of(torch::kInt64))};
  }
  into = std::move(made);
}

template <class SampleAt>
void batch_loader::fill_choices(const buffer& into, std::uint64_t first, std::uint64_t last, SampleAt sample_at) const {
  constexpr std::size_t numbers = 1 + candidates;
  auto* output = into.inputs.data_ptr<std::int64_t>() + first * numbers;
  auto* labels = into.labels.data_ptr<std::int64_t>();
  for (std::uint64_t row = first; row < last; ++row) {
    const auto sample = data_.choices->at(sample_at(row));
    *output++ = sample.user;
    output = std::ranges::copy(sample.items, output).out;
    labels[row] = sample.chosen;
  }
}

template <class SampleAt>
void batch_loader::fill_text(const buffer& into, std::uint64_t first, std::uint64_t last, SampleAt sample_at) const {
  auto* output = into.inputs.data_ptr<std::int64_t>() + first * data_.context;
  auto* labels = into.labels.data_ptr<std::int64_t>() + first * data_.context;
  for (std::uint64_t row = first; row < last; ++row) {
    const auto* tokens = data_.text.tokens.data() + data_.text.starts[sample_at(row)];
    output = std::copy_n(tokens, data_.context, output);
    labels = std::copy_n(tokens + 1, data_.context, labels);
  }
}

template <class SampleAt>
void batch_loader::fill_images(const buffer& into, std::uint64_t first, std::uint64_t last, const augmentation& changes,
                               SampleAt sample_at) const {
  const std::size_t pixels = std::size_t{data_.height} * data_.width;
  auto* output = into.inputs.data_ptr<float>() + first * data_.channels * pixels;
  auto* labels = into.labels.data_ptr<std::int64_t>();
  std::vector<std::uint8_t> changed(changes ? pixels : 0); // one channel of an image
  const auto image_at = [&](std::uint64_t row) { return data_.images.data() + sample_at(row) * data_.image_bytes(); };
  for (std::uint64_t row = first; row < last; ++row) {
    if (row + prefetch_distance < last)
      prefetch(image_at(row + prefetch_distance), data_.image_bytes());
    const auto* image = image_at(row);
    const auto change = changes ? draw_change(changes->first, changes->second, sample_at(row)) : image_change{};
    for (std::size_t channel = 0; channel < data_.channels; ++channel) {
      const auto* stored = image + (data_.grey ? 0 : channel * pixels);
      if (changes) {
        change_image(stored, data_.height, data_.width, change, changed.data());
        stored = changed.data();
      }
      convert_image(stored, pixels, scale_[channel], shift_[channel], output);
      output += pixels;
    }
    labels[row] = data_.labels[sample_at(row)];
  }
}

template <class SampleAt>
void batch_loader::fill(const buffer& into, std::uint64_t first, std::uint64_t last, const augmentation& changes,
                        SampleAt sample_at) const {
  if (data_.choices)
    fill_choices(into, first, last, sample_at);
  else if (data_.context > 0)
    fill_text(into, first, last, sample_at);
  else
    fill_images(into, first, last, changes, sample_at);
}

sample_batch batch_loader::give(const buffer& from, std::uint64_t count) {
  const auto rows = static_cast<std::int64_t>(count);
  const auto given = [&](const torch::Tensor& all) {
    return all.narrow(0, 0, rows).to(device_, /*non_blocking=*/true);
  };
  sample_batch batch{given(from.inputs), given(from.labels)};
  copied_ = device_event(device_);
  return batch;
}

} // namespace dynamix::trainer
