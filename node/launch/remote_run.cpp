#include "node/launch/remote_run.hpp"

#include "ledger/line_reader.hpp"
#include "links/key_directory.hpp"
#include "node/reports/text.hpp"
#include "storage/atomic_file.hpp"
#include "storage/beneath.hpp"

#include <algorithm>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <thread>
#include <unistd.h>
#include <unordered_map>

namespace dynamix::node {
namespace {

constexpr std::size_t read_bytes_most = 1U << 20; ///< at one look
constexpr std::chrono::seconds copy_patience{30};
constexpr int exit_of_ssh = 255; ///< it says itself what was wrong
constexpr double follow_again_seconds = 2;
constexpr double start_doubted_seconds = 15; ///< an ssh that does not connect gives up earlier
constexpr double start_patience_seconds = 60;
constexpr std::uint64_t copy_bytes_most = 16U << 20; ///< then the file begins anew
constexpr std::size_t farewell_bytes_most = 1U << 28;
constexpr std::uint64_t log_bytes_most = 1U << 28; ///< of what a host sends home; then the file begins anew

std::uint64_t size_of(const std::string& path) {
  std::error_code none;
  const auto size = std::filesystem::file_size(path, none);
  return none ? 0 : size;
}

/// What a host's connection brought on its standard output.
std::string said_file(const run_directory& run, const std::string& host) {
  return run.path() + "/logs/" + host + ".said";
}

/// A place, and the row before it, which is an object of JSON, or empty; 0: neither.
std::pair<std::uint64_t, std::string_view> read_copied(std::string_view line) {
  std::uint64_t place = 0;
  const auto [end, failed] = std::from_chars(line.data(), line.data() + line.size(), place);
  const auto digits = static_cast<std::size_t>(end - line.data());
  if (failed != std::errc() || digits == line.size() || line[digits] != ' ')
    return {0, {}};
  const auto row = line.substr(digits + 1);
  return row.empty() || (row.starts_with('{') && row.ends_with('}')) ? std::pair(place, row)
                                                                     : std::pair(std::uint64_t{0}, std::string_view());
}

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// It begins anew with that line. Who appends to it goes on behind.
void begin_anew(const std::string& path, const std::string& line) {
  const int file = storage::open_to_append_beneath(path);
  if (file < 0)
    return;
  if (::ftruncate(file, 0) == 0) [[maybe_unused]]
    const auto written = ::write(file, line.data(), line.size());
  ::close(file);
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
  std::vector<std::string> arguments = {resumed ? "--resume" : "--out", "."};
  if (!options.keys.empty())
    arguments.insert(arguments.end(), {"--keys", "keys"});
  auto child = remote_command(remote, host, remote_script(remote, host, files, arguments));
  child.output = options.run.log(host.name);
  child.results = said_file(options.run, host.name);
  std::error_code ignored; // what an earlier life said last is no longer the last
  std::filesystem::remove(child.results, ignored);
  for (const auto* worker : host.members())
    std::filesystem::remove(options.run.worker(worker->name), ignored);
  child.told.emplace(input_begin);
  for (const auto& file : files)
    *child.told += file.content;
  return child;
}

} // namespace

std::string start_remotely(launch_options& options, const remote_options& remote) {
  if (auto problem = find_ssh(remote); !problem.empty())
    return problem;
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
  const bool full = text.size() == read_bytes_most;
  if (const auto end = text.rfind('\n'); end != std::string::npos)
    text.resize(end + 1);
  else if (!full)
    text.clear();
  offset = text.empty() && size_of(path) < offset ? 0 : offset + text.size(); // it may have begun anew
  return text;
}

remote_watch::remote_watch(const launch_options& options, const remote_options& remote, live_output& output,
                           bool forward)
    : options_(options), remote_(remote), output_(output) {
  std::string problem;
  joined_ = ledger::open_lines(options.run.ledger(), problem, std::uint64_t{options.file.run.keep_ledger_mb} << 20);
  if (!joined_)
    output_.problem("warning: " + problem);
  for (const auto& host : options.file.hosts) {
    if (host.has(cluster::role::arbitrator))
      ledgers_.push_back(
          {.host = &host, .path = fmt::format("{}/logs/{}.windows.jsonl", options.run.path(), host.name)});
    if (forward)
      logs_.push_back(
          {.name = host.name, .path = options.run.log(host.name), .offset = size_of(options.run.log(host.name))});
  }
  take_up();
}

void remote_watch::take_up() {
  struct copied_row {
    std::uint64_t place = 0; ///< behind it, in the host's ledger
    std::string text;        ///< empty: the place alone
  };
  std::vector<std::vector<copied_row>> copies(ledgers_.size());
  std::unordered_map<std::string_view, std::pair<std::size_t, std::size_t>> positions; // of each row: copy, index
  for (std::size_t i = 0; i < ledgers_.size(); ++i) {
    ledger::line_reader lines(ledgers_[i].path);
    for (std::string line; lines.next(line);)
      if (line == said_mark) // before it, only the first line is not the start-up files'
        copies[i].resize(std::min<std::size_t>(copies[i].size(), 1));
      else if (const auto [place, row] = read_copied(line); place > 0)
        copies[i].push_back({place, std::string(row)});
  }
  for (std::size_t i = 0; i < copies.size(); ++i)
    for (std::size_t k = 0; k < copies[i].size(); ++k)
      if (!copies[i][k].text.empty())
        positions.try_emplace(copies[i][k].text, i, k);
  std::vector<std::size_t> joined(copies.size(), 0); // the first so many of each copy are there
  ledger::line_reader lines(options_.run.ledger());
  for (std::string line; lines.next(line);)
    if (const auto found = positions.find(line); found != positions.end()) {
      const auto [copy, index] = found->second;
      joined[copy] = std::max(joined[copy], index + 1);
    }
  for (std::size_t i = 0; i < copies.size(); ++i) {
    for (std::size_t k = joined[i]; k < copies[i].size() && joined_; ++k)
      if (!copies[i][k].text.empty())
        joined_->append_line(copies[i][k].text);
    // Without its copy, places of the only ledger are those here, as long as nothing was dropped there.
    ledgers_[i].place = !copies[i].empty() ? copies[i].back().place : copies.size() == 1 ? lines.position() : 0;
  }
}

std::string remote_watch::copy(followed_ledger& ledger, bool follow) {
  ledger.started_seconds = now_seconds();
  if (ledger.copied) {
    ledger.process = child_process(); // writes no more from here on
    join(ledger);
  }
  ledger.copied.reset();
  ledger.marked = false;
  if (auto problem = storage::write_file_atomically(ledger.path, fmt::format("{} \n", ledger.place)); !problem.empty())
    return problem;
  ledger.copied = std::make_unique<ledger::line_reader>(ledger.path);
  const auto directory = shell_quoted(remote_directory(remote_, ledger.host->name));
  auto child =
      remote_command(remote_, *ledger.host,
                     fmt::format("{}exec {} ledger --run {} --places --from {}{}", say_mark,
                                 shell_quoted(remote_.program), directory, ledger.place, follow ? " --follow" : ""));
  child.output = options_.run.log(ledger.host->name);
  child.results = ledger.path;
  return ledger.process.start(child);
}

std::string remote_watch::ended(const host_end& end) {
  std::string said; // nothing where the connection broke
  if (const auto problem = storage::read_file(said_file(options_.run, end.host), farewell_bytes_most, said);
      !problem.empty())
    output_.problem("warning: " + problem);
  const auto told = read_remote_end(said);
  // One that is given up may come to the command yet, once its input has ended.
  if (!told.began || starts_[end.host].given_up)
    return end.exit.number == exit_of_ssh && !end.exit.by_signal
               ? ""
               : "its shell did not come to the command: look at its start-up files there, as ~/.bashrc";
  const auto workers = options_.file.find(end.host)->members();
  for (std::size_t i = 0; i < std::min(workers.size(), told.farewells.size()); ++i)
    if (!told.farewells[i].empty())
      if (const auto problem = storage::write_file_atomically(options_.run.worker(workers[i]->name), told.farewells[i]);
          !problem.empty())
        output_.problem("warning: " + problem);
  if (!end.exit.well())
    return "";
  return !told.code        ? "its connection ended before it had said how its process did"
         : *told.code == 0 ? ""
                           : fmt::format("its process said exit code {}", *told.code);
}

/// A start-up file that reads its input, or never returns, leaves no other sign.
void remote_watch::watch_starts(host_processes& hosts) {
  for (const auto& host : options_.file.hosts) {
    auto& seen = starts_[host.name];
    if (const auto id = hosts.id(host.name); id != seen.id)
      seen = {.id = id, .seconds = now_seconds()};
    if (seen.id == 0 || seen.over)
      continue;
    std::string said;
    storage::read_file(said_file(options_.run, host.name), read_bytes_most, said);
    seen.over = behind_mark(said).has_value();
    const double waited_seconds = now_seconds() - seen.seconds;
    if (!seen.over && !seen.warned && waited_seconds > start_doubted_seconds) {
      seen.warned = true;
      output_.problem(fmt::format("warning: {} has started nothing for {:.0f} s: a start-up file of its shell, as "
                                  "~/.bashrc, may wait for input, which is the launcher's",
                                  host.name, start_doubted_seconds));
    }
    if (!seen.over && waited_seconds > start_patience_seconds) {
      seen.over = seen.given_up = true;
      hosts.signal(host.name, SIGKILL); // the process there, which nobody has started
      hosts.signal(host.name, SIGKILL); // ssh
    }
  }
}

void remote_watch::look(host_processes& hosts, const std::vector<ledger::row>&, bool) {
  for (auto& ledger : ledgers_) {
    const bool ended = !ledger.process.running() && now_seconds() - ledger.started_seconds > follow_again_seconds;
    const bool full = ledger.copied && (ledger.copied->position() > copy_bytes_most ||
                                        size_of(ledger.path) > 2 * copy_bytes_most); // or it has lines without an end
    if (ended || full)
      if (const auto problem = copy(ledger, true); !problem.empty())
        output_.problem("warning: the ledger of " + ledger.host->name + " is not copied: " + problem);
    join(ledger);
  }
  watch_starts(hosts);
  print_logs();
  limit_files();
}

/// The disk is this host's, and what fills it another's.
void remote_watch::limit_files() const {
  for (const auto& host : options_.file.hosts) {
    if (const auto path = options_.run.log(host.name); size_of(path) > log_bytes_most)
      begin_anew(path, fmt::format("more than {} MiB were here\n", log_bytes_most >> 20));
    if (const auto path = said_file(options_.run, host.name); size_of(path) > farewell_bytes_most)
      begin_anew(path, "");
  }
}

void remote_watch::join(followed_ledger& ledger) {
  if (!ledger.copied)
    return;
  for (std::string line; ledger.copied->next(line);)
    if (!ledger.marked) {
      ledger.marked = line == said_mark;
    } else if (const auto [place, row] = read_copied(line); place > 0 && !row.empty()) {
      if (joined_)
        joined_->append_line(row);
      ledger.place = place;
    }
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
  for (auto& ledger : ledgers_) {
    join(ledger);
    if (!ledger.marked)
      return fmt::format("the end of {}'s ledger could not be copied: its shell did not come to the command",
                         ledger.host->name);
  }
  print_logs();
  return "";
}

} // namespace dynamix::node
