#pragma once

/// How long a device computes for a step: a measured table, kept as a TOML file.
///
///   [profile]
///   name = "v100-shufflenet"
///   source = "where the figures come from"
///   batch_highest = 4096                # what its memory allows; 0 or absent: not known
///   batch = [8, 16, 32]                 # integers > 0, rising
///   milliseconds = [38.4, 40.3, 40.8]   # of a step, > 0; a fall is noise and is made monotone
///   evaluation_microseconds = 12.5      # of a sample in an evaluation, forward only; absent: takes no time

#include "cluster/cluster_file.hpp"
#include "policy/step_time_table.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dynamix::simulator {

struct device_profile {
  std::string name;
  std::string source;
  std::uint32_t batch_highest = 0;       ///< 0: not known
  std::vector<policy::step_time> points; ///< as measured
  policy::step_time_curve curve;         ///< monotone_curve(points)
  double evaluation_seconds = 0;         ///< of a sample
};

/// Through points that rise in batch: isotonic regression with equal weights (pool adjacent violators; Barlow et al.
/// 1972), then linear between the points.
policy::step_time_curve monotone_curve(std::span<const policy::step_time> points);

/// Errors carry file, line and column; empty: `profile` holds what the file says.
std::vector<cluster::file_error> read_device_profile(const std::string& path, device_profile& profile);
/// As a file that read_device_profile reads, to a tenth of a microsecond.
std::string to_toml(const device_profile& profile);
/// Its fields, as the Markdown table of docs/simulation-files.md.
std::string describe_device_profile_markdown();

} // namespace dynamix::simulator
