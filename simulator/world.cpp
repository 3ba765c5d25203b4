#include "simulator/world.hpp"

#include "cluster/decision_steps.hpp"
#include "cluster/places.hpp"
#include "simulator/host_model.hpp"
#include "simulator/step_model.hpp"
#include "simulator/window_report.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>

namespace dynamix::simulator {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

} // namespace

struct world::state {
  scenario what;
  std::vector<host_model> hosts; // by position among the file's workers
  std::vector<std::size_t> present;
  simulator::learning learning;
  noise_scale_meter meter;
  double target_progress;
  std::uint64_t generation = 1;
  std::uint64_t window = 0;
  double now = 0;
  double progress = 0;
  std::uint64_t samples = 0;
  std::uint64_t steps = 0;
  double seconds_to_target = -1;
  double newest_step_seconds = 0;
  double evaluation_seconds = 0; ///< that one would take under the newest window's batch sizes
  std::string failure;
  // Of the moment, by rank.
  std::vector<double> cotenants; ///< slow-downs by episodes
  std::vector<double> emulated;  ///< slow-downs by the file's `emulate`
  std::vector<double> congestion;
  network links;
  // Of the step at hand, by rank.
  std::vector<double> work;
  std::vector<double> computing; ///< seconds from its beginning, slow-downs left out
  std::vector<double> slowdown;
  std::vector<double> computed;        ///< seconds of the newest step, slow-downs and all
  std::optional<shared_cores> sharing; ///< nothing: each has its own

  state(scenario given, std::uint64_t seed);
  /// Finds out who is there.
  void settle();
  /// Takes over what holds now.
  void observe();
  /// Starts a new one if others are there than before.
  void renew_generation();
  bool fits_memory(std::span<const std::uint32_t> batches);
  double time_evaluation(std::span<const std::uint32_t> batches);
  /// How a host that is `times` as slow without episodes gets on from now on, until so many seconds of work are done.
  slowdown_course course(std::size_t rank, double seconds_of_work, double times);
  /// Returns its seconds.
  double run_step(std::span<const double> curve_seconds, double total, std::vector<worker_sums>& sums);
  /// Runs steps under these batch sizes, and times them, alone or with those before.
  void run_steps(std::span<const std::uint32_t> batches, std::uint32_t steps, window_summary& summary,
                 std::vector<worker_sums>& sums, bool times_anew = true);
  void draw_hiccups();
  window_summary begin_window();
  void end_window(window_summary& summary, double progress_before);
  window_summary run_window(std::span<const std::uint32_t> batches, std::span<const std::uint32_t> settling,
                            std::vector<worker_sums>& sums);
};

world::state::state(scenario given, std::uint64_t seed)
    : what(std::move(given)), meter(random_stream(seed, what.profiles.size(), host_model::measuring)) {
  const auto workers = what.file.workers();
  for (std::size_t i = 0; i < workers.size(); ++i)
    hosts.emplace_back(what, *workers[i], i, seed);
  const double target = what.file.training.target_accuracy;
  target_progress = target > 0 && what.workload.evaluation_samples == 0 ? what.workload.progress_for(target) : never;
  if (target_progress == 0)
    seconds_to_target = 0;
  settle();
}

void world::state::settle() {
  present.clear();
  for (std::size_t i = 0; i < hosts.size(); ++i)
    if (hosts[i].present(now))
      present.push_back(i);
  if (present.empty())
    failure = fmt::format("no host is there at {} s", now);
  const auto& training = what.file.training;
  learning = {.rule = training.rule,
              .adaptive = training.optimizer != cluster::optimizer_kind::sgd,
              .initial_batch = static_cast<double>(what.file.batch.initial) * cluster::base_workers(what.file),
              .reference_batch = what.workload.reference_batch};
  for (auto* each : {&cotenants, &emulated, &congestion, &work, &computing, &slowdown, &computed})
    each->assign(present.size(), 1);
  const auto& options = what.file.simulation;
  if (options.cores > 0)
    sharing.emplace(options.cores, present.size());
  links = {.hosts = {},
           .shares = {},
           .workers = present.size(),
           .gradient_bytes = (what.workload.gradient_mib - what.workload.sparse_mib) * 1024 * 1024,
           .latency_seconds = options.latency_us * 1e-6,
           .loss_rate = options.loss_rate,
           .compression = training.compression,
           .sparse = what.workload.sparse_load()};
  const bool one_server = options.topology == cluster::topology_kind::parameter_server;
  links.hosts.assign(present.size(), {.link_rate = 0, .serves = !one_server});
  if (one_server)
    links.hosts.push_back({.link_rate = options.bandwidth_mbit * 1e6 / 8, .works = false});
  for (const auto* member : what.file.members())
    if (!one_server && member->only_serves())
      links.hosts.push_back({.link_rate = link_rate(what.file, *member), .works = false});
  observe();
  links.shares = planned_shares(links.hosts, one_server ? cluster::exchange_kind::parameter_server : training.exchange);
}

void world::state::observe() {
  for (std::size_t rank = 0; rank < present.size(); ++rank) {
    auto& host = hosts[present[rank]];
    cotenants[rank] = host.slow_downs.at(now);
    emulated[rank] = host.emulated_slowdown(now);
    congestion[rank] = host.congestions.at(now);
    links.hosts[rank].link_rate = host.bandwidth / congestion[rank];
  }
}

void world::state::renew_generation() {
  std::size_t rank = 0;
  bool same = true;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const bool was_present = rank < present.size() && present[rank] == i;
    same = same && hosts[i].present(now) == was_present;
    rank += was_present ? 1 : 0;
  }
  if (same)
    return;
  ++generation;
  now += restart_seconds;
  settle();
}

bool world::state::fits_memory(std::span<const std::uint32_t> batches) {
  for (std::size_t rank = 0; rank < present.size() && failure.empty(); ++rank) {
    const auto& host = hosts[present[rank]];
    if (batches[rank] > host.fits)
      failure = fmt::format("out of memory on host {}: batch {}, {} fit", host.host->name, batches[rank], host.fits);
  }
  return failure.empty();
}

double world::state::time_evaluation(std::span<const std::uint32_t> batches) {
  const double samples = what.workload.evaluation_samples;
  if (samples == 0)
    return 0;
  const double total = std::accumulate(batches.begin(), batches.end(), 0.0);
  for (std::size_t rank = 0; rank < present.size(); ++rank)
    work[rank] = samples * batches[rank] / total * hosts[present[rank]].profile->evaluation_seconds;
  const std::vector<double> at_once(present.size());
  share_cores(at_once, work, what.file.simulation.cores, computing);
  double longest = 0;
  for (std::size_t rank = 0; rank < present.size(); ++rank)
    longest = std::max(longest, course(rank, computing[rank], emulated[rank]).seconds(computing[rank]));
  return longest;
}

slowdown_course world::state::course(std::size_t rank, double seconds_of_work, double times) {
  return sharing ? times * cotenants[rank] : hosts[present[rank]].slow_downs.course(now, seconds_of_work, times);
}

double world::state::run_step(std::span<const double> curve_seconds, double total, std::vector<worker_sums>& sums) {
  observe();
  const auto& options = what.file.simulation;
  for (std::size_t rank = 0; rank < present.size(); ++rank) {
    auto& host = hosts[present[rank]];
    computing[rank] = work[rank] = curve_seconds[rank] * std::exp(options.noise * host.noise.normal());
    slowdown[rank] = cotenants[rank] * host.hiccup * emulated[rank];
  }
  const double exchange = exchange_seconds(links);
  double shared_seconds = 0;
  if (sharing)
    shared_seconds = sharing->step_seconds(work, slowdown, exchange, options.overlap, computing);
  double longest = 0;
  for (std::size_t rank = 0; rank < present.size(); ++rank) {
    auto& sum = sums[rank];
    const double times = hosts[present[rank]].hiccup * emulated[rank];
    const double seconds = course(rank, computing[rank], times).seconds(computing[rank]);
    const double contended = seconds / emulated[rank];
    sum.work += work[rank];
    sum.queued += contended - work[rank];
    sum.computing += seconds;
    computed[rank] = seconds;
    sum.congestion += congestion[rank];
    longest = std::max(longest, seconds);
  }
  const double seconds = sharing ? shared_seconds : step_seconds(longest, exchange, options.overlap);
  const double before = progress;
  progress += total * learning.efficiency(what.workload.phi(progress), total) / what.workload.epoch_samples;
  if (seconds_to_target < 0 && progress >= target_progress)
    seconds_to_target = now + (target_progress - before) / (progress - before) * seconds;
  now += seconds;
  ++steps;
  newest_step_seconds = seconds;
  return seconds;
}

void world::state::run_steps(std::span<const std::uint32_t> batches, std::uint32_t count, window_summary& summary,
                             std::vector<worker_sums>& sums, bool times_anew) {
  std::vector<double> curve_seconds(present.size());
  for (std::size_t rank = 0; rank < present.size(); ++rank) {
    curve_seconds[rank] = hosts[present[rank]].profile->curve.seconds(batches[rank]);
    sums[rank].samples += std::uint64_t{batches[rank]} * count;
    if (times_anew)
      sums[rank].computing = 0;
  }
  if (times_anew) {
    summary.timed_steps = 0;
    summary.timed_seconds = 0;
  }
  summary.timed_steps += count;
  summary.global_batch = std::accumulate(batches.begin(), batches.end(), std::uint64_t{0});
  links.sparse.longest = what.workload.rows_of(*std::ranges::max_element(batches));
  links.sparse.together = what.workload.rows_of(static_cast<double>(summary.global_batch));
  for (std::uint32_t i = 0; i < count; ++i) {
    const double seconds = run_step(curve_seconds, static_cast<double>(summary.global_batch), sums);
    summary.timed_seconds += seconds;
    summary.seconds += seconds;
  }
  samples += summary.global_batch * count;
}

/// Absent hosts too, and at every so many steps, whenever windows close: a host's hiccups depend on nothing else.
void world::state::draw_hiccups() {
  if (steps % what.file.arbitrator.window_steps == 0)
    for (auto& host : hosts)
      host.draw_hiccup(what.file.simulation.hiccup_rate);
}

window_summary world::state::begin_window() {
  draw_hiccups();
  return {.window = ++window,
          .generation = generation,
          .workers = present.size(),
          .first_step = steps,
          .steps = what.file.arbitrator.window_steps};
}

void world::state::end_window(window_summary& summary, double progress_before) {
  summary.samples = samples;
  summary.elapsed_seconds = now;
  summary.accuracy = what.workload.accuracy((progress_before + progress) / 2);
  summary.phi = what.workload.phi(progress);
  summary.measured_phi = meter.measure(summary.phi, what.workload.phi_noise, summary.steps);
  summary.sent_bytes = sent_bytes(links);
}

window_summary world::state::run_window(std::span<const std::uint32_t> batches, std::span<const std::uint32_t> settling,
                                        std::vector<worker_sums>& sums) {
  auto summary = begin_window();
  const double progress_before = progress;
  std::uint32_t left = summary.steps;
  if (!settling.empty() && !std::ranges::equal(settling, batches)) {
    run_steps(settling, cluster::settle_steps(left), summary, sums);
    left -= cluster::settle_steps(left);
  }
  run_steps(batches, left, summary, sums);
  end_window(summary, progress_before);
  return summary;
}

world::world(scenario what, std::uint64_t seed) : state_(std::make_unique<state>(std::move(what), seed)) {}
world::world(world&&) noexcept = default;
world::~world() = default;

messages::shard_report world::run_window(std::span<const std::uint32_t> batches, messages::decision_key in_force,
                                         std::span<const std::uint32_t> settling) {
  auto& now = *state_;
  if (batches.size() != now.present.size() || std::ranges::count(batches, 0U) > 0 ||
      (!settling.empty() && settling.size() != batches.size()))
    throw std::invalid_argument(
        fmt::format("a window needs one batch size above 0 for each of {} workers", now.present.size()));
  if (!now.failure.empty() || !now.fits_memory(batches))
    return {};
  std::vector<worker_sums> sums(now.present.size());
  const auto summary = now.run_window(batches, settling, sums);
  return report(summary, sums, batches, in_force);
}

messages::shard_report world::run_window(const std::function<std::vector<std::uint32_t>()>& choose,
                                         const messages::decision_key& in_force) {
  auto& now = *state_;
  if (!now.failure.empty())
    return {};
  std::vector<worker_sums> sums(now.present.size());
  std::vector<std::uint32_t> batches;
  auto summary = now.begin_window();
  const double progress_before = now.progress;
  for (std::uint32_t step = 0; step < summary.steps; ++step) {
    if (step > 0)
      now.draw_hiccups();
    now.observe();
    auto chosen = choose();
    if (!now.fits_memory(chosen))
      return {};
    const bool changed = chosen != batches;
    batches = std::move(chosen);
    now.run_steps(batches, 1, summary, sums, changed);
  }
  now.end_window(summary, progress_before);
  return report(summary, sums, batches, in_force);
}

messages::shard_report world::report(const window_summary& summary, std::span<const worker_sums> sums,
                                     std::span<const std::uint32_t> batches, messages::decision_key in_force) {
  auto& now = *state_;
  const report_writer writer(now.what, now.learning, summary);
  messages::shard_report shard{.window = summary.window,
                               .generation = summary.generation,
                               .expected = static_cast<std::uint32_t>(now.present.size())};
  shard.reports.reserve(now.present.size());
  for (std::size_t rank = 0; rank < now.present.size(); ++rank) {
    const auto position = now.present[rank];
    auto& host = now.hosts[position];
    shard.reports.push_back(writer.write(
        {.host = *host.host, .rank = static_cast<std::uint32_t>(position), .batch = batches[rank], .sums = sums[rank]},
        host.measurements));
    shard.reports.back().decision = in_force;
  }
  now.observe();
  now.evaluation_seconds = now.time_evaluation(batches);
  now.renew_generation();
  return shard;
}

evaluation world::evaluate(random_stream& numbers) {
  auto& now = *state_;
  const auto& workload = now.what.workload;
  const double accuracy = std::clamp(this->accuracy() + workload.accuracy_noise * numbers.normal(), 0.0, 1.0);
  now.now += now.evaluation_seconds;
  const double target = now.what.file.training.target_accuracy;
  if (workload.evaluation_samples > 0 && target > 0 && now.seconds_to_target < 0 && accuracy >= target)
    now.seconds_to_target = now.now;
  return {.accuracy = accuracy, .seconds = now.evaluation_seconds};
}

const std::vector<std::size_t>& world::present() const {
  return state_->present;
}

std::uint64_t world::generation() const {
  return state_->generation;
}

truth world::look() const {
  const auto& now = *state_;
  truth seen{.cores = now.what.file.simulation.cores,
             .exchange_seconds = exchange_seconds(now.links),
             .overlap = now.what.file.simulation.overlap,
             .phi = now.what.workload.phi(now.progress),
             .learning = now.learning};
  for (std::size_t rank = 0; rank < now.present.size(); ++rank) {
    const auto& host = now.hosts[now.present[rank]];
    seen.profiles.push_back(host.profile);
    seen.slowdown.push_back(now.cotenants[rank] * now.emulated[rank]);
    seen.highest.push_back(std::min(now.what.file.batch.highest, host.fits));
  }
  return seen;
}

truth world::look_at_step() {
  auto& now = *state_;
  auto seen = look();
  for (std::size_t rank = 0; rank < now.present.size(); ++rank) {
    const auto& host = now.hosts[now.present[rank]];
    seen.slowdown[rank] =
        now.course(rank, host.profile->curve.seconds(seen.highest[rank]), now.emulated[rank] * host.hiccup);
  }
  return seen;
}

const std::vector<double>& world::computed_seconds() const {
  return state_->computed;
}

double world::newest_step_seconds() const {
  return state_->newest_step_seconds;
}

double world::now_seconds() const {
  return state_->now;
}
double world::progress() const {
  return state_->progress;
}
double world::accuracy() const {
  return state_->what.workload.accuracy(state_->progress);
}
std::uint64_t world::samples() const {
  return state_->samples;
}
std::uint64_t world::steps() const {
  return state_->steps;
}
double world::epochs() const {
  return static_cast<double>(state_->samples) / state_->what.workload.epoch_samples;
}
double world::seconds_to_target() const {
  return state_->seconds_to_target;
}
const std::string& world::failure() const {
  return state_->failure;
}
const scenario& world::what() const {
  return state_->what;
}

} // namespace dynamix::simulator
