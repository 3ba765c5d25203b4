#pragma once

/// What links tell from their own threads, which a test waits for.

#include "tests/wait_until.hpp"

#include <algorithm>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

namespace dynamix::links::testing {

/// Lines of any thread.
class told_lines {
public:
  /// What adds to them.
  std::function<void(const std::string&)> report() {
    return [this](const std::string& line) {
      const std::scoped_lock lock(mutex_);
      lines_.push_back(line);
    };
  }
  std::vector<std::string> all() const {
    const std::scoped_lock lock(mutex_);
    return lines_;
  }
  /// Waits for a line with `text`.
  bool say(const std::string& text) const {
    return wait_until([&] {
      const auto lines = all();
      return std::ranges::any_of(lines, [&](const auto& line) { return line.find(text) != std::string::npos; });
    });
  }

private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_; ///< guarded by the mutex
};

} // namespace dynamix::links::testing
