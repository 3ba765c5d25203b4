#include "swarm/process_usage.hpp"

#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace dynamix::swarm {
namespace {

constexpr int listening = 0x0A; ///< TCP_LISTEN in /proc/net/tcp

/// Nothing where a thread's schedstat cannot be read.
std::optional<double> scheduled_seconds(const std::string& process) {
  std::error_code error;
  double seconds = 0;
  bool any = false;
  for (std::filesystem::directory_iterator task(process + "/task", error), end; !error && task != end;
       task.increment(error)) {
    std::ifstream file(task->path() / "schedstat");
    std::uint64_t running_ns = 0;
    if (!(file >> running_ns))
      continue; // the thread has ended
    seconds += static_cast<double>(running_ns) / 1e9;
    any = true;
  }
  return any ? std::optional(seconds) : std::nullopt;
}

std::optional<double> ticked_seconds(const std::string& process) {
  std::ifstream file(process + "/stat");
  std::string text;
  if (!std::getline(file, text) || text.rfind(')') == std::string::npos)
    return std::nullopt;
  std::istringstream fields(text.substr(text.rfind(')') + 1)); // the name before may hold anything
  std::string ignored;
  for (int i = 0; i < 11; ++i)
    fields >> ignored;
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

} // namespace

std::optional<process_usage> usage_of(pid_t id, const std::string& proc) {
  const auto process = fmt::format("{}/{}", proc, id);
  auto seconds = scheduled_seconds(process);
  if (!seconds)
    seconds = ticked_seconds(process);
  std::ifstream pages(process + "/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  std::uint64_t shared = 0;
  if (!seconds || !(pages >> total >> resident >> shared))
    return std::nullopt;
  const auto own_pages = resident - std::min(shared, resident);
  return process_usage{.cpu_seconds = *seconds,
                       .memory_bytes = own_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE))};
}

bool is_listening(std::uint16_t port, const std::string& proc) {
  for (const auto* table : {"/net/tcp", "/net/tcp6"}) {
    std::ifstream sockets(proc + table);
    std::string line;
    std::getline(sockets, line);
    while (std::getline(sockets, line)) {
      std::istringstream fields(line);
      std::string number;
      std::string local;
      std::string remote;
      int state = 0;
      fields >> number >> local >> remote >> std::hex >> state;
      const auto colon = local.rfind(':');
      if (state == listening && colon != std::string::npos &&
          std::strtoul(local.c_str() + colon + 1, nullptr, 16) == port)
        return true;
    }
  }
  return false;
}

} // namespace dynamix::swarm
