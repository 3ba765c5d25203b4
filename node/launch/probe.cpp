#include "node/launch/probe.hpp"

#include "node/reports/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <list>
#include <sstream>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

namespace dynamix::node {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t asked_most = 64;          ///< at a time
constexpr std::size_t answer_bytes_max = 65536; ///< of more the process is ended
constexpr double speed_most = 1e12;
constexpr std::size_t line_characters_most = 200;
constexpr std::chrono::minutes answer_patience{2};
constexpr std::uint32_t probed_batch = 64;

/// A file without a name, for what a child process writes.
class memory_file {
public:
  memory_file() : descriptor_(memfd_create("probe", MFD_CLOEXEC)) {}
  memory_file(const memory_file&) = delete;
  memory_file& operator=(const memory_file&) = delete;
  ~memory_file() { ::close(descriptor_); }

  std::string path() const { return fmt::format("/proc/self/fd/{}", descriptor_); }
  std::size_t size() const {
    struct stat file {};
    return ::fstat(descriptor_, &file) == 0 ? static_cast<std::size_t>(file.st_size) : 0;
  }
  std::string text() const {
    std::string text(std::min(size(), answer_bytes_max), '\0');
    const auto count = ::pread(descriptor_, text.data(), text.size(), 0);
    text.resize(static_cast<std::size_t>(std::max<::ssize_t>(count, 0)));
    return text;
  }

private:
  int descriptor_;
};

/// As a comment of a TOML file may hold it.
std::string one_line(const std::string& text) {
  auto line = printable(text, line_characters_most);
  std::ranges::replace_if(
      line, [](unsigned char c) { return c > 127; }, '?');
  return line;
}

std::string last_line(std::string text) {
  text.resize(text.find_last_not_of(" \r\n") + 1);
  return one_line(text.substr(text.rfind('\n') + 1));
}

/// The detail of one of doctor's findings; empty where there is none.
std::string detail_of(const nlohmann::json& findings, const char* subject) {
  for (const auto& each : findings) {
    const auto name = each.find("subject");
    const auto detail = each.find("detail");
    if (name != each.end() && *name == subject && detail != each.end() && detail->is_string())
      return one_line(detail->get<std::string>());
  }
  return "";
}

/// Samples per second; 0: there is no such figure.
double speed_of(const nlohmann::json& profile) {
  for (const auto& row : profile)
    if (const auto rate = row.find("samples_per_second"); rate != row.end() && rate->is_number())
      return std::clamp(rate->get<double>(), 0.0, speed_most);
  return 0;
}

struct question {
  std::size_t host = 0;
  memory_file said;
  memory_file complained;
  child_process process;
  steady_clock::time_point asked = steady_clock::now();

  bool over() {
    return !process.running() || steady_clock::now() - asked > answer_patience ||
           std::max(said.size(), complained.size()) > answer_bytes_max;
  }
};

std::string script_of(const remote_options& remote) {
  const auto program = shell_quoted(remote.program);
  return fmt::format("{2}{0} doctor --json && echo && exec {0} profile --json --batches {1} --seconds 1", program,
                     probed_batch, say_mark);
}

} // namespace

probed_machine read_probe(const std::string& all, const std::string& complained) {
  const auto own = behind_mark(all);
  if (!own)
    return {.found = "",
            .problem = complained.empty()
                           ? "its shell did not come to the command: look at its start-up files there, as "
                             "~/.bashrc"
                           : last_line(complained)};
  const std::string said(*own);
  const auto end = said.find("\n\n");
  const auto findings = nlohmann::json::parse(said.substr(0, end), nullptr, false);
  const auto cores = detail_of(findings, "cores");
  if (cores.empty())
    return {.found = "", .problem = complained.empty() ? "it did not answer" : last_line(complained)};
  const auto profile =
      nlohmann::json::parse(end == std::string::npos ? "" : said.substr(end), nullptr, false); // discarded where broken
  const auto speed = speed_of(profile);
  return {.found = fmt::format(
              "{} cores, {} of memory, link {}, {}", cores, detail_of(findings, "memory"), detail_of(findings, "link"),
              speed > 0 ? fmt::format("{:.0f} samples/s of lenet at batch {} by one thread", speed, probed_batch)
                        : "speed not measured: " + last_line(complained)),
          .problem = ""};
}

std::vector<probed_machine> probe_machines(const remote_options& remote, const std::vector<cluster::host>& hosts,
                                           const std::function<void(std::size_t)>& answered) {
  std::vector<probed_machine> machines(hosts.size());
  std::list<question> open;
  std::size_t next = 0;
  for (std::size_t done = 0; done < hosts.size();) {
    while (open.size() < asked_most && next < hosts.size()) {
      auto& one = open.emplace_back();
      one.host = next++;
      auto child = remote_command(remote, hosts[one.host], script_of(remote));
      child.results = one.said.path();
      child.output = one.complained.path();
      machines[one.host].problem = one.process.start(child);
    }
    for (auto at = open.begin(); at != open.end();) {
      if (!at->over()) {
        ++at;
        continue;
      }
      if (auto& machine = machines[at->host]; machine.problem.empty())
        machine = read_probe(at->said.text(), at->complained.text());
      at = open.erase(at);
      answered(++done);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return machines;
}

std::string default_route_interface(const std::string& ipv4, const std::string& ipv6) {
  std::string line;
  for (std::istringstream routes(ipv4); std::getline(routes, line);) {
    std::istringstream fields(line);
    std::string interface;
    std::string destination;
    if (fields >> interface >> destination && destination == "00000000")
      return interface;
  }
  for (std::istringstream routes(ipv6); std::getline(routes, line);) {
    std::istringstream fields(line);
    std::string destination;
    std::string prefix_bits;
    std::string other;
    std::string interface;
    fields >> destination >> prefix_bits;
    for (int passed_over = 0; passed_over < 7; ++passed_over) // source and its bits, next hop, metric, counters, flags
      fields >> other;
    // Where there is no default route the kernel lists one that reaches nothing, by "lo".
    if (fields >> interface && prefix_bits == "00" && interface != "lo" &&
        destination.find_first_not_of('0') == std::string::npos)
      return interface;
  }
  return "";
}

} // namespace dynamix::node
