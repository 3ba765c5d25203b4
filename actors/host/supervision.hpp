#pragma once

/// What a supervisor does about a failed child. Knows no CAF; after Erlang/OTP's supervisors.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace dynamix::actors {

enum class supervision_strategy : std::uint8_t {
  one_for_one,  ///< only the failed child is restarted
  rest_for_one, ///< and all that were started after it, since they depend on it
};

struct supervision_options {
  supervision_strategy strategy = supervision_strategy::one_for_one;
  std::uint32_t max_restarts = 5; ///< within `period_seconds`; one more and the supervisor gives up
  double period_seconds = 30;
  double first_delay_seconds = 0.05; ///< doubles with each failure within the period
  double longest_delay_seconds = 5;
  double jitter = 0.2; ///< the delay varies by this share either way, so that hosts do not restart in step
  std::uint64_t seed = 1;
};

struct restart_plan {
  bool escalate = false;            ///< too many failures: give up
  std::vector<std::size_t> restart; ///< children to stop (in reverse) and start again (in order)
  double delay_seconds = 0;
  std::size_t failures = 0; ///< within the period, this one among them
  std::string reason;       ///< for the log
};

class supervision {
public:
  supervision(supervision_options options, std::vector<std::string> children);

  /// Child `index` failed at `now_seconds` for `cause`.
  restart_plan failed(std::size_t index, double now_seconds, const std::string& cause);

private:
  supervision_options options_;
  std::vector<std::string> children_;
  std::deque<double> failures_; ///< times within the period, oldest first
  std::mt19937_64 generator_;
};

} // namespace dynamix::actors
