#include "simulator/generator.hpp"

#include "simulator/device_profile.hpp"
#include "simulator/random_stream.hpp"
#include "simulator/workload.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/core.h>
#include <optional>
#include <string_view>

namespace dynamix::simulator {
namespace {

constexpr std::uint64_t stream_purpose = 0x67656e65; // tells these random numbers from a world's
constexpr std::size_t kinds_max = 4;

namespace distribution {

/// Of everything that is drawn; log-uniform unless said otherwise. `describe_generator_markdown` prints the same rows.
struct range {
  double low;
  double high;
};
constexpr range fast_step_seconds{0.005, 0.224};
constexpr range slow_step_seconds{0.224, 10};
constexpr std::array<range, 3> worker_counts{{{2, 8}, {16, 64}, {128, 512}}};
constexpr range kind_slowness{1, slowness_max};
constexpr range fixed_share{0, 0.8};    // uniform
constexpr range initial_exponent{3, 7}; // of two; uniform, rounded
constexpr range memory_factor{2, 64};
constexpr range noise_over_batch{0.1, 30};
constexpr range noise_exponent{0, 1}; // uniform
constexpr range steps{1500, 8000};
constexpr range gradient_mib{0.2, 1500};
constexpr range exchange_share{0.01, 2};
constexpr range latency_share{1e-5, 1e-3};
constexpr range overlap{1, 4}; // uniform
constexpr range jitter{0.01, 0.15};
constexpr range hiccup_rate{0, 0.03}; // uniform
constexpr range link_slowness{1, 4};
constexpr range slow_seconds{5, 1800};
constexpr range slow_share{0.05, 0.5}; // uniform
constexpr range slow_factor{1.5, 8};

} // namespace distribution

using distribution::range;

constexpr double target_epochs = 10;
constexpr std::uint32_t batch_factor_down = 8; // of the initial batch size, to the bounds
constexpr std::uint32_t batch_factor_up = 16;

enum class change : std::uint8_t { none, cotenants, throttling, spot, congestion, all };
constexpr std::array<std::string_view, 6> change_names{"none", "co-tenants", "throttling", "spot", "congestion", "all"};

struct device_kind {
  double slowness = 1;
  std::uint32_t count = 0;
  std::uint32_t batch_highest = 0; // 0: holds everything
  double link_slowness = 1;
};

/// What is drawn, in this order.
class drawing {
public:
  drawing(generated_for purpose, std::uint64_t seed, const generator_limits& limits)
      : numbers_(seed, static_cast<std::uint64_t>(purpose), stream_purpose), limits_(limits), size_class(seed % 3),
        changing(seed / 3 % 2 == 1), slow_steps(seed / 6 % 2 == 1) {
    workers = static_cast<std::uint32_t>(
        std::lround(log_uniform(distribution::worker_counts[size_class], generator_axis::workers)));
    step_seconds = log_uniform(slow_steps ? distribution::slow_step_seconds : distribution::fast_step_seconds,
                               generator_axis::step_seconds);
    initial = 1U << static_cast<unsigned>(
                  std::lround(uniform(distribution::initial_exponent, generator_axis::initial_batch)));
    fixed = uniform(distribution::fixed_share, generator_axis::fixed_share);
    sharpness = uniform({2, 8}, generator_axis::sharpness);
    draw_kinds();
    draw_workload();
    draw_links();
    jitter_value = log_uniform(distribution::jitter, generator_axis::jitter);
    hiccups = uniform(distribution::hiccup_rate, generator_axis::hiccups);
    draw_changes();
  }

  double uniform(range within) { return numbers_.uniform(within.low, within.high); }
  double uniform(range within, generator_axis axis) { return within.low + (within.high - within.low) * place(axis); }
  double log_uniform(range within, generator_axis axis) {
    return within.low * std::pow(within.high / within.low, place(axis));
  }
  std::uint64_t below(std::uint64_t count) {
    return static_cast<std::uint64_t>(numbers_.uniform() * static_cast<double>(count));
  }
  double global_batch() const { return static_cast<double>(initial) * workers; }
  double static_seconds() const { return wanted_steps * step_seconds * slowest(); }
  double slowest() const { return std::ranges::max(kinds, {}, &device_kind::slowness).slowness; }

private:
  /// The next random number, also where its axis is pinned: the others stay as they are.
  double place(generator_axis axis) {
    const double drawn = numbers_.uniform();
    return limits_.pinned && limits_.pinned->axis == axis ? limits_.pinned->place : drawn;
  }

  random_stream numbers_;
  generator_limits limits_;
  void draw_kinds();
  void draw_workload();
  void draw_links();
  void draw_changes();

public:
  std::size_t size_class;
  bool changing;
  bool slow_steps;
  std::uint32_t workers = 0;
  double step_seconds = 0; // of the fastest kind at the initial batch size
  std::uint32_t initial = 0;
  double fixed = 0;     // share of a step at the initial batch size that does not depend on it
  double sharpness = 0; // of the bend between the two
  std::vector<device_kind> kinds;
  double wanted_steps = 0; // of `static`, where every step counts as one at the reference batch
  simulator::workload learning;
  bool server = false;
  double bandwidth_mbit = 0;
  double latency_us = 0;
  double overlap_value = 1;
  double jitter_value = 0;
  double hiccups = 0;
  change kind_of_change = change::none;
  double slow_seconds_value = 0;
  double slow_every_seconds = 0;
  double slow_factor_value = 1;
};

void drawing::draw_kinds() {
  const auto kind_count = 1 + below(std::min<std::uint64_t>(kinds_max, workers));
  std::uint32_t left = workers;
  for (std::size_t i = 0; i < kind_count; ++i) {
    device_kind kind;
    kind.slowness =
        i == 0 ? 1 : log_uniform({distribution::kind_slowness.low, limits_.slowness}, generator_axis::slowness);
    const auto later = static_cast<std::uint32_t>(kind_count - i - 1);
    kind.count = later == 0 ? left : 1 + static_cast<std::uint32_t>(below(left - later));
    left -= kind.count;
    if (numbers_.uniform() < 0.5)
      kind.batch_highest =
          static_cast<std::uint32_t>(initial * log_uniform(distribution::memory_factor, generator_axis::memory));
    kind.link_slowness =
        numbers_.uniform() < 0.7 ? 1 : log_uniform(distribution::link_slowness, generator_axis::link_slowness);
    kinds.push_back(kind);
  }
}

void drawing::draw_workload() {
  wanted_steps = log_uniform(distribution::steps, generator_axis::steps);
  learning.name = "drawn";
  learning.source = "drawn by dynamix-node generate-scenarios";
  learning.reference_batch = global_batch();
  learning.epoch_samples = std::ceil(wanted_steps * global_batch() / target_epochs);
  learning.gradient_mib = log_uniform(distribution::gradient_mib, generator_axis::gradients);
  learning.phi_start = global_batch() * log_uniform(distribution::noise_over_batch, generator_axis::noise_scale);
  learning.phi_epochs = 2;
  learning.phi_exponent = uniform(distribution::noise_exponent, generator_axis::noise_growth);
  learning.phi_noise = uniform({0.1, 0.4});
}

void drawing::draw_links() {
  server = place(generator_axis::topology) < 0.25;
  // So that the exchange takes this share of the fastest kind's computing at the initial batch size.
  const double exchange = step_seconds * log_uniform(distribution::exchange_share, generator_axis::exchange_share);
  const double copies = server ? workers : 2.0 * (workers - 1) / workers;
  bandwidth_mbit = std::clamp(copies * learning.gradient_mib * 1024 * 1024 * 8 / 1e6 / exchange, 1.0, 1e7);
  latency_us =
      std::clamp(step_seconds * log_uniform(distribution::latency_share, generator_axis::latency) * 1e6, 5.0, 2000.0);
  overlap_value = uniform(distribution::overlap, generator_axis::overlap);
}

void drawing::draw_changes() {
  const auto drawn = static_cast<change>(
      1 + static_cast<std::size_t>(place(generator_axis::change_kind) * static_cast<double>(change_names.size() - 1)));
  const double share = uniform(distribution::slow_share, generator_axis::slow_share);
  const double mean_seconds = log_uniform(distribution::slow_seconds, generator_axis::slow_seconds);
  slow_factor_value = log_uniform(distribution::slow_factor, generator_axis::slow_factor);
  if (!changing)
    return;
  kind_of_change = drawn;
  // Long enough to be seen at all, short enough to happen more than once.
  slow_seconds_value = std::clamp(mean_seconds, 3 * step_seconds, std::max(3 * step_seconds, static_seconds() / 30));
  slow_every_seconds = slow_seconds_value * (1 - share) / share;
}

bool changes_by(const drawing& drawn, change kind) {
  return drawn.kind_of_change == kind || drawn.kind_of_change == change::all;
}

/// (flat^s + (slope b)^s)^(1/s): launch-bound at small batch sizes, in proportion to them at large ones.
device_profile profile_of(const drawing& drawn, std::size_t index) {
  const auto& kind = drawn.kinds[index];
  device_profile profile{.name = fmt::format("kind-{}", index), .source = drawn.learning.source};
  profile.batch_highest = kind.batch_highest;
  const double initial_seconds = drawn.step_seconds * kind.slowness;
  const double flat = drawn.fixed * initial_seconds;
  const double slope =
      std::pow(std::pow(initial_seconds, drawn.sharpness) - std::pow(flat, drawn.sharpness), 1 / drawn.sharpness) /
      drawn.initial;
  const auto lowest = std::max(1U, drawn.initial / batch_factor_down);
  for (std::uint32_t batch = lowest; batch <= drawn.initial * batch_factor_up; batch *= 2)
    profile.points.push_back(
        {static_cast<double>(batch),
         std::pow(std::pow(flat, drawn.sharpness) + std::pow(slope * batch, drawn.sharpness), 1 / drawn.sharpness)});
  profile.evaluation_seconds = 0;
  return profile;
}

std::string host_text(const drawing& drawn, const std::string& directory, std::size_t index, std::string_view name,
                      std::uint32_t port, std::uint32_t count) {
  const auto& kind = drawn.kinds[index];
  auto text = fmt::format("\n[[host]]\nname = \"{}\"\nport = {}\ncount = {}\nprofile = \"{}/kind-{}.toml\"\n", name,
                          port, count, directory, index);
  if (kind.batch_highest > 0 && kind.batch_highest < drawn.initial * batch_factor_up) // nobody could know it otherwise
    text += fmt::format("batch_highest = {}\n", kind.batch_highest);
  if (kind.link_slowness > 1)
    text += fmt::format("bandwidth_mbit = {:.3f}\n", std::max(0.001, drawn.bandwidth_mbit / kind.link_slowness));
  return text;
}

/// Hosts of a kind: most change by chance alone; of those that throttle or are taken away, the times are written down.
std::string kind_text(drawing& drawn, const std::string& directory, std::size_t index, std::uint32_t& port) {
  std::uint32_t plain = drawn.kinds[index].count;
  std::string text;
  const auto add = [&](std::string_view what, const std::string& fields) {
    text += host_text(drawn, directory, index, fmt::format("{}-{}", what, index), port++, 1) + fields;
    --plain;
  };
  const double whole = drawn.static_seconds();
  if (changes_by(drawn, change::throttling) && plain > 1) {
    const double from = whole * drawn.uniform({0.01, 0.1});
    add("throttled", fmt::format("\n[[host.emulate]]\nat_seconds = {:.1f}\ncompute_slowdown = {:.2f}\n"
                                 "\n[[host.emulate]]\nat_seconds = {:.1f}\ncompute_slowdown = 1\n",
                                 from, drawn.slow_factor_value, from * drawn.uniform({1.5, 4})));
  }
  if (changes_by(drawn, change::spot) && plain > 1)
    add("spot", fmt::format("leave_at_seconds = {:.1f}\n", whole * drawn.uniform({0.02, 0.2})));
  if (changes_by(drawn, change::spot) && plain > 1)
    add("late", fmt::format("join_at_seconds = {:.1f}\n", whole * drawn.uniform({0.02, 0.2})));
  text += host_text(drawn, directory, index, fmt::format("kind-{}", index), port, plain);
  port += plain;
  return text;
}

std::string cluster_text(drawing& drawn, const std::string& name, const std::string& policy_file) {
  std::string text = fmt::format(
      "# Drawn by `dynamix-node generate-scenarios`: change {}.\n\n[cluster]\nname = \"{}\"\nseed = 1\n\n"
      "[training]\noptimizer = \"sgd\"\nlearning_rate = 0.05\nepochs = {}\ntarget_accuracy = {:.6f}\n\n"
      "[batch]\ninitial = {}\nlowest = {}\nhighest = {}\n\n[arbitrator]\nmode = \"infer\"\n",
      change_names[static_cast<std::size_t>(drawn.kind_of_change)], name, 10000, drawn.learning.accuracy(target_epochs),
      drawn.initial, std::max(1U, drawn.initial / batch_factor_down), drawn.initial * batch_factor_up);
  if (!policy_file.empty())
    text += fmt::format("policy_file = \"{}\"\n", policy_file);
  text += fmt::format("\n[simulation]\nworkload = \"{}/workload.toml\"\ntopology = \"{}\"\nbandwidth_mbit = "
                      "{:.3f}\nlatency_us = {:.2f}\n"
                      "overlap = {:.3f}\nnoise = {:.4f}\nhiccup_rate = {:.4f}\n",
                      name, drawn.server ? "parameter-server" : "ring", drawn.bandwidth_mbit, drawn.latency_us,
                      drawn.overlap_value, drawn.jitter_value, drawn.hiccups);
  if (changes_by(drawn, change::cotenants))
    text += fmt::format("slow_every_seconds = {:.2f}\nslow_seconds = {:.2f}\nslow_factor = {:.3f}\n",
                        drawn.slow_every_seconds, drawn.slow_seconds_value, drawn.slow_factor_value);
  if (changes_by(drawn, change::congestion))
    text += fmt::format("congest_every_seconds = {:.2f}\ncongest_seconds = {:.2f}\ncongest_factor = {:.3f}\n",
                        drawn.slow_every_seconds, drawn.slow_seconds_value, drawn.slow_factor_value);
  text += "\n[[host]]\nname = \"north\"\nport = 7500\nroles = [\"arbitrator\"]\n";
  std::uint32_t port = 7501;
  for (std::size_t i = 0; i < drawn.kinds.size(); ++i)
    text += kind_text(drawn, name, i, port);
  return text;
}

} // namespace

std::optional<pinned_axis> pin_workers(std::uint64_t seed, std::uint32_t workers) {
  const auto group = distribution::worker_counts[seed % distribution::worker_counts.size()];
  if (workers < group.low || workers > group.high)
    return std::nullopt;
  return pinned_axis{.axis = generator_axis::workers,
                     .place = std::log(workers / group.low) / std::log(group.high / group.low)};
}

generated_scenario generate_scenario(generated_for purpose, std::uint64_t seed, const std::string& policy_file,
                                     const generator_limits& limits) {
  static constexpr std::array<std::string_view, 3> sizes{"2-8", "16-64", "128-512"};
  drawing drawn(purpose, seed, limits);
  generated_scenario made;
  made.name =
      fmt::format("{}-{:02}-{}-{}-{}", purpose == generated_for::test ? "test" : "training", seed,
                  drawn.changing ? "changing" : "steady", drawn.slow_steps ? "slow" : "fast", sizes[drawn.size_class]);
  made.files.push_back({made.name + ".toml", cluster_text(drawn, made.name, policy_file)});
  made.files.push_back({made.name + "/workload.toml", to_toml(drawn.learning)});
  for (std::size_t i = 0; i < drawn.kinds.size(); ++i)
    made.files.push_back({fmt::format("{}/kind-{}.toml", made.name, i), to_toml(profile_of(drawn, i))});
  return made;
}

std::string describe_generator_markdown() {
  struct row {
    std::string_view what;
    range within;
    std::string_view how;
  };
  static constexpr std::array rows{
      row{"workers", {2, 512}, "log-uniform in 2-8, 16-64 and 128-512, a third of the seeds each"},
      row{"seconds of a step on the fastest device at the initial batch size",
          {0.005, 10},
          "log-uniform below and above 0.224, half of the seeds each"},
      row{"kinds of device", {1, kinds_max}, "uniform"},
      row{"slowness of a kind", distribution::kind_slowness, "log-uniform"},
      row{"share of a step at the initial batch size that does not depend on it", distribution::fixed_share, "uniform"},
      row{"memory of half of the kinds, initial batch sizes", distribution::memory_factor,
          "log-uniform; the others hold all"},
      row{"log2 of the initial batch size; bounds at 1/8 and 16 times", distribution::initial_exponent, "uniform"},
      row{"noise scale at the start over the initial global batch", distribution::noise_over_batch, "log-uniform"},
      row{"exponent of its growth", distribution::noise_exponent, "uniform"},
      row{"steps of the initial batch to the target", distribution::steps, "log-uniform"},
      row{"MiB of gradients", distribution::gradient_mib, "log-uniform"},
      row{"exchange over computing at the initial batch size", distribution::exchange_share,
          "log-uniform; by a server in a quarter, else a ring"},
      row{"slowness of the links of 30 % of the kinds", distribution::link_slowness, "log-uniform"},
      row{"overlap of computing and exchange", distribution::overlap, "uniform"},
      row{"deviation of a step's logarithm", distribution::jitter, "log-uniform"},
      row{"windows with a hiccup", distribution::hiccup_rate, "uniform"},
      row{"seconds of a slow-down or congestion, bounded by 3 steps and 1/30 of the run", distribution::slow_seconds,
          "log-uniform"},
      row{"share of time that a host or link is slow", distribution::slow_share, "uniform"},
      row{"its highest factor", distribution::slow_factor, "log-uniform"},
  };
  std::string text = "| drawn | from | to | how |\n|---|---|---|---|\n";
  for (const auto& each : rows)
    text += fmt::format("| {} | {} | {} | {} |\n", each.what, each.within.low, each.within.high, each.how);
  return text + "\nA changing scenario, half of the seeds, has one of these, or all: co-tenants, throttling of one "
                "host a kind, a spot host a "
                "kind that leaves and one that\ncomes late, congestion.\n";
}

} // namespace dynamix::simulator
