#pragma once

/// Back-pressure: how many messages may be under way to somebody who answers. Knows no CAF.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace dynamix::actors {

/// So many are sent at once; beyond that the newest waits, and takes the place of an older one that waits.
template <class Message>
class credit {
public:
  explicit credit(std::uint32_t most) : most_(most) {}

  /// What is to be sent now: `value`, or nothing.
  std::optional<Message> offer(Message value) {
    if (under_way_ < most_) {
      ++under_way_;
      return value;
    }
    dropped_ += held_ ? 1 : 0;
    held_ = std::move(value);
    return std::nullopt;
  }

  /// So many have arrived, or never will. What is to be sent now.
  std::optional<Message> answered(std::uint32_t count) {
    under_way_ -= std::min(count, under_way_);
    if (!held_ || under_way_ >= most_)
      return std::nullopt;
    ++under_way_;
    return std::exchange(held_, std::nullopt);
  }

  void reset() {
    under_way_ = 0;
    held_.reset();
  }
  std::uint32_t under_way() const { return under_way_; }
  std::uint64_t dropped() const { return dropped_; }

private:
  std::uint32_t most_;
  std::uint32_t under_way_ = 0;
  std::uint64_t dropped_ = 0;
  std::optional<Message> held_;
};

} // namespace dynamix::actors
