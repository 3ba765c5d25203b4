#include "trainer/interactions.hpp"

#include "client/random.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace dynamix::trainer {

namespace {

constexpr std::uint64_t data_seed = 20; ///< one data set, whatever the run's seed
constexpr std::uint32_t tastes = 16;
/// MovieLens-20M's mean is 2.1 times its median of interactions a user, which makes sigma sqrt(2 ln 2.1).
constexpr double activity_sigma = 1.22;

double uniform(client::splitmix64& random) {
  return static_cast<double>(random.next() >> 11U) * 0x1p-53;
}

/// The place of a uniform draw among running sums.
std::uint32_t draw(const std::vector<double>& running, client::splitmix64& random) {
  const auto found = std::ranges::upper_bound(running, uniform(random) * running.back());
  return static_cast<std::uint32_t>(
      std::min<std::ptrdiff_t>(found - running.begin(), static_cast<std::ptrdiff_t>(running.size()) - 1));
}

std::uint32_t taste_of(std::uint32_t user) {
  return static_cast<std::uint32_t>(client::splitmix64::finalise(user + data_seed) % tastes);
}

} // namespace

interactions_shape interactions_shape_of(double scale) {
  const auto scaled = [&](double whole, double least) {
    return static_cast<std::uint64_t>(std::max(least, std::round(whole * scale)));
  };
  const auto users = static_cast<std::uint32_t>(scaled(138'493, tastes));
  return {.users = users,
          .items = static_cast<std::uint32_t>(scaled(26'744, 2 * tastes)),
          .train = scaled(20'000'263, 1000),
          .test = users};
}

interactions::interactions(const interactions_shape& shape, std::uint64_t first, std::uint64_t count)
    : shape_(shape), first_(first), count_(count) {
  double sum = 0;
  for (std::uint32_t user = 0; user < shape.users; ++user) {
    client::splitmix64 random(client::derive_seed(data_seed, user));
    const double radius = std::sqrt(-2 * std::log(1 - uniform(random))); // Box and Muller's
    sum += std::exp(activity_sigma * radius * std::cos(2 * std::numbers::pi * uniform(random)));
    activity_.push_back(sum);
  }
  sum = 0;
  for (std::uint32_t item = 0; item < shape.items; ++item)
    popularity_.push_back(sum += std::pow(item + 25.0, -0.9));
}

interaction interactions::at(std::uint64_t number) const {
  client::splitmix64 random(client::derive_seed(data_seed + 1, first_ + number));
  interaction sample{.user = draw(activity_, random)};
  auto item = draw(popularity_, random);
  const auto own = item - item % tastes + taste_of(sample.user);
  if (random.below(2) == 0 && own < shape_.items)
    item = own;
  for (auto& other : sample.items)
    other = random.below(shape_.items);
  sample.chosen = static_cast<std::uint8_t>(random.below(candidates));
  sample.items[sample.chosen] = item;
  return sample;
}

} // namespace dynamix::trainer
