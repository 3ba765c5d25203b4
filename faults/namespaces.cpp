#include "faults/namespaces.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <fstream>
#include <spawn.h>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

extern char** environ;

namespace dynamix::faults {
namespace {

constexpr std::size_t hosts_most = 200;
constexpr std::string_view own_prefix = "dx";

std::string ip_program() {
  for (const char* path : {"/usr/sbin/ip", "/sbin/ip", "/usr/bin/ip", "/bin/ip"})
    if (::access(path, X_OK) == 0)
      return path;
  return "";
}

/// `ip` with these words, quietly. Returns an empty string, or which command failed.
std::string ip(const std::string& words) {
  std::vector<std::string> arguments = {ip_program()};
  std::istringstream stream(words);
  for (std::string word; stream >> word;)
    arguments.push_back(word);
  std::vector<char*> pointers;
  for (auto& each : arguments)
    pointers.push_back(each.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = -1;
  const int error = posix_spawn(&process, arguments.front().c_str(), &quiet, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&quiet);
  int status = 0;
  while (error == 0 && ::waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  return error == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "" : "\"ip " + words + "\" failed";
}

/// Removes in `directory` whatever processes made that are no more.
void remove_abandoned(const char* directory, const std::string& command) {
  std::vector<std::string> abandoned;
  std::error_code ignored;
  for (std::filesystem::directory_iterator entry(directory, ignored), end; !ignored && entry != end;
       entry.increment(ignored))
    if (auto name = entry->path().filename().string(); maker_of(name) > 0)
      if (::kill(maker_of(name), 0) != 0 && errno == ESRCH)
        abandoned.push_back(std::move(name));
  for (const auto& name : abandoned)
    ip(command + name);
}

} // namespace

int maker_of(const std::string& name) {
  int process = 0;
  if (!name.starts_with(own_prefix))
    return 0;
  const auto* end = name.data() + name.size();
  const auto read = std::from_chars(name.data() + own_prefix.size(), end, process);
  const bool ours = read.ec == std::errc() && end - read.ptr > 1 &&
                    (*read.ptr == 'n' || *read.ptr == 'p' || *read.ptr == 'b') &&
                    std::all_of(read.ptr + 1, end, [](char each) { return each >= '0' && each <= '9'; });
  return ours ? process : 0;
}

std::size_t namespaces::index_of(const std::string& host) const {
  const auto found = std::ranges::find(hosts_, host);
  if (found == hosts_.end())
    throw std::out_of_range("no namespace for " + host);
  return static_cast<std::size_t>(found - hosts_.begin());
}

// Names of interfaces have at most 15 characters.
std::string namespaces::name(std::size_t index) const {
  return fmt::format("{}n{}", prefix_, index);
}
std::string namespaces::port(std::size_t index) const {
  return fmt::format("{}p{}", prefix_, index);
}
std::string namespaces::bridge(bool apart) const {
  return prefix_ + (apart ? "b1" : "b0");
}

std::string namespaces::address(const std::string& host) const {
  return fmt::format("10.213.77.{}", index_of(host) + 1);
}

std::vector<std::string> namespaces::command(const std::string& host) const {
  return {ip_program(), "netns", "exec", name(index_of(host))};
}

std::string namespaces::create(const std::vector<std::string>& hosts) {
  if (::geteuid() != 0)
    return "network namespaces need root";
  if (ip_program().empty())
    return "network namespaces need the program ip (package iproute2)";
  if (hosts.size() > hosts_most)
    return fmt::format("there are {} hosts; namespaces are made for at most {}", hosts.size(), hosts_most);
  remove_abandoned("/sys/class/net", "link del ");
  remove_abandoned("/run/netns", "netns del ");
  prefix_ = fmt::format("{}{}", own_prefix, ::getpid() % 10'000'000);
  hosts_ = hosts;
  std::string problem;
  for (const bool apart : {false, true})
    for (const auto& words : {"link add " + bridge(apart) + " type bridge", "link set " + bridge(apart) + " up"})
      problem = problem.empty() ? ip(words) : problem;
  for (std::size_t i = 0; i < hosts_.size() && problem.empty(); ++i)
    problem = make(i);
  if (!problem.empty())
    remove();
  return problem;
}

std::string namespaces::make(std::size_t index) const {
  const auto in = "netns exec " + name(index) + " " + ip_program() + " ";
  for (const auto& words :
       {"netns add " + name(index), "link add " + port(index) + " type veth peer name eth0 netns " + name(index),
        "link set " + port(index) + " master " + bridge(false), "link set " + port(index) + " up",
        in + "link set lo up", in + "addr add " + address(hosts_[index]) + "/24 dev eth0", in + "link set eth0 up"})
    if (auto problem = ip(words); !problem.empty())
      return problem;
  return "";
}

void namespaces::remove() {
  if (hosts_.empty())
    return;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    ip("link del " + port(i));
    ip("netns del " + name(i));
  }
  for (const bool apart : {false, true})
    ip("link del " + bridge(apart));
  hosts_.clear();
}

std::string namespaces::set_apart(const std::string& host, bool apart) const {
  return ip("link set " + port(index_of(host)) + " master " + bridge(apart));
}

std::uint64_t namespaces::sent_bytes(const std::string& host) const {
  std::uint64_t bytes = 0;
  std::ifstream("/sys/class/net/" + port(index_of(host)) + "/statistics/rx_bytes") >> bytes;
  return bytes;
}

} // namespace dynamix::faults
