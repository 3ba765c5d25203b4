#include "ledger/file.hpp"

#include "ledger/codec.hpp"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <mutex>
#include <unistd.h>

namespace dynamix::ledger {

namespace {

class file_ledger final : public writer {
public:
  explicit file_ledger(int descriptor) : descriptor_(descriptor) {}
  file_ledger(const file_ledger&) = delete;
  file_ledger& operator=(const file_ledger&) = delete;
  ~file_ledger() override { ::close(descriptor_); }

  void append(const row& row) override {
    const std::scoped_lock lock(mutex_);
    // The newline comes first after a torn line, so that one failed write costs one row.
    const auto line = (torn_ ? "\n" : "") + to_json_line(row) + "\n";
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
    torn_ = done > 0 && done < line.size();
  }

private:
  std::mutex mutex_;
  int descriptor_;
  bool failed_ = false;
  bool torn_ = false;
};

} // namespace

std::vector<row> read_file(const std::string& path, std::string& error) {
  std::vector<row> rows;
  std::ifstream file(path);
  if (!file) {
    error = "cannot read " + path + ": " + std::strerror(errno);
    return rows;
  }
  error.clear();
  for (std::string line; std::getline(file, line);)
    if (auto row = parse_line(line))
      rows.push_back(std::move(*row));
  return rows;
}

std::vector<row> tail::read() {
  std::vector<row> rows;
  std::ifstream file(path_, std::ios::binary);
  if (!file.seekg(static_cast<std::streamoff>(offset_)))
    return rows;
  for (std::string line; std::getline(file, line) && !file.eof();) { // at the end: a line without its newline yet
    offset_ += line.size() + 1;
    if (auto row = parse_line(line))
      rows.push_back(std::move(*row));
  }
  return rows;
}

std::unique_ptr<writer> open_file(const std::string& path, std::string& error) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    error = "cannot write " + path + ": " + std::strerror(errno);
    return nullptr;
  }
  return std::make_unique<file_ledger>(descriptor);
}

} // namespace dynamix::ledger
