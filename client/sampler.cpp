#include "client/sampler.hpp"

#include "client/random.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace dynamix::client {

sampler::sampler(std::uint64_t seed, std::vector<std::uint64_t> lengths, bool shuffled, bool stream)
    : seed_(seed), lengths_(std::move(lengths)), shuffled_(shuffled), stream_(stream),
      items_(std::accumulate(lengths_.begin(), lengths_.end(), std::uint64_t{0})) {}

std::vector<item_range> sampler::items_of(std::uint64_t epoch, std::uint64_t used) {
  if (!stream_)
    return {{0, used, items_}};
  if (shuffled_)
    shuffle(epoch);
  std::vector<item_range> ranges;
  for (std::size_t i = 0; i < lengths_.size(); ++i) {
    const auto shard = shuffled_ ? order_[i] : i;
    if (lengths_[shard] > 0)
      ranges.push_back({shard, 0, lengths_[shard]});
  }
  return ranges;
}

std::vector<std::uint32_t> sampler::numbers_of(std::uint64_t epoch, std::span<const item_range> ranges) {
  if (shuffled_)
    shuffle(epoch);
  std::vector<std::uint32_t> numbers;
  for (const auto& range : ranges)
    for (auto place = range.first; place < range.last; ++place)
      numbers.push_back(shuffled_ ? order_[place] : static_cast<std::uint32_t>(place));
  return numbers;
}

item_range sampler::stand_in() const {
  const auto filled = std::ranges::find_if(lengths_, [](std::uint64_t length) { return length > 0; });
  return {static_cast<std::uint64_t>(filled - lengths_.begin()), 0, 1};
}

void sampler::shuffle(std::uint64_t epoch) {
  if (epoch_ == epoch)
    return;
  epoch_ = epoch;
  order_.resize(stream_ ? lengths_.size() : items_);
  std::iota(order_.begin(), order_.end(), 0U);
  splitmix64 generator(derive_seed(seed_, epoch));
  for (auto last = static_cast<std::uint32_t>(order_.size()); last > 1; --last)
    std::swap(order_[last - 1], order_[generator.below(last)]);
}

} // namespace dynamix::client
