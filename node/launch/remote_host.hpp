#pragma once

/// A host's process on another machine, reached by ssh: what the shell there is asked to do, and the local process that
/// stands for it.
///
/// A connection carries everything. Down its standard input come the host's files, and then signals by name, a line
/// each; when it ends, because the launcher has gone or the network has, the process there is asked to leave (SIGTERM).
/// Up its standard error comes the log, up its standard output the workers' farewells, once the process has ended.

#include "cluster/cluster_file.hpp"
#include "node/launch/child_process.hpp"

#include <cstddef>
#include <string>
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
/// behind its own, passes on signals, and ends as the process ends, with its workers' files on its standard output,
/// `farewell_end` behind each of several. Waits for a process of the same host and run that has not ended yet. Keys are
/// gone when the process is.
std::string remote_script(const remote_options& options, const cluster::host& host,
                          const std::vector<remote_file>& files, const std::vector<std::string>& arguments);

/// JSON has no such byte.
inline constexpr char farewell_end = '\f';

/// `command` on the machine of `host`, by ssh.
child_options remote_command(const remote_options& options, const cluster::host& host, const std::string& command);

} // namespace dynamix::node
