#pragma once

#include <functional>
#include <string>
#include <thread>

namespace dynamix::node {

/// A provider's word that it takes this host back.
struct preemption_notice {
  double seconds = 0; ///< until it is gone; 0: it does not say
  std::string source; ///< for a person
};

/// The seconds that a notice leaves, 0 to 86400: the number that is its first word ("25 s"), or else a line by itself.
/// 0 where there is none: the numbers in a provider's JSON are parts of a date.
double seconds_of_notice(const std::string& text);

/// Looks every second for a notice: `source` is a file that is there once it is given, or "command:COMMAND", which the
/// shell runs every five seconds, for at most five, and which ends with 0 then; what stands in the file, or what the
/// command prints, is the notice. Calls `told` once, on a thread of its own.
class preemption_watch {
public:
  /// `scratch`: a file for the command's output.
  preemption_watch(std::string source, std::string scratch, std::function<void(const preemption_notice&)> told);

private:
  std::jthread thread_;
};

} // namespace dynamix::node
