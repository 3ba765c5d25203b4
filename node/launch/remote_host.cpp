#include "node/launch/remote_host.hpp"

#include "node/reports/text.hpp"

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sstream>
#include <system_error>
#include <unistd.h>

namespace dynamix::node {
namespace {

constexpr int lock_patience_seconds = 60;
constexpr char farewell_end = '\f'; ///< JSON has no such byte

/// Never asks for a password; a host that is gone is noticed within 15 s.
constexpr const char* ssh_options[] = {"-T", "-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=5"};

} // namespace

std::string remote_directory(const remote_options& options, const std::string& host) {
  return options.directory + "/" + host;
}

std::string remote_script(const remote_options& options, const cluster::host& host,
                          const std::vector<remote_file>& files, const std::vector<std::string>& arguments) {
  const auto directory = shell_quoted(remote_directory(options, host.name));
  std::string script(say_mark);
  script += "IFS= read -r first; [ \"$first\" = dynamix ] || { echo 'a start-up file of the shell here reads standard "
            "input, which is the launcher'\\''s' >&2; exit 2; }; ";
  script += fmt::format("umask 077; mkdir -p {0} && cd {0} || exit 2; ", directory);
  // The process inherits the lock, and holds it as long as it lives.
  script += fmt::format("exec 9>launch.lock; flock -w {} 9 || {{ echo 'another launch runs in '{} >&2; exit 2; }}; ",
                        lock_patience_seconds, directory);
  // Where the connection is gone, what the shell says of how its process ended would end it before the keys are.
  script += "trap '' PIPE; ";
  std::set<std::string> made;
  for (const auto& file : files) {
    const auto parent = std::filesystem::path(file.path).parent_path().string();
    if (!parent.empty() && made.insert(parent).second)
      script += fmt::format("mkdir -p {} && ", shell_quoted(parent));
    script += fmt::format("head -c {} >{} || exit 2; ", file.content.size(), shell_quoted(file.path));
  }
  // The process itself is in the foreground: a shell lets those in the background ignore SIGINT.
  script += "rm -f pid; exec 3<&0; p() { until [ -s pid ]; do sleep 0.1; done; cat pid; }; ";
  script += "{ while read -r s <&3; do kill -s \"$s\" $(p); done; kill -s TERM $(p); } >/dev/null 2>&1 9>&- & w=$!; ";
  script +=
      fmt::format("sh -c 'echo $$ >pid; exec \"$0\" \"$@\"' {} run --cluster cluster.toml --name {} --log-to-stderr",
                  shell_quoted(options.program), shell_quoted(host.name));
  for (const auto& argument : arguments)
    script += " " + shell_quoted(argument);
  script += " </dev/null 3<&- >&2; code=$?; rm -rf keys; kill $w 2>/dev/null; rm -f pid; ";
  for (const auto* worker : host.members())
    script += fmt::format("cat workers/{} 2>/dev/null; printf '\\f'; ",
                          shell_quoted(cluster::file_name_of(worker->name) + ".json"));
  return script + "printf '\\036%d\\n' $code; exit $code";
}

std::optional<std::string_view> behind_mark(std::string_view said) {
  const auto line = fmt::format("\n{}\n", said_mark);
  const auto found = said.find(line);
  return found == std::string_view::npos ? std::nullopt : std::optional(said.substr(found + line.size()));
}

remote_end read_remote_end(std::string_view said) {
  remote_end end;
  const auto own = behind_mark(said);
  end.began = own.has_value();
  auto rest = own.value_or("");
  for (auto stop = rest.find(farewell_end); stop != std::string_view::npos; stop = rest.find(farewell_end)) {
    end.farewells.emplace_back(rest.substr(0, stop));
    rest.remove_prefix(stop + 1);
  }
  int code = 0;
  const char* last = rest.data() + rest.size();
  if (rest.starts_with(said_mark))
    if (const auto [stop, failed] = std::from_chars(rest.data() + said_mark.size(), last, code);
        failed == std::errc() && stop != last && *stop == '\n')
      end.code = code;
  return end;
}

namespace {

bool is_program(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

} // namespace

std::string find_ssh(const remote_options& options) {
  std::istringstream words(options.ssh);
  std::string program;
  words >> program;
  const auto* path = std::getenv("PATH");
  const bool has_folder = program.find('/') != std::string::npos;
  std::istringstream folders(has_folder ? "" : path != nullptr ? path : "/bin:/usr/bin"); // as execvp does
  bool found = program.find('=') != std::string::npos ||                                  // of env's
               (has_folder && is_program(program));
  for (std::string folder; !found && std::getline(folders, folder, ':');)
    found = is_program(folder + "/" + program);
  return found ? ""
               : fmt::format("cannot start \"{}\", by which hosts are reached (--ssh): there is no such program",
                             program);
}

child_options remote_command(const remote_options& options, const cluster::host& host, const std::string& command) {
  child_options child{.program = "/usr/bin/env"}; // looks in PATH
  std::istringstream words(options.ssh);
  for (std::string word; words >> word;)
    child.arguments.push_back(word);
  child.arguments.insert(child.arguments.end(), std::begin(ssh_options), std::end(ssh_options));
  child.arguments.insert(child.arguments.end(), {host.address, "exec sh -c " + shell_quoted(command)});
  return child;
}

} // namespace dynamix::node
