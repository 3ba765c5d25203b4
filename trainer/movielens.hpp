#pragma once

/// The ratings of MovieLens as choices: a user chose what he rated, whatever the rating.

#include "trainer/interactions.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::trainer {

/// Users and items by rising number of the file, from 0 on without gaps.
struct movielens_ratings {
  std::uint32_t users = 0;
  std::uint32_t items = 0;
  std::vector<std::uint64_t> first; ///< [users + 1]: where a user's items begin
  std::vector<std::uint32_t> rated; ///< items, rising for each user, none twice
  /// For each user the place among his items of the one that he rated last (of several the one with the lowest number),
  /// which is for testing; `none` where he rated no other.
  std::vector<std::uint64_t> last;
  std::uint64_t digest = 0;   ///< of the file's lines, FNV-1a
  std::uint64_t repeated = 0; ///< ratings of a movie that the same user rates later, which are left out

  static constexpr std::uint64_t none = UINT64_MAX;
};

/// Reads `path` or, if it is a directory, ratings.csv, ratings.dat or u.data in it, packed or not: the header
/// userId,movieId,rating,timestamp, then a line a rating, in any order, with ids from 1 to 2^32 - 1, ratings from 0 to
/// 10 and whole seconds; at most 2^31 - 1 lines. Older releases have no header, and `::` (1M, 10M) or a tab (100K) in
/// place of the comma. A byte order mark and quotes around a value are no part of it. Where a user has rated an item
/// twice the later time counts. Returns an empty string, or what is wrong: the file, line and column, what was found
/// there and what was expected.
std::string read_movielens(const std::string& path, movielens_ratings& ratings);

/// One split of them. For training all but what is for testing, by user and item; for testing one choice a user (X. He
/// et al., WWW 2017: leave one out, by time). The other candidates of a sample are drawn, by its number alone, from the
/// items that its user did not rate.
class movielens_choices final : public choice_set {
public:
  movielens_choices(std::shared_ptr<const movielens_ratings> ratings, bool test);

  std::uint64_t size() const override { return test_ ? tested_.size() : first_.back(); }
  interaction at(std::uint64_t number) const override;

private:
  std::shared_ptr<const movielens_ratings> ratings_;
  bool test_;
  std::vector<std::uint64_t> first_;  ///< [users + 1]: where a user's training samples begin
  std::vector<std::uint32_t> tested_; ///< users
};

} // namespace dynamix::trainer
