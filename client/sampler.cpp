#include "client/sampler.hpp"

#include "client/random.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dynamix::client {

sampler::sampler(std::uint64_t seed, std::uint64_t samples, bool shuffled)
    : seed_(seed), samples_(samples), shuffled_(shuffled), permutation_(shuffled ? samples : 0) {
  shuffle(0);
}

deal_result sampler::deal(std::span<const std::uint32_t> batches) {
  deal_result dealt{.ranges = std::vector<index_range>(batches.size())};
  const auto wanted = std::accumulate(batches.begin(), batches.end(), std::uint64_t{0});
  if (wanted > 0 && cursor_ == epoch_samples())
    shuffle(epoch_ + 1);
  dealt.epoch = epoch_;
  if (wanted == 0)
    return dealt;
  dealt.samples = std::min(wanted, epoch_samples() - cursor_);
  // With enough left the split in proportion gives every worker exactly its batch.
  dealt.ranges = split_range({cursor_, dealt.samples}, batches);
  cursor_ += dealt.samples;
  dealt.ends_epoch = cursor_ == epoch_samples();
  return dealt;
}

std::span<const std::uint32_t> sampler::samples_of(index_range range) {
  if (!shuffled_) {
    permutation_.resize(range.count);
    std::iota(permutation_.begin(), permutation_.end(), static_cast<std::uint32_t>(range.first));
    return permutation_;
  }
  return std::span(permutation_).subspan(range.first, range.count);
}

sampler_position sampler::position() const {
  if (cursor_ == epoch_samples())
    return {epoch_ + 1, 0};
  return {epoch_, cursor_};
}

bool sampler::restore(sampler_position position) {
  if (position.cursor >= epoch_samples())
    return false;
  if (position.epoch != epoch_)
    shuffle(position.epoch);
  cursor_ = position.cursor;
  return true;
}

void sampler::shuffle(std::uint64_t epoch) {
  epoch_ = epoch;
  cursor_ = 0;
  if (!shuffled_)
    return;
  std::iota(permutation_.begin(), permutation_.end(), 0U);
  splitmix64 generator(derive_seed(seed_, epoch));
  for (auto last = static_cast<std::uint32_t>(permutation_.size()); last > 1; --last)
    std::swap(permutation_[last - 1], permutation_[generator.below(last)]);
}

} // namespace dynamix::client
