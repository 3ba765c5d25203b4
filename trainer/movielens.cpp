#include "trainer/movielens.hpp"

#include "client/random.hpp"
#include "storage/fnv1a.hpp"
#include "trainer/data_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fmt/core.h>
#include <string_view>
#include <system_error>
#include <tuple>

namespace dynamix::trainer {

namespace {

constexpr std::string_view ratings_header = "userId,movieId,rating,timestamp";
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
constexpr std::uint64_t lines_max = (std::uint64_t{1} << 31U) - 1;
constexpr std::uint64_t negatives_seed = 22;

struct rating_line {
  std::uint32_t user = 0;
  std::uint32_t item = 0;
  std::int64_t seconds = 0;
};

/// Reads fields one after the other and remembers the first that is wrong.
class field_reader {
public:
  field_reader(std::string_view line, std::string_view separator) : line_(line), separator_(separator) {}

  template <class Number>
  void field(Number& value, Number lowest, Number highest, std::string_view expected) {
    if (!problem_.empty())
      return;
    if (at_ > line_.size()) {
      fail(line_.size(), fmt::format("the line ends, expected {} after a {}", expected,
                                     separator_ == ","    ? "comma"
                                     : separator_ == "\t" ? "tab"
                                                          : "\"::\""));
      return;
    }
    const auto end = std::min(line_.find(separator_, at_), line_.size());
    const auto text = line_.substr(at_, end - at_);
    const bool quoted = text.size() >= 2 && text.starts_with('"') && text.ends_with('"');
    const auto number = quoted ? text.substr(1, text.size() - 2) : text;
    const auto [stop, error] = std::from_chars(number.data(), number.data() + number.size(), value);
    if (error != std::errc{} || stop != number.data() + number.size() || !(value >= lowest && value <= highest))
      fail(at_, fmt::format("found \"{}\", expected {}", visible(text), expected));
    at_ = end + separator_.size();
  }
  void end() {
    if (problem_.empty() && at_ <= line_.size())
      fail(at_, fmt::format("found \"{}\", expected the end of the line", visible(line_.substr(at_))));
  }
  /// Column, from 1 on, and what is wrong there.
  const std::string& problem() const { return problem_; }

private:
  void fail(std::size_t at, const std::string& what) { problem_ = fmt::format("{}: {}", at + 1, what); }

  std::string_view line_;
  std::string_view separator_;
  std::size_t at_ = 0;
  std::string problem_;
};

std::string read_rating(std::string_view line, std::string_view separator, rating_line& rating) {
  field_reader fields(line, separator);
  double stars = 0;
  fields.field(rating.user, 1U, UINT32_MAX, "a user's number, 1 to 4294967295");
  fields.field(rating.item, 1U, UINT32_MAX, "a movie's number, 1 to 4294967295");
  fields.field(stars, 0.0, 10.0, "a rating, 0 to 10");
  fields.field(rating.seconds, std::int64_t{0}, INT64_MAX, "a time in whole seconds");
  fields.end();
  return fields.problem();
}

/// The lines of a file that may be packed, one after the other.
class line_source {
public:
  static constexpr std::size_t line_bytes_max = 255;

  explicit line_source(const std::string& path) : file_(gzopen(path.c_str(), "rb")), buffer_(buffer_bytes, '\0') {}
  line_source(const line_source&) = delete;
  line_source& operator=(const line_source&) = delete;
  ~line_source() {
    if (file_ != nullptr)
      gzclose(file_);
  }
  bool is_open() const { return file_ != nullptr; }

  /// Without its end. False behind the last line, and where something is wrong.
  bool next(std::string_view& line) {
    auto end = std::string_view(buffer_).substr(at_, size_ - at_).find('\n');
    if (end == std::string_view::npos) {
      refill();
      end = std::string_view(buffer_).substr(0, size_).find('\n');
    }
    const auto length = std::min(end, size_ - at_);
    if (problem_.empty() && length > line_bytes_max)
      problem_ = fmt::format("{}: found a line of more than {} characters", line_bytes_max + 1, line_bytes_max);
    if (!problem_.empty() || at_ == size_)
      return false;
    line = std::string_view(buffer_).substr(at_, length);
    at_ = std::min(size_, at_ + length + 1);
    return true;
  }
  /// Column, and what is wrong in the line behind the last.
  const std::string& problem() const { return problem_; }

private:
  static constexpr std::size_t buffer_bytes = 1U << 20;

  void refill() {
    std::copy(buffer_.begin() + static_cast<std::ptrdiff_t>(at_), buffer_.begin() + static_cast<std::ptrdiff_t>(size_),
              buffer_.begin());
    size_ -= at_;
    at_ = 0;
    if (size_ == buffer_bytes)
      return;
    const int got = gzread(file_, buffer_.data() + size_, static_cast<unsigned>(buffer_bytes - size_));
    size_ += static_cast<std::size_t>(std::max(got, 0));
    int error = Z_OK;
    const char* text = gzerror(file_, &error);
    if (error == Z_BUF_ERROR)
      problem_ = "1: the gzip data is cut short, expected more";
    else if (error == Z_ERRNO)
      problem_ = fmt::format("1: cannot read on: {}", std::generic_category().message(errno));
    else if (error != Z_OK && error != Z_STREAM_END)
      problem_ = fmt::format("1: damaged gzip data: {}", text);
  }

  gzFile file_;
  std::string buffer_;
  std::size_t at_ = 0;
  std::size_t size_ = 0;
  std::string problem_;
};

/// What stands between two values, by the first line. Empty: it is of no release of MovieLens.
std::string_view separator_of(std::string_view first, bool& is_header) {
  if (first.starts_with(byte_order_mark))
    first.remove_prefix(byte_order_mark.size());
  std::string plain(first);
  std::erase(plain, '"');
  is_header = plain == ratings_header;
  if (is_header)
    return ",";
  return first.find("::") != std::string_view::npos ? "::" : first.find('\t') != std::string_view::npos ? "\t" : "";
}

std::string read_lines(const std::string& path, std::vector<rating_line>& ratings, std::uint64_t& digest) {
  line_source file(path);
  if (!file.is_open())
    return fmt::format("cannot read {}", path);
  storage::fnv1a hash;
  std::uint64_t number = 0;
  std::string_view separator;
  for (std::string_view line; file.next(line);) {
    ++number;
    hash.add(line);
    hash.add(std::string_view("\n"));
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    if (number == 1) {
      bool is_header = false;
      separator = separator_of(line, is_header);
      if (separator.empty()) {
        const auto kind = kind_of_file(line);
        return fmt::format("{}:1:1: found \"{}\"{}, expected \"{}\"", path, visible(line),
                           kind.empty() ? "" : fmt::format(" ({})", kind), ratings_header);
      }
      if (is_header)
        continue;
      if (line.starts_with(byte_order_mark))
        line.remove_prefix(byte_order_mark.size());
    }
    if (number > lines_max)
      return fmt::format("{}:{}:1: found more than {} lines", path, number, lines_max);
    if (auto problem = read_rating(line, separator, ratings.emplace_back()); !problem.empty())
      return fmt::format("{}:{}:{}", path, number, problem);
  }
  if (!file.problem().empty())
    return fmt::format("{}:{}:{}", path, number + 1, file.problem());
  digest = hash.value();
  return ratings.empty() ? fmt::format("{}:{}:1: found no rating", path, number + 1) : "";
}

/// Of a directory the first file there is of those that MovieLens's releases have.
std::string ratings_file(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored))
    return path;
  for (const auto* name : {"ratings.csv", "ratings.csv.gz", "ratings.dat", "ratings.dat.gz", "u.data", "u.data.gz"})
    if (auto file = path + "/" + name; std::filesystem::exists(file, ignored))
      return file;
  return path + "/ratings.csv";
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
  const auto file = ratings_file(path);
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
  const auto repeated = std::unique(lines.begin(), lines.end(), same);
  ratings.repeated = static_cast<std::uint64_t>(lines.end() - repeated);
  lines.erase(repeated, lines.end());
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
