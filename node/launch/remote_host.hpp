#pragma once

/// A host's process on another machine, reached by ssh: what the shell there is asked to do, and the local process that
/// stands for it.
///
/// A connection carries everything. Down its standard input come a line that says so, the host's files, and then
/// signals by name, a line each; when it ends, because the launcher has gone or the network has, the process there is
/// asked to leave (SIGTERM). Up its standard error comes the log, up its standard output the workers' farewells and how
/// the process ended, once it has.
///
/// The shell's start-up files there may read and write the same streams before. So what a command says is behind a
/// mark, what it reads begins with one, and whatever lacks either is not what it seems.

#include "cluster/cluster_file.hpp"
#include "node/launch/child_process.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::node {

struct remote_options {
  std::string ssh = "ssh";              ///< with its options, separated by spaces
  std::string program = "dynamix-node"; ///< on the hosts
  std::string directory;                ///< of the run, on the hosts, below the home directory unless absolute
};

/// A file that a host's process reads, by its path below the host's directory.
struct remote_file {
  std::string path;
  std::string content;
};

/// Files of one host, all together.
inline constexpr std::size_t remote_bytes_max = 1U << 20;

/// The directory of `host` there: hosts share none, whether or not their machines do.
std::string remote_directory(const remote_options& options, const std::string& host);

/// What `sh` does on a host: takes the files, which nobody else may read, starts `dynamix-node run` with `arguments`
/// behind its own, passes on signals, and ends as the process ends, with what `read_remote_end` reads on its standard
/// output. Waits for a process of the same host and run that has not ended yet. Keys are gone when the process is.
std::string remote_script(const remote_options& options, const cluster::host& host,
                          const std::vector<remote_file>& files, const std::vector<std::string>& arguments);

/// The first line that the script reads.
inline constexpr std::string_view input_begin = "dynamix\n";
/// The line behind which a command's own words are on its standard output. JSON has no such byte.
inline constexpr std::string_view said_mark = "\x1e";
/// Has a shell say the mark, whatever stands before it in its line.
inline constexpr std::string_view say_mark = "printf '\\n\\036\\n'; ";
/// What stands behind the mark; nothing where it is missing.
std::optional<std::string_view> behind_mark(std::string_view said);

/// What came of a host's process, by the script's own word.
struct remote_end {
  bool began = false;                 ///< the script did
  std::optional<int> code;            ///< the process's exit code; nothing: the connection ended first
  std::vector<std::string> farewells; ///< the workers' files in their order; empty of one that wrote none
};
remote_end read_remote_end(std::string_view said);

/// Why nothing can be reached from here; empty: the program that --ssh names is there.
std::string find_ssh(const remote_options& options);

/// `command` on the machine of `host`, by ssh.
child_options remote_command(const remote_options& options, const cluster::host& host, const std::string& command);

} // namespace dynamix::node
