#include "node/launch/run_directory.hpp"

#include "storage/atomic_file.hpp"

#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <fmt/chrono.h>
#include <stdexcept>
#include <unistd.h>

namespace dynamix::node {

bool run_directory::exists() const {
  std::error_code ignored;
  return std::filesystem::exists(path_, ignored);
}

bool run_directory::empty() const {
  std::error_code error;
  return !exists() || (std::filesystem::is_empty(path_, error) && !error);
}

std::string run_directory::create() const {
  for (const std::string below : {"/logs", "/workers", "/checkpoints"}) {
    std::error_code error;
    std::filesystem::create_directories(path_ + below, error);
    if (error)
      return "cannot make " + path_ + below + ": " + error.message();
  }
  return "";
}

std::string why_no_run(const run_directory& run) {
  if (!run.exists())
    return run.path() + " is not a run directory: there is no such directory";
  bool any = false;
  for (const auto& file : {run.cluster_file(), run.ledger()}) {
    const bool readable = ::faccessat(AT_FDCWD, file.c_str(), R_OK, AT_EACCESS) == 0;
    if (!readable && errno != ENOENT && errno != ENOTDIR)
      return "cannot read " + file + ": " + std::strerror(errno);
    any = any || readable;
  }
  return any ? "" : run.path() + " is not a run directory: it has no cluster.toml and no windows.jsonl";
}

std::string read_cluster_of(const run_directory& run, cluster::cluster_file& file) {
  if (auto problem = why_no_run(run); !problem.empty())
    return problem;
  auto parsed = cluster::read_cluster_file(run.cluster_file());
  if (!parsed.errors.empty())
    return run.path() + " is not a run directory: " + cluster::to_string(parsed.errors.front());
  file = std::move(parsed.file);
  return "";
}

run_directory make_default_run(const cluster::cluster_file& file) {
  return make_default_run(file.name + "-" + std::string(cluster::to_string(file.arbitrator.policy)));
}

run_directory make_default_run(const std::string& name) {
  constexpr int begun_in_a_second_max = 1000;
  std::error_code error; // that of who makes what is in it will say more
  const bool first = std::filesystem::create_directories("runs", error);
  const auto path = fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", name, fmt::gmtime(std::time(nullptr)));
  auto own = path;
  for (int others = 1; others < begun_in_a_second_max; ++others) {
    if (std::filesystem::create_directory(own, error) || error)
      break;
    own = path + "-" + std::to_string(others + 1);
  }
  run_directory run(own);
  run.made_ = std::shared_ptr<const void>(nullptr, [own = std::filesystem::absolute(own, error), first](const void*) {
    std::error_code not_empty;
    if (std::filesystem::remove(own, not_empty) && first)
      std::filesystem::remove(own.parent_path(), not_empty);
  });
  return run;
}

std::string write_cluster_copy(const run_directory& run, const cluster::cluster_file& file) {
  return storage::write_file_atomically(run.cluster_file(),
                                        "# " + file.path +
                                            " as this run used it: defaults and the command line's changes "
                                            "are written out.\n\n" +
                                            cluster::to_toml(file));
}

std::string keep_cluster_copy(const run_directory& run, const cluster::cluster_file& file) {
  const auto before = cluster::read_cluster_file(run.cluster_file());
  if (before.errors.empty() && before.file.digest() == file.digest())
    return "";
  return write_cluster_copy(run, file);
}

void require_written(const std::string& problem) {
  if (!problem.empty())
    throw std::runtime_error(problem);
}

} // namespace dynamix::node
