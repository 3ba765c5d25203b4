#pragma once

/// What happened in a run besides training: generations, losses, returns, restarts. Pure.

#include "ledger/rows.hpp"
#include "node/plot.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

struct run_mark {
  double seconds = 0; ///< of training, as the windows count them
  plot_mark::kind what = plot_mark::kind::generation;
  std::string text;
};

/// An event's own clock starts anew with every arbitrator, so its place is that of the nearest window of the same life;
/// what came before the first window of all is at 0.
class mark_recorder {
public:
  void add(const ledger::row& row);
  /// By time.
  std::vector<run_mark> marks() const;

private:
  /// Of one arbitrator.
  struct life {
    struct point {
      double at_seconds; ///< the arbitrator's clock
      double elapsed_seconds;
    };
    struct event {
      double at_seconds;
      plot_mark::kind what;
      std::string text;
    };
    std::vector<point> windows;
    std::vector<event> events;
  };
  void append_life(std::vector<run_mark>& marks) const;

  life now_;
  double before_ = 0;           ///< where the life before has ended
  bool begun_ = false;          ///< something has happened since the newest start
  std::vector<run_mark> marks_; ///< of earlier lives
};

std::vector<plot_mark> to_plot_marks(const std::vector<run_mark>& marks);

} // namespace dynamix::node
