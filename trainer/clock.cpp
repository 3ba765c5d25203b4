#include "trainer/clock.hpp"

#include <chrono>
#include <thread>

namespace dynamix::trainer {

double steady_clock::now_seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void steady_clock::sleep_seconds(double seconds) {
  if (seconds > 0)
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

} // namespace dynamix::trainer
