#pragma once

/// Hosts as schedulers and people list them.

#include <string>
#include <string_view>
#include <vector>

namespace dynamix::node {

struct listed_host {
  std::string name;
  std::string address; ///< the name, where none is given

  bool operator==(const listed_host&) const = default;
};

struct host_list {
  std::vector<listed_host> hosts;      ///< in their order, each once, at most 4096
  std::vector<std::string> again;      ///< names that were listed more than once, and are in it once
  std::vector<std::string> left_aside; ///< of a file: unknown words behind a host, with their line
  std::string problem;                 ///< what is wrong, and where; empty where nothing is
};

/// Names between commas, each with an address behind '=' if it has one: "ada,ben=10.0.0.2". A name may stand for
/// several, as Slurm writes SLURM_JOB_NODELIST: "node[01-03,7]" for node01, node02, node03 and node7, "tux[1-2]x[1-3]"
/// for six. Slots are left aside (ada:4), capitals mean the same, and an address of IPv6 gets a name after it.
host_list parse_host_list(std::string_view text);

/// A line per host: its name, then whatever MPI's programs take there (slots=4, :4, :4:mlx5_0), which is left aside; #
/// begins a comment. UTF-8 or, with its mark, UTF-16.
host_list parse_hostfile(std::string_view file);

} // namespace dynamix::node
