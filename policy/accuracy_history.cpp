#include "policy/accuracy_history.hpp"

namespace dynamix::policy {

double accuracy_history::previous(const messages::window_report& report) {
  auto& memory = workers_[report.rank];
  if (memory.generation != report.generation)
    memory = {.generation = report.generation};
  if (report.window > memory.window) {
    memory.before = memory.accuracy;
    memory.accuracy = report.training.accuracy;
    memory.window = report.window;
  }
  return memory.before;
}

void accuracy_history::forget(std::uint32_t rank) {
  workers_.erase(rank);
}

} // namespace dynamix::policy
