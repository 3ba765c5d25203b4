#pragma once

#include <chrono>
#include <thread>

namespace dynamix {

/// Looks every 5 ms, for a minute at most, whether something has come true.
template <class Condition>
bool wait_until(const Condition& come_true) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!come_true()) {
    if (std::chrono::steady_clock::now() > end)
      return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

} // namespace dynamix
