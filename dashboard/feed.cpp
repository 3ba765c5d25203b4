#include "dashboard/feed.hpp"

#include "dashboard/metrics.hpp"
#include "dashboard/politeness.hpp"
#include "dashboard/state_json.hpp"
#include "ledger/codec.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace dynamix::dashboard {
namespace {

constexpr std::chrono::minutes notice_interval{1};

} // namespace

feed::feed(const cluster::cluster_file& file, std::string ledger, feed_limits limits, find_notices notices)
    : file_(file), path_(std::move(ledger)), limits_(limits), run_(std::make_unique<ledger::run>(file_)),
      find_notices_(std::move(notices)) {
  thread_ = std::thread([this] { follow(); });
}

feed::~feed() {
  stop();
  thread_.join();
  if (descriptor_ >= 0)
    ::close(descriptor_);
}

void feed::stop() {
  const std::scoped_lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool feed::stopped() const {
  const std::scoped_lock lock(mutex_);
  return stopped_;
}

std::string feed::state(bool history) const {
  const std::scoped_lock lock(mutex_);
  return state_json(*run_, {.history = history,
                            .position = position_,
                            .remaining = size_ - std::min(size_, position_),
                            .skipped = skipped_,
                            .notices = notices_});
}

std::string feed::metrics() const {
  const std::scoped_lock lock(mutex_);
  return metrics_text(*run_, size_ - std::min(size_, position_));
}

void feed::subscribe() {
  const std::scoped_lock lock(mutex_);
  ++subscribers_;
}

void feed::unsubscribe() {
  const std::scoped_lock lock(mutex_);
  --subscribers_;
}

feed::news feed::read_behind(std::uint64_t position, std::chrono::milliseconds patience, std::size_t frames_max) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return stopped_ || (caught_up_ && position != position_); });
  if (!caught_up_)
    return {.frames = {}, .position = position, .stopped = stopped_};
  news found{.frames = {}, .position = position_, .stopped = stopped_};
  // A position that is ahead belongs to another ledger.
  found.gap = position < kept_from_ || position > position_;
  if (found.gap)
    return found;
  for (const auto& one : events_) {
    if (one.id <= position)
      continue;
    if (found.frames.size() == frames_max)
      return found;
    found.frames.push_back(one.text);
    found.position = one.id;
  }
  found.position = position_;
  return found;
}

void feed::follow() {
  yield_to_training("page-feed");
  while (!stopped()) {
    look_for_notices();
    open_ledger();
    while (descriptor_ >= 0 && !stopped() && read_chunk()) {
    }
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, limits_.look_interval, [this] { return stopped_; });
  }
}

void feed::look_for_notices() {
  const auto now = std::chrono::steady_clock::now();
  if (!find_notices_ || now - noticed_ < notice_interval)
    return;
  noticed_ = now;
  auto found = find_notices_();
  const std::scoped_lock lock(mutex_);
  notices_ = std::move(found);
}

/// Opens the ledger where it is not open, and again where another file has its name or it has become shorter.
void feed::open_ledger() {
  struct stat now {};
  if (::stat(path_.c_str(), &now) != 0)
    return;
  const auto size = static_cast<std::uint64_t>(now.st_size);
  if (descriptor_ >= 0 && (now.st_ino != inode_ || size < offset_)) {
    ::close(descriptor_);
    descriptor_ = -1;
  }
  if (descriptor_ < 0) {
    descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    inode_ = now.st_ino;
    begin_anew();
  }
  const std::scoped_lock lock(mutex_);
  size_ = size;
  if (position_ == 0 && size > limits_.past_bytes && skipped_ == 0)
    skipped_ = size - limits_.past_bytes;
}

void feed::begin_anew() {
  offset_ = 0;
  line_.clear();
  passing_over_ = false;
  const std::scoped_lock lock(mutex_);
  caught_up_ = false;
  run_ = std::make_unique<ledger::run>(file_);
  events_.clear();
  event_bytes_ = 0;
  position_ = 0;
  skipped_ = 0;
  kept_from_ = 0;
}

/// Takes the next piece of the file. False when there is none yet.
bool feed::read_chunk() {
  const auto rest = size_ - std::min(size_, offset_); // only this thread writes them
  std::string chunk(std::min<std::uint64_t>(rest, limits_.chunk_bytes), '\0');
  const auto count = chunk.empty() ? 0 : ::pread(descriptor_, chunk.data(), chunk.size(), static_cast<off_t>(offset_));
  if (count < 0 && errno == EINTR)
    return true;
  if (count <= 0) {
    const std::scoped_lock lock(mutex_);
    if (!std::exchange(caught_up_, true))
      changed_.notify_all();
    return false;
  }
  chunk.resize(static_cast<std::size_t>(count));
  std::size_t begin = 0;
  for (std::size_t end = chunk.find('\n'); end != std::string::npos; end = chunk.find('\n', begin)) {
    line_.append(chunk, begin, end - begin);
    begin = end + 1;
    if (!passing_over_)
      take_line(line_, offset_ + begin);
    passing_over_ = false;
    line_.clear();
    if (skipped_ > offset_ + begin) { // behind the first row, which says what run it is
      offset_ = skipped_;
      passing_over_ = true; // the rest of a line
      return true;
    }
  }
  line_.append(chunk, begin);
  if (line_.size() > limits_.line_bytes) {
    line_.clear();
    passing_over_ = true;
  }
  offset_ += chunk.size();
  return true;
}

void feed::take_line(const std::string& line, std::uint64_t end) {
  const auto row = ledger::parse_line(line);
  const std::scoped_lock lock(mutex_);
  position_ = end;
  size_ = std::max(size_, end);
  if (row)
    run_->add(*row);
  if (!caught_up_ || subscribers_ == 0 || !row) {
    // Nobody saw it come, so nobody can go on from before it.
    if (row) {
      events_.clear();
      event_bytes_ = 0;
      kept_from_ = end;
    }
    changed_.notify_all();
    return;
  }
  push(*row);
  changed_.notify_all();
}

void feed::push(const ledger::row& row) {
  auto text = std::make_shared<const std::string>("id: " + std::to_string(position_) +
                                                  "\ndata: " + update_json(*run_, row, notices_) + "\n\n");
  event_bytes_ += text->size();
  events_.push_back({position_, std::move(text)});
  while (events_.size() > limits_.events || (event_bytes_ > limits_.event_bytes && events_.size() > 1)) {
    kept_from_ = events_.front().id;
    event_bytes_ -= events_.front().text->size();
    events_.pop_front();
  }
}

} // namespace dynamix::dashboard
