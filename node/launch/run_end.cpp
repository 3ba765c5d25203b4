#include "node/launch/run_end.hpp"

namespace dynamix::node {

exit_code exit_of_run(bool succeeded, bool completed) {
  return succeeded && completed ? exit_done : exit_failed;
}

exit_code exit_of_host(const part_end& end) {
  if (end.succeeded && (end.completed || end.left))
    return exit_done;
  if (!end.stopped)
    return exit_failed;
  return end.asked || !end.succeeded ? exit_stopped : exit_unfinished;
}

} // namespace dynamix::node
