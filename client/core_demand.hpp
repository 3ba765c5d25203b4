#pragma once

/// How many CPUs this process would keep busy, measured in a few of its steps.

#include "session/core_sharing.hpp"

#include <cstdint>
#include <string>

namespace dynamix::client {

/// CPU time of all threads of this process.
double used_seconds();
/// The same, and the time that they waited for a CPU (/proc/self/task/*/schedstat below
/// `proc`): threads that wait for each other's cores use no more time than there is, but ask for it.
double demanded_seconds(const std::string& proc = "/proc");

class core_demand {
public:
  /// A step has ended, at `now_seconds` of any steady clock. The first one is not counted: it allocates. Reads the
  /// system's files behind it and once more, at least 8 steps and 50 ms later; then never.
  void step_ended(double now_seconds);
  /// Not measured before that.
  const session::core_use& use() const { return use_; }

private:
  std::uint32_t steps_ = 0;
  double begin_seconds_ = 0;
  double demanded_before_ = 0;
  session::core_use use_;
};

} // namespace dynamix::client
