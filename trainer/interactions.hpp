#pragma once

/// A synthetic data set of which user chose which item, of the shape of MovieLens-20M (138,493 users, 26,744 items,
/// 20,000,263 interactions): activity of users log-normal, popularity of items proportional to (rank + 25)^-0.9, and
/// half of all choices drawn to one of 16 tastes that users and items share, so that there is something to learn
/// beyond popularity. Samples are computed from their number rather than stored.

#include <array>
#include <cstdint>
#include <vector>

namespace dynamix::trainer {

struct interactions_shape {
  std::uint32_t users = 0;
  std::uint32_t items = 0;
  std::uint64_t train = 0; ///< interactions
  std::uint64_t test = 0;  ///< one a user
};
/// `scale` times MovieLens-20M, in users, items and interactions; scale in (0, 1].
interactions_shape interactions_shape_of(double scale);

/// Items that a sample asks to tell apart: the one chosen, and others drawn uniformly.
inline constexpr std::uint32_t candidates = 5;

struct interaction {
  std::uint32_t user = 0;
  std::array<std::uint32_t, candidates> items{};
  std::uint8_t chosen = 0; ///< position among the items
};

/// One split of a data set of choices.
class choice_set {
public:
  virtual ~choice_set() = default;
  virtual std::uint64_t size() const = 0;
  /// Sample `number` below `size()`; always the same. May be asked by several threads at once.
  virtual interaction at(std::uint64_t number) const = 0;
};

class interactions final : public choice_set {
public:
  /// `first`: the number of the first sample in the whole data set, so that splits have none in common.
  interactions(const interactions_shape& shape, std::uint64_t first, std::uint64_t count);

  std::uint64_t size() const override { return count_; }
  interaction at(std::uint64_t number) const override;

private:
  interactions_shape shape_;
  std::uint64_t first_;
  std::uint64_t count_;
  std::vector<double> activity_;   ///< running sums over the users
  std::vector<double> popularity_; ///< over the items
};

} // namespace dynamix::trainer
