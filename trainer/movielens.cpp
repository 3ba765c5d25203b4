#include "trainer/movielens.hpp"

#include "client/random.hpp"
#include "storage/fnv1a.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <string_view>
#include <tuple>

namespace dynamix::trainer {

namespace {

constexpr std::string_view ratings_header = "userId,movieId,rating,timestamp";
constexpr std::uint64_t lines_max = (std::uint64_t{1} << 31U) - 1;
constexpr std::uint64_t negatives_seed = 22;

struct rating_line {
  std::uint32_t user = 0;
  std::uint32_t item = 0;
  std::int64_t seconds = 0;
};

/// Reads fields one after the other and remembers the first that is wrong.
class line_reader {
public:
  explicit line_reader(std::string_view line) : line_(line) {}

  template <class Number>
  void field(Number& value, Number lowest, Number highest, std::string_view expected) {
    if (!problem_.empty())
      return;
    if (at_ > line_.size()) {
      fail(line_.size(), fmt::format("the line ends, expected {} behind a comma", expected));
      return;
    }
    const auto end = std::min(line_.find(',', at_), line_.size());
    const auto text = line_.substr(at_, end - at_);
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || stop != text.data() + text.size() || !(value >= lowest && value <= highest))
      fail(at_, fmt::format("found \"{}\", expected {}", text, expected));
    at_ = end + 1;
  }
  void end() {
    if (problem_.empty() && at_ <= line_.size())
      fail(at_, fmt::format("found \"{}\", expected the end of the line", line_.substr(at_)));
  }
  /// Column, from 1 on, and what is wrong there.
  const std::string& problem() const { return problem_; }

private:
  void fail(std::size_t at, const std::string& what) { problem_ = fmt::format("{}: {}", at + 1, what); }

  std::string_view line_;
  std::size_t at_ = 0;
  std::string problem_;
};

std::string read_rating(std::string_view line, rating_line& rating) {
  line_reader fields(line);
  double stars = 0;
  fields.field(rating.user, 1U, UINT32_MAX, "a user's number, 1 to 4294967295");
  fields.field(rating.item, 1U, UINT32_MAX, "a movie's number, 1 to 4294967295");
  fields.field(stars, 0.0, 10.0, "a rating, 0 to 10");
  fields.field(rating.seconds, std::int64_t{0}, INT64_MAX, "a time in whole seconds");
  fields.end();
  return fields.problem();
}

std::string read_lines(const std::string& path, std::vector<rating_line>& ratings, std::uint64_t& digest) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return fmt::format("cannot read {}", path);
  storage::fnv1a hash;
  std::array<char, 256> buffer{};
  std::uint64_t number = 0;
  while (file.getline(buffer.data(), buffer.size())) {
    ++number;
    std::string_view line(buffer.data(), static_cast<std::size_t>(file.gcount()) - (file.eof() ? 0 : 1));
    hash.add(line);
    hash.add(std::string_view("\n"));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    if (number == 1) {
      if (line != ratings_header)
        return fmt::format("{}:1:1: found \"{}\", expected \"{}\"", path, line.substr(0, 80), ratings_header);
      continue;
    }
    if (number > lines_max)
      return fmt::format("{}:{}:1: found more than {} lines", path, number, lines_max);
    if (auto problem = read_rating(line, ratings.emplace_back()); !problem.empty())
      return fmt::format("{}:{}:{}", path, number, problem);
  }
  if (file.bad() || !file.eof())
    return fmt::format("{}:{}:{}: found a line of more than {} characters", path, number + 1, buffer.size(),
                       buffer.size() - 1);
  digest = hash.value();
  return ratings.empty() ? fmt::format("{}:{}:1: found no rating", path, number + 1) : "";
}

/// Numbers without gaps, in the same order. Returns how many there are.
std::uint32_t renumber(std::vector<rating_line>& ratings, std::uint32_t rating_line::*id) {
  std::vector<std::uint32_t> ids;
  for (const auto& rating : ratings)
    ids.push_back(rating.*id);
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (auto& rating : ratings)
    rating.*id = static_cast<std::uint32_t>(std::ranges::lower_bound(ids, rating.*id) - ids.begin());
  return static_cast<std::uint32_t>(ids.size());
}

} // namespace

std::string read_movielens(const std::string& path, movielens_ratings& ratings) {
  ratings = {};
  std::error_code ignored;
  const auto file = std::filesystem::is_directory(path, ignored) ? path + "/ratings.csv" : path;
  std::vector<rating_line> lines;
  if (auto problem = read_lines(file, lines, ratings.digest); !problem.empty())
    return problem;
  ratings.users = renumber(lines, &rating_line::user);
  ratings.items = renumber(lines, &rating_line::item);
  if (ratings.items <= candidates)
    return fmt::format("{}: found {} movies, expected at least {}, one more than a sample has", file, ratings.items,
                       candidates + 1);
  // Of a pair that occurs twice the later one comes first, and stays.
  std::ranges::sort(lines, [](const rating_line& left, const rating_line& right) {
    return std::tuple(left.user, left.item, -left.seconds) < std::tuple(right.user, right.item, -right.seconds);
  });
  const auto same = [](const rating_line& left, const rating_line& right) {
    return left.user == right.user && left.item == right.item;
  };
  lines.erase(std::unique(lines.begin(), lines.end(), same), lines.end());
  ratings.last.assign(ratings.users, movielens_ratings::none);
  for (std::size_t i = 0; i < lines.size();) {
    const auto user = lines[i].user;
    const auto begin = i;
    auto newest = i;
    for (; i < lines.size() && lines[i].user == user; ++i) {
      ratings.rated.push_back(lines[i].item);
      if (lines[i].seconds > lines[newest].seconds)
        newest = i;
    }
    ratings.first.push_back(begin);
    if (i - begin > 1)
      ratings.last[user] = newest - begin;
  }
  ratings.first.push_back(lines.size());
  if (std::ranges::count(ratings.last, movielens_ratings::none) == static_cast<std::ptrdiff_t>(ratings.users))
    return fmt::format("{}: no user has rated two movies, so there is none to test on", file);
  return {};
}

movielens_choices::movielens_choices(std::shared_ptr<const movielens_ratings> ratings, bool test)
    : ratings_(std::move(ratings)), test_(test) {
  std::uint64_t sum = 0;
  for (std::uint32_t user = 0; user < ratings_->users; ++user) {
    first_.push_back(sum);
    const bool tested = ratings_->last[user] != movielens_ratings::none;
    sum += ratings_->first[user + 1] - ratings_->first[user] - (tested ? 1 : 0);
    if (tested)
      tested_.push_back(user);
  }
  first_.push_back(sum);
}

interaction movielens_choices::at(std::uint64_t number) const {
  interaction sample;
  std::uint64_t place = 0;
  if (test_) {
    sample.user = tested_[number];
    place = ratings_->last[sample.user];
  } else {
    sample.user = static_cast<std::uint32_t>(std::ranges::upper_bound(first_, number) - first_.begin() - 1);
    place = number - first_[sample.user];
    place += place >= ratings_->last[sample.user] ? 1 : 0;
  }
  const auto begin = ratings_->rated.begin() + static_cast<std::ptrdiff_t>(ratings_->first[sample.user]);
  const auto end = ratings_->rated.begin() + static_cast<std::ptrdiff_t>(ratings_->first[sample.user + 1]);
  client::splitmix64 random(client::derive_seed(negatives_seed + (test_ ? 1 : 0), number));
  for (auto& other : sample.items) {
    constexpr int tries = 100; // a user may have rated nearly all there are
    for (int attempt = 0; attempt < tries; ++attempt) {
      other = random.below(ratings_->items);
      if (!std::binary_search(begin, end, other))
        break;
    }
    // Then the next one there is.
    for (std::uint32_t passed = 0; passed < ratings_->items && std::binary_search(begin, end, other); ++passed)
      other = (other + 1) % ratings_->items;
  }
  sample.chosen = static_cast<std::uint8_t>(random.below(candidates));
  sample.items[sample.chosen] = begin[static_cast<std::ptrdiff_t>(place)];
  return sample;
}

} // namespace dynamix::trainer
