#pragma once

/// What happened in a run besides training: generations, losses, returns, restarts. Pure.

#include "actors/ledger.hpp"
#include "node/plot.hpp"

#include <string>
#include <vector>

namespace dynamix::node {

struct run_mark {
  double seconds = 0; ///< of training, as the windows count them
  plot_mark::kind what = plot_mark::kind::generation;
  std::string text;
};

/// By time. An event's own clock starts anew with every arbitrator, so its place is that of the nearest window of the
/// same life; what came before the first window of all is at 0.
std::vector<run_mark> marks_of(const std::vector<actors::ledger_row>& rows);

std::vector<plot_mark> to_plot_marks(const std::vector<run_mark>& marks);

} // namespace dynamix::node
