#include "node/resume_point.hpp"

#include "node/command_line.hpp"
#include "node/text.hpp"
#include "trainer/checkpoint.hpp"

#include <filesystem>
#include <ostream>

namespace dynamix::node {

int find_resume_point(const run_directory& run, std::ostream& err, std::string& path) {
  const auto newest = trainer::newest_checkpoint(run.checkpoints());
  path = newest.path;
  for (const auto& reason : newest.refused)
    err << "dynamix-node: " << (path.empty() ? "error: " : "warning: passed over: ") << printable(reason) << "\n";
  if (!path.empty())
    return exit_done;
  err << "dynamix-node: error: " << run.checkpoints() << " holds no checkpoint to resume from\n";
  const bool wrong_directory = newest.refused.empty() || !std::filesystem::is_directory(run.checkpoints());
  return wrong_directory ? exit_refused : exit_failed;
}

} // namespace dynamix::node
