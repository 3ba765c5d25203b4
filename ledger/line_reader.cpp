#include "ledger/line_reader.hpp"

#include "ledger/segments.hpp"
#include "storage/beneath.hpp"

#include <spdlog/fmt/fmt.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dynamix::ledger {
namespace {

constexpr std::size_t chunk_bytes = 1U << 20;

struct file_state {
  ::dev_t device = 0;
  ::ino_t inode = 0;
  std::uint64_t bytes = 0;

  bool is(const file_state& other) const { return device == other.device && inode == other.inode; }
};

file_state state_of(const struct stat& file) {
  return {.device = file.st_dev, .inode = file.st_ino, .bytes = static_cast<std::uint64_t>(file.st_size)};
}

} // namespace

/// One open file of a ledger, compressed or not.
class line_reader::part {
public:
  /// zlib reads what is not compressed as it is, but takes the end that a growing file has for its last.
  part(int descriptor, std::string path, std::uint64_t begin, bool packed, bool newest)
      : descriptor_(descriptor), packed_(packed ? ::gzdopen(descriptor, "rb") : nullptr), path_(std::move(path)),
        begin_(begin), newest_(newest) {
    struct stat file {};
    if (::fstat(descriptor, &file) == 0)
      state_ = state_of(file);
  }
  part(const part&) = delete;
  part& operator=(const part&) = delete;
  ~part() {
    if (packed_ != nullptr)
      ::gzclose(packed_);
    else
      ::close(descriptor_);
  }

  /// Adds the next piece of text to `to`. Returns its bytes; 0: there is no more; negative: `problem` says why.
  std::int64_t read(std::string& to, std::string& problem) {
    const auto filled = to.size();
    to.resize(filled + chunk_bytes);
    std::int64_t count = -1;
    do {
      count = packed_ != nullptr ? ::gzread(packed_, to.data() + filled, chunk_bytes)
                                 : ::pread(descriptor_, to.data() + filled, chunk_bytes, static_cast<off_t>(read_));
    } while (packed_ == nullptr && count < 0 && errno == EINTR);
    to.resize(filled + static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
    read_ += static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0));
    int code = Z_OK;
    const char* text = packed_ != nullptr ? ::gzerror(packed_, &code) : count < 0 ? std::strerror(errno) : nullptr;
    const bool damaged = count < 0 || (count == 0 && code != Z_OK && code != Z_STREAM_END);
    if (damaged)
      problem = fmt::format("{} is damaged: after byte {} of its text it cannot be read{}{}", path_, read_,
                            text != nullptr ? ": " : "", text != nullptr ? text : "");
    return damaged ? -1 : count;
  }
  bool pass_over(std::uint64_t bytes) {
    if (packed_ != nullptr)
      return false;
    read_ = bytes;
    return true;
  }

  std::uint64_t begin() const { return begin_; }
  std::uint64_t end() const { return begin_ + read_; } ///< of what was read
  bool newest() const { return newest_; }              ///< it may grow
  bool packed() const { return packed_ != nullptr; }
  void grows_no_more() { newest_ = false; }
  const file_state& state() const { return state_; }

private:
  int descriptor_;
  ::gzFile packed_;
  std::string path_;
  std::uint64_t begin_;
  bool newest_;
  std::uint64_t read_ = 0; ///< bytes of text
  file_state state_;
};

line_reader::line_reader(std::string path, std::size_t line_bytes_most, bool through_links)
    : path_(std::move(path)), line_bytes_most_(line_bytes_most), through_links_(through_links) {}

line_reader::~line_reader() = default;

std::uint64_t line_reader::position() const {
  return place_ + taken_;
}

std::uint64_t line_reader::size() const {
  return std::max(size_, position());
}

bool line_reader::began_anew() {
  return std::exchange(anew_, false);
}

std::string line_reader::take_problem() {
  return std::exchange(problem_, {});
}

bool line_reader::next(std::string& line) {
  for (;;) {
    const auto end = buffer_.find('\n', searched_);
    if (end == std::string::npos) {
      searched_ = buffer_.size();
      if (buffer_.size() - taken_ > line_bytes_most_) {
        taken_ = buffer_.size();
        passing_over_ = true;
      }
      if (!fill())
        return false;
      continue;
    }
    line.assign(buffer_, taken_, end - taken_);
    taken_ = searched_ = end + 1;
    if (!std::exchange(passing_over_, false))
      return true;
  }
}

/// Reads on, in the next part where this one has ended. False where nothing has come.
bool line_reader::fill() {
  if (!part_ && !open_at(position()))
    return false;
  buffer_.erase(0, taken_);
  place_ += taken_;
  searched_ -= taken_;
  taken_ = 0;
  for (;;) {
    std::string problem;
    const auto count = part_->read(buffer_, problem);
    note_attempt(count < 0 && part_->newest(), std::move(problem));
    if (count > 0)
      return true;
    if (part_->newest()) {
      if (!look_whether_it_ended())
        return false;
      continue; // once more: rows that came before it ended
    }
    const auto end = part_->end();
    const auto behind = std::max(count < 0 ? end + 1 : end, part_->begin() + 1); // also of a part without text
    buffer_.clear();                                                             // a torn line
    searched_ = 0;
    place_ = end;
    part_.reset();
    if (!open_at(behind))
      return false;
  }
}

/// `failed`: it was the newest part, which is tried again; `problem`: why a part cannot be read on.
void line_reader::note_attempt(bool failed, std::string problem) {
  if (failed && failures_++ > 0)
    return;
  if (!failed && failures_ > 0)
    problem_ = fmt::format("{} can be read again, at attempt {}", path_, std::exchange(failures_, 0) + 1);
  if (!problem.empty())
    problem_ = std::move(problem);
}

/// Whether the newest part is no longer that, or the path another ledger's.
bool line_reader::look_whether_it_ended() {
  struct stat now {};
  if (part_->packed() || ::stat(path_.c_str(), &now) != 0)
    return false;
  const auto state = state_of(now);
  if (state.is(part_->state())) {
    size_ = part_->begin() + state.bytes;
    if (size_ >= part_->end())
      return false;
  } else if (const auto segments = segments_of(path_); newest_part_begin(segments) > part_->begin()) {
    part_->grows_no_more();
    return true;
  }
  part_.reset();
  buffer_.clear();
  place_ = taken_ = searched_ = size_ = 0;
  passing_over_ = false;
  anew_ = true;
  return open_at(0);
}

/// Opens the part that holds `place` or, where that is gone, the next. False where there is none yet.
bool line_reader::open_at(std::uint64_t place) {
  for (int attempt = 0; attempt < 8; ++attempt) { // parts may be rotated, compressed and dropped meanwhile
    const int newest = storage::open_to_read(path_, through_links_);
    if (newest < 0)
      return false;
    const auto segments = segments_of(path_);
    const auto found = std::ranges::find_if(segments, [&](const segment& one) { return one.begin >= place; });
    const auto begin = newest_part_begin(segments);
    auto opened = std::make_unique<part>(newest, path_, begin, path_.ends_with(".gz"), true);
    struct stat now {};
    if (::stat(path_.c_str(), &now) != 0 || !state_of(now).is(opened->state()))
      continue;
    size_ = begin + opened->state().bytes;
    if (found != segments.end()) {
      const int older = storage::open_to_read(found->path, through_links_);
      if (older < 0)
        continue;
      opened = std::make_unique<part>(older, found->path, found->begin, found->packed, false);
    }
    part_ = std::move(opened);
    place_ = part_->begin();
    return true;
  }
  return false;
}

void line_reader::skip_to(std::uint64_t place) {
  const auto segments = segments_of(path_);
  auto from = newest_part_begin(segments);
  for (const auto& one : segments)
    if (place < one.begin + one.text_bytes) {
      from = std::min(from, one.begin);
      break;
    }
  part_.reset();
  buffer_.clear();
  taken_ = searched_ = 0;
  place_ = from;
  passing_over_ = false;
  if (!open_at(from) || place <= part_->begin() || !part_->pass_over(place - part_->begin()))
    return;
  place_ = place;
  passing_over_ = true; // the line that `place` is in
}

void line_reader::skip_to_end() {
  part_.reset();
  buffer_.clear();
  place_ = taken_ = searched_ = 0;
  if (open_at(newest_part_begin(segments_of(path_))) && size_ > part_->begin())
    skip_to(size_ - 1); // at the last newline
}

} // namespace dynamix::ledger
