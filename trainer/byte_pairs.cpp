#include "trainer/byte_pairs.hpp"

#include <algorithm>
#include <numeric>
#include <queue>

namespace dynamix::trainer {

namespace {

constexpr std::uint32_t byte_tokens = 256;

/// Its tokens by age, and how often the text has it.
struct counted_piece {
  std::vector<std::uint32_t> tokens;
  std::uint64_t count = 0;
};

constexpr std::uint64_t pair_of(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32U | right;
}

std::vector<std::uint32_t> bytes_in(std::string_view piece) {
  std::vector<std::uint32_t> tokens;
  for (const auto byte : piece)
    tokens.push_back(static_cast<std::uint8_t>(byte));
  return tokens;
}

/// Joins a pair wherever it stands, from the left.
void join_pair(std::vector<std::uint32_t>& tokens, std::uint64_t pair, std::uint32_t joined) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < tokens.size(); ++kept) {
    const bool found = i + 1 < tokens.size() && pair_of(tokens[i], tokens[i + 1]) == pair;
    tokens[kept] = found ? joined : tokens[i];
    i += found ? 2 : 1;
  }
  tokens.resize(kept);
}

/// Which pair is the most frequent one, while pairs are joined.
class pair_counts {
public:
  explicit pair_counts(std::vector<counted_piece>& pieces) : pieces_(pieces) {
    for (std::uint32_t piece = 0; piece < pieces.size(); ++piece)
      count(piece, true);
    for (const auto& [pair, known] : known_)
      ranked_.push({known.count, pair});
  }

  /// False when no pair occurs twice.
  bool find(std::uint64_t& pair) {
    while (!ranked_.empty()) {
      const auto [count, candidate] = ranked_.top();
      const auto now = known_[candidate].count;
      if (now == count) {
        pair = candidate;
        return count >= 2;
      }
      ranked_.pop();
      if (now > 0 && now < count) // it has become rarer; where it has become more frequent it was ranked again
        ranked_.push({now, candidate});
    }
    return false;
  }

  void join_all(std::uint64_t pair, std::uint32_t joined) {
    auto places = std::move(known_[pair].places);
    std::ranges::sort(places);
    places.erase(std::unique(places.begin(), places.end()), places.end());
    changed_.clear();
    for (const auto piece : places) {
      count(piece, false);
      join_pair(pieces_[piece].tokens, pair, joined);
      count(piece, true);
    }
    std::ranges::sort(changed_);
    changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
    for (const auto each : changed_)
      if (known_[each].count > 0)
        ranked_.push({known_[each].count, each});
  }

private:
  struct known_pair {
    std::uint64_t count = 0;
    std::vector<std::uint32_t> places; ///< pieces that have or had it, some several times
  };
  struct ranked_pair {
    std::uint64_t count = 0;
    std::uint64_t pair = 0;
    /// Less than another one that is more frequent, or as frequent and of older tokens.
    bool operator<(const ranked_pair& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  /// Adds the pairs of a piece, or takes them away.
  void count(std::uint32_t piece, bool adds) {
    const auto& [tokens, times] = pieces_[piece];
    for (std::size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto pair = pair_of(tokens[i], tokens[i + 1]);
      auto& known = known_[pair];
      if (!adds)
        known.count -= times;
      else
        known.count += times;
      if (adds && (known.places.empty() || known.places.back() != piece))
        known.places.push_back(piece);
      changed_.push_back(pair);
    }
  }

  std::vector<counted_piece>& pieces_;
  std::unordered_map<std::uint64_t, known_pair> known_;
  std::priority_queue<ranked_pair> ranked_; ///< also counts that no longer hold, never one too few
  std::vector<std::uint64_t> changed_;
};

std::vector<counted_piece> count_pieces(std::span<const std::string_view> pieces) {
  std::vector<counted_piece> counted;
  std::unordered_map<std::string_view, std::size_t> places;
  for (const auto piece : pieces) {
    const auto known = places.find(piece);
    if (known != places.end()) {
      ++counted[known->second].count;
    } else if (counted.size() < byte_pairs::distinct_max) {
      places.emplace(piece, counted.size());
      counted.push_back({bytes_in(piece), 1});
    }
  }
  return counted;
}

} // namespace

byte_pairs::byte_pairs(std::span<const std::string_view> pieces, std::uint32_t size) {
  auto counted = count_pieces(pieces);
  std::vector<std::string> by_age;
  for (std::uint32_t byte = 0; byte < byte_tokens; ++byte)
    by_age.emplace_back(1, static_cast<char>(byte));
  pair_counts pairs(counted);
  for (std::uint64_t pair = 0; by_age.size() < size && pairs.find(pair);) {
    const auto age = static_cast<std::uint32_t>(by_age.size());
    joined_[pair] = age;
    by_age.push_back(by_age[pair >> 32U] + by_age[static_cast<std::uint32_t>(pair)]);
    pairs.join_all(pair, age);
  }

  std::vector<std::uint64_t> uses(by_age.size());
  for (const auto& [tokens, count] : counted)
    for (const auto token : tokens)
      uses[token] += count;
  std::vector<std::uint32_t> ranked(by_age.size());
  std::iota(ranked.begin(), ranked.end(), 0U);
  std::ranges::stable_sort(ranked, std::ranges::greater(), [&](std::uint32_t age) { return uses[age]; });
  numbers_.resize(by_age.size());
  for (const auto age : ranked) {
    numbers_[age] = static_cast<std::uint16_t>(bytes_.size());
    bytes_.push_back(by_age[age]);
  }
}

void byte_pairs::encode(std::string_view piece, std::vector<std::uint16_t>& tokens) const {
  auto ages = bytes_in(piece);
  while (true) {
    auto oldest = joined_.end();
    for (std::size_t i = 0; i + 1 < ages.size(); ++i)
      if (const auto found = joined_.find(pair_of(ages[i], ages[i + 1]));
          found != joined_.end() && (oldest == joined_.end() || found->second < oldest->second))
        oldest = found;
    if (oldest == joined_.end())
      break;
    join_pair(ages, oldest->first, oldest->second);
  }
  for (const auto age : ages)
    tokens.push_back(numbers_[age]);
}

} // namespace dynamix::trainer
