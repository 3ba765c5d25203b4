#include "actors/ledger.hpp"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <mutex>
#include <unistd.h>

namespace dynamix::actors {

namespace {

class file_ledger final : public ledger {
public:
  explicit file_ledger(int descriptor) : descriptor_(descriptor) {}
  file_ledger(const file_ledger&) = delete;
  file_ledger& operator=(const file_ledger&) = delete;
  ~file_ledger() override { ::close(descriptor_); }

  void append(const ledger_row& row) override {
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

std::vector<ledger_row> read_ledger(const std::string& path, std::string& error) {
  std::vector<ledger_row> rows;
  std::ifstream file(path);
  if (!file) {
    error = "cannot read " + path + ": " + std::strerror(errno);
    return rows;
  }
  error.clear();
  for (std::string line; std::getline(file, line);)
    if (auto row = parse_ledger_line(line))
      rows.push_back(std::move(*row));
  return rows;
}

std::unique_ptr<ledger> open_file_ledger(const std::string& path, std::string& error) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) {
    error = "cannot write " + path + ": " + std::strerror(errno);
    return nullptr;
  }
  return std::make_unique<file_ledger>(descriptor);
}

} // namespace dynamix::actors
