#include "node/launch/remote_run.hpp"

#include "links/key_directory.hpp"
#include "node/reports/text.hpp"
#include "storage/atomic_file.hpp"

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <thread>

namespace dynamix::node {
namespace {

constexpr std::size_t read_bytes_most = 1U << 20; ///< at one look
constexpr std::chrono::seconds copy_patience{30};
constexpr double follow_again_seconds = 2;

std::uint64_t size_of(const std::string& path) {
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  return none ? 0 : size;
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What `run` on `host` reads. `problem`: what cannot be read here.
std::vector<remote_file> files_of(const launch_options& options, const std::string& host, std::string& problem) {
  std::vector<remote_file> files = {{.path = "cluster.toml", .content = ""}};
  problem = storage::read_file(options.run.cluster_file(), remote_bytes_max, files.front().content);
  if (options.keys.empty() || !problem.empty())
    return files;
  const auto from = links::host_directory(options.keys, host);
  for (const auto* name : {"ca.crt", "host.crt", "host.key"}) {
    auto& file =
        files.emplace_back(remote_file{.path = links::host_directory("keys", host) + "/" + name, .content = ""});
    if (problem = storage::read_file(from + "/" + name, remote_bytes_max, file.content); !problem.empty())
      return files;
  }
  return files;
}

child_options describe_remote(const launch_options& options, const remote_options& remote, const cluster::host& host,
                              bool resumed) {
  std::string problem; // looked for before the first start
  const auto files = files_of(options, host.name, problem);
  // What is read from there is followed by its bytes.
  std::vector<std::string> arguments = {resumed ? "--resume" : "--out", ".", "--set", "run.keep_ledger_mb=0"};
  if (!options.keys.empty())
    arguments.insert(arguments.end(), {"--keys", "keys"});
  auto child = remote_command(remote, host, remote_script(remote, host.name, files, arguments));
  child.output = options.run.log(host.name);
  child.results = options.run.worker(host.name);
  std::error_code ignored; // what an earlier life said last is no longer the last
  std::filesystem::remove(child.results, ignored);
  child.told.emplace();
  for (const auto& file : files)
    *child.told += file.content;
  return child;
}

} // namespace

std::string start_remotely(launch_options& options, const remote_options& remote) {
  for (const auto& host : options.file.hosts) {
    std::string problem;
    std::size_t bytes = 0;
    for (const auto& file : files_of(options, host.name, problem))
      bytes += file.content.size();
    if (!problem.empty())
      return problem;
    if (bytes > remote_bytes_max)
      return fmt::format("the cluster file and the keys of host \"{}\" have more than {} bytes", host.name,
                         remote_bytes_max);
  }
  options.describe = [&options, &remote](const cluster::host& host, bool resumed) {
    return describe_remote(options, remote, host, resumed);
  };
  return "";
}

std::string remote_watch::growing_file::read_lines() {
  std::ifstream file(path, std::ios::binary);
  std::string text(read_bytes_most, '\0');
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  const auto end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);
  offset += text.size();
  return text;
}

remote_watch::remote_watch(const launch_options& options, const remote_options& remote, live_output& output,
                           bool forward)
    : options_(options), remote_(remote), output_(output) {
  for (const auto& host : options.file.hosts) {
    const auto path = fmt::format("{}/logs/{}.windows.jsonl", options.run.path(), host.name);
    if (host.has(cluster::role::arbitrator))
      ledgers_.push_back({.host = &host, .copy = {.name = host.name, .path = path, .offset = size_of(path)}});
    if (forward)
      logs_.push_back(
          {.name = host.name, .path = options.run.log(host.name), .offset = size_of(options.run.log(host.name))});
  }
  // What an earlier launcher had copied but not joined when it died, where that can be told.
  if (ledgers_.size() == 1)
    ledgers_.front().copy.offset = size_of(options.run.ledger());
}

std::string remote_watch::copy(followed_ledger& ledger, bool follow) const {
  ledger.process = child_process(); // writes no more from here on, so that the copy's size holds
  const auto directory = shell_quoted(remote_directory(remote_, ledger.host->name));
  auto child = remote_command(remote_, *ledger.host,
                              fmt::format("cd {} 2>/dev/null && exec 2>/dev/null tail -c +{}{} windows.jsonl",
                                          directory, size_of(ledger.copy.path) + 1, follow ? " -F" : ""));
  child.output = options_.run.log(ledger.host->name);
  child.results = ledger.copy.path;
  ledger.started_seconds = now_seconds();
  return ledger.process.start(child);
}

void remote_watch::look(host_processes&, const std::vector<ledger::row>&, bool) {
  for (auto& ledger : ledgers_)
    if (!ledger.process.running() && now_seconds() - ledger.started_seconds > follow_again_seconds)
      if (const auto problem = copy(ledger, true); !problem.empty())
        output_.problem("warning: the ledger of " + ledger.host->name + " is not copied: " + problem);
  join_ledgers();
  print_logs();
}

void remote_watch::join_ledgers() {
  std::ofstream joined(options_.run.ledger(), std::ios::binary | std::ios::app);
  for (auto& ledger : ledgers_)
    joined << ledger.copy.read_lines();
}

void remote_watch::print_logs() {
  for (auto& log : logs_) {
    std::istringstream lines(log.read_lines());
    for (std::string line; std::getline(lines, line);)
      output_.print(log.name + " | " + printable(line));
  }
}

std::string remote_watch::finish() {
  for (auto& ledger : ledgers_)
    if (auto problem = copy(ledger, false); !problem.empty())
      return problem;
  const auto deadline = std::chrono::steady_clock::now() + copy_patience;
  for (auto& ledger : ledgers_) {
    while (ledger.process.running() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const auto ended = ledger.process.poll();
    if (!ended || !ended->well())
      return fmt::format("the end of {}'s ledger could not be copied: {}", ledger.host->name,
                         ended ? to_string(*ended) : "no answer");
  }
  for (const auto& ledger : ledgers_)
    while (ledger.copy.offset < size_of(ledger.copy.path)) {
      const auto before = ledger.copy.offset;
      join_ledgers();
      if (ledger.copy.offset == before)
        break; // a torn last line
    }
  print_logs();
  return "";
}

} // namespace dynamix::node
