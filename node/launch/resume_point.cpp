#include "node/launch/resume_point.hpp"

#include "node/commands/command_line.hpp"
#include "node/reports/text.hpp"
#include "trainer/checkpoint.hpp"

#include <filesystem>
#include <ostream>

namespace dynamix::node {

namespace {

/// Names what was passed over, or what is wrong with all that there is. False where checkpoints are there and none is
/// whole.
bool find_newest(const run_directory& run, std::ostream& err, std::string& path) {
  const auto newest = trainer::newest_checkpoint(run.checkpoints());
  path = newest.path;
  for (const auto& reason : newest.refused)
    err << "dynamix-node: " << (path.empty() ? "error: " : "warning: passed over: ") << printable(reason) << "\n";
  return !path.empty() || newest.refused.empty();
}

} // namespace

int find_resume_point(const run_directory& run, std::ostream& err, std::string& path) {
  const bool any_whole = find_newest(run, err, path);
  if (!path.empty())
    return exit_done;
  err << "dynamix-node: error: " << run.checkpoints() << " holds no checkpoint to resume from"
      << (any_whole ? "; begin anew with another --out" : "") << "\n";
  return any_whole || !std::filesystem::is_directory(run.checkpoints()) ? exit_refused : exit_failed;
}

int find_host_resume_point(const run_directory& run, std::ostream& err, std::string& path) {
  if (!run.exists()) {
    err << "dynamix-node: error: there is no run directory " << run.path() << " to resume in\n";
    return exit_refused;
  }
  // In a directory without the folder there is nothing that could be refused.
  if (!std::filesystem::is_directory(run.checkpoints()) || find_newest(run, err, path))
    return exit_done;
  err << "dynamix-node: error: " << run.checkpoints() << " holds no checkpoint to resume from\n";
  return exit_failed;
}

} // namespace dynamix::node
