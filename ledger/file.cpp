#include "ledger/file.hpp"

#include "ledger/codec.hpp"
#include "ledger/segments.hpp"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <limits>
#include <mutex>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace dynamix::ledger {

namespace {

constexpr int reopenings_max = 8;
constexpr int packing_niceness = 10;

int open_to_append(const std::string& path, int flags = 0) {
  return ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | flags, 0644);
}

bool has_name(int descriptor, const std::string& path) {
  struct stat own {};
  struct stat named {};
  return ::fstat(descriptor, &own) == 0 && ::stat(path.c_str(), &named) == 0 && own.st_ino == named.st_ino &&
         own.st_dev == named.st_dev;
}

/// Whether the file ends within a line: a write failed halfway, ours or that of a process that was killed.
bool ends_torn(int descriptor) {
  struct stat file {};
  char last = '\n';
  return ::fstat(descriptor, &file) == 0 && file.st_size > 0 && ::pread(descriptor, &last, 1, file.st_size - 1) == 1 &&
         last != '\n';
}

/// Several processes may append to one ledger, the replicas of an arbitrator on one machine: with a size limit each
/// holds the file's lock while it appends, and whoever fills the file makes it a segment. The ledger's name is never
/// without a file: the full one gets a second name, and an empty one takes the first. Compressing has a thread of its
/// own.
class file_ledger final : public writer, public line_writer {
public:
  file_ledger(std::string path, int descriptor, std::uint64_t keep_bytes)
      : path_(std::move(path)), descriptor_(descriptor), keep_bytes_(keep_bytes),
        full_at_(segment_bytes_of(keep_bytes)), unpacked_(true) { // what an earlier process may have left
    if (keep_bytes_ > 0)
      packer_ = std::thread([this] { pack(); });
  }
  file_ledger(const file_ledger&) = delete;
  file_ledger& operator=(const file_ledger&) = delete;
  ~file_ledger() override {
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    }
    if (packer_.joinable())
      packer_.join();
    ::close(descriptor_);
  }

  void append(const row& row) override { append_line(to_json_line(row)); }

  void append_line(std::string_view text) override {
    const std::scoped_lock lock(mutex_);
    if (keep_bytes_ == 0) {
      write(text);
      return;
    }
    for (int reopened = 0; ::flock(descriptor_, LOCK_EX) == 0 && !has_name(descriptor_, path_); ++reopened)
      if (reopened == reopenings_max || !reopen()) // another process rotated it
        break;
    struct stat file {};
    if (write(text) && ::fstat(descriptor_, &file) == 0 && static_cast<std::uint64_t>(file.st_size) >= full_at_)
      rotate(static_cast<std::uint64_t>(file.st_size));
    ::flock(descriptor_, LOCK_UN);
  }

private:
  /// True where the whole line was written.
  bool write(std::string_view text) {
    // The newline comes first after a torn line, so that one write that failed costs one row.
    const auto line = fmt::format("{}{}\n", ends_torn(descriptor_) ? "\n" : "", text);
    std::size_t done = 0;
    while (done < line.size()) {
      const auto count = ::write(descriptor_, line.data() + done, line.size() - done);
      if (count > 0) {
        done += static_cast<std::size_t>(count);
      } else if (errno != EINTR) {
        if (!failed_)
          spdlog::warn("ledger_write_failed error=\"{}\" the run goes on, rows are missing", std::strerror(errno));
        failed_ = true;
        break;
      }
    }
    return done == line.size();
  }

  bool reopen() {
    const int newest = open_to_append(path_);
    if (newest < 0)
      return false;
    ::close(std::exchange(descriptor_, newest)); // its lock with it
    full_at_ = segment_bytes_of(keep_bytes_);
    return true;
  }

  void rotate(std::uint64_t bytes) {
    if (bytes > segment_bytes_max) { // of a run that had no limit before
      complain("ledger_not_rotated", "windows.jsonl is larger than the 4 GiB that a part may have");
      full_at_ = std::numeric_limits<std::uint64_t>::max();
      return;
    }
    const auto next = path_ + ".next";
    const auto segment = segment_path(path_, newest_part_begin(segments_of(path_)));
    const int fresh = open_to_append(next, O_TRUNC);
    // Somebody may have died between the two.
    const bool named = fresh >= 0 && (::link(path_.c_str(), segment.c_str()) == 0 ||
                                      (errno == EEXIST && has_name(descriptor_, segment)));
    if (named && ::rename(next.c_str(), path_.c_str()) == 0) {
      ::close(std::exchange(descriptor_, fresh));
      full_at_ = segment_bytes_of(keep_bytes_);
      unpacked_ = true;
      changed_.notify_all();
      return;
    }
    complain("ledger_not_rotated", std::strerror(errno));
    full_at_ = bytes + segment_bytes_of(keep_bytes_);
    if (named)
      ::unlink(segment.c_str());
    if (fresh >= 0)
      ::close(fresh);
  }

  void pack() {
    ::setpriority(PRIO_PROCESS, 0, packing_niceness); // on Linux the thread's own
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return unpacked_ || ended_; });
      if (!std::exchange(unpacked_, false))
        return;
      lock.unlock();
      const auto problem = pack_segments(path_, keep_bytes_);
      lock.lock();
      if (!problem.empty())
        complain("ledger_not_rotated", problem);
    }
  }

  void complain(const char* event, const std::string& error) {
    if (!std::exchange(complained_, true))
      spdlog::warn("{} error=\"{}\" the run goes on, and its ledger may outgrow run.keep_ledger_mb", event, error);
  }

  const std::string path_;
  std::mutex mutex_;
  int descriptor_;
  const std::uint64_t keep_bytes_;
  std::uint64_t full_at_;
  bool failed_ = false;
  bool complained_ = false;
  // Of the packing thread.
  bool unpacked_;
  bool ended_ = false;
  std::condition_variable changed_;
  std::thread packer_;
};

std::unique_ptr<file_ledger> open_ledger(const std::string& path, std::string& error, std::uint64_t keep_bytes) {
  const int descriptor = open_to_append(path);
  if (descriptor < 0) {
    error = "cannot write " + path + ": " + std::strerror(errno);
    return nullptr;
  }
  return std::make_unique<file_ledger>(path, descriptor, keep_bytes);
}

} // namespace

std::vector<row> read_file(const std::string& path, std::string& error) {
  std::vector<row> rows;
  if (!std::ifstream(path)) {
    error = "cannot read " + path + ": " + std::strerror(errno);
    return rows;
  }
  line_reader lines(path);
  for (std::string line; lines.next(line);)
    if (auto row = parse_line(line))
      rows.push_back(std::move(*row));
  error = lines.take_problem();
  return rows;
}

std::vector<row> tail::read() {
  std::vector<row> rows;
  read([&](row&& row) { rows.push_back(std::move(row)); });
  return rows;
}

void tail::read(const std::function<void(row&&)>& take) {
  for (std::string line; lines_.next(line);)
    if (auto row = parse_line(line))
      take(std::move(*row));
}

std::unique_ptr<writer> open_file(const std::string& path, std::string& error, std::uint64_t keep_bytes) {
  return open_ledger(path, error, keep_bytes);
}

std::unique_ptr<line_writer> open_lines(const std::string& path, std::string& error, std::uint64_t keep_bytes) {
  return open_ledger(path, error, keep_bytes);
}

} // namespace dynamix::ledger
