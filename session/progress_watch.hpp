#pragma once

/// Whether a worker's training thread gets on. Knows no CAF and no clock.

#include "cluster/cluster_file.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace dynamix::session {

enum class watch_verdict : std::uint8_t {
  fine,
  cut_off, ///< no step is completed and nobody tells why: peers and arbitrator are out of reach
  stuck,   ///< the thread was interrupted and does not return
};

struct watch_finding {
  watch_verdict verdict = watch_verdict::fine;
  std::string reason; ///< empty when fine
};

class progress_watch {
public:
  explicit progress_watch(const cluster::timeouts& timeouts) : timeouts_(timeouts) {}

  void entered(double now_seconds);
  void interrupted(double now_seconds);
  void left() { training_ = false; }
  /// To be asked at least every beat interval. A caller that comes late has slept itself, and that time does not count.
  /// `orphaned`: no arbitrator is in reach. While one is, it says who is lost; without one a worker waits four times as
  /// long as an arbitrator would, or ten times its longest step.
  watch_finding look(double now_seconds, std::uint64_t steps, bool orphaned);

private:
  cluster::timeouts timeouts_;
  bool training_ = false;
  std::uint64_t steps_ = 0;
  double progress_seconds_ = 0;
  double longest_seconds_ = 0; ///< between two completed steps, as far as seen
  double looked_seconds_ = 0;
  std::optional<double> interrupted_seconds_;
};

} // namespace dynamix::session
