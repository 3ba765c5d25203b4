#pragma once

/// Clusters and workloads that nobody has chosen: drawn from a published distribution, so that a policy can be judged
/// on what neither its training nor its tuning has seen.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::simulator {

/// What seeds are for. The same seed gives unrelated scenarios in the two.
enum class generated_for : std::uint8_t { training, test };

/// What is drawn, but for the number of device kinds: how much they differ stands for it.
enum class generator_axis : std::uint8_t {
  workers,
  step_seconds,
  slowness,
  fixed_share,
  sharpness,
  memory,
  initial_batch,
  noise_scale,
  noise_growth,
  steps,
  gradients,
  exchange_share,
  latency,
  overlap,
  link_slowness,
  jitter,
  hiccups,
  slow_seconds,
  slow_share,
  slow_factor,
  topology,
  change_kind, ///< of a changing scenario: a fifth of the range each for co-tenants, throttling, spot, congestion, all
};
inline constexpr std::size_t generator_axes = 22;

/// Holds one axis at a place of its range, from 0 to below 1, and all else as drawn.
struct pinned_axis {
  generator_axis axis = generator_axis::workers;
  double place = 0;
};

/// The range in which devices differ: the slowest kind takes up to so many times the fastest one's step.
inline constexpr double slowness_max = 6;

/// How scenarios are narrowed against the published distribution; by default not at all.
struct generator_limits {
  std::optional<pinned_axis> pinned;
  double slowness = slowness_max; ///< at most, from 1 (equal devices) to slowness_max
};

/// Where a scenario of this seed has so many workers; nothing where its group never has.
std::optional<pinned_axis> pin_workers(std::uint64_t seed, std::uint32_t workers);

struct generated_file {
  std::string path; ///< relative to the directory of the cluster file
  std::string text;
};

/// A cluster file with the workload and the device profiles that it names.
struct generated_scenario {
  std::string name; ///< "test-07-changing-slow-16-64": purpose, seed, and the three groups that it belongs to
  std::vector<generated_file> files; ///< the cluster file first
};

/// The scenario of a seed; the same text on every machine. Seeds are stratified, so that any twelve that follow each
/// other cover all groups: steady or changing; fast or slow steps (below or above 224 ms); 2-8, 16-64 or 128-512
/// workers. docs/simulation-files.md has the distribution of everything else, from `describe_generator_markdown`.
///
/// `policy_file`: a path for the file's arbitrator.policy_file, empty for none.
generated_scenario generate_scenario(generated_for purpose, std::uint64_t seed, const std::string& policy_file,
                                     const generator_limits& limits = {});

/// The distribution, as a Markdown table.
std::string describe_generator_markdown();

} // namespace dynamix::simulator
