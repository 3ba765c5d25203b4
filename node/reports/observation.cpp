#include "node/reports/observation.hpp"

#include "node/experiments/statistics.hpp"
#include "node/reports/text.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <numeric>
#include <utility>

namespace dynamix::node {
namespace {

using json = nlohmann::ordered_json;

constexpr double seconds_max = 86'400;
constexpr std::uint32_t batch_max = 1U << 20;
constexpr std::size_t points_max = 64;
constexpr std::size_t parts_max = 64;
constexpr std::size_t parts_min = 4; ///< by which an error is known
constexpr std::size_t lines_max = 8;
constexpr std::size_t words_max = 256;
constexpr double line_width = 1.25;   ///< as policy/pace_tracker's
constexpr double noticed_gain = 1.05; ///< below it nothing is to be gained
constexpr double sure_errors = 2;     ///< standard errors that a gain has to exceed
constexpr double noticed_share = 0.1; ///< of a step
constexpr double cause_share = 0.5;   ///< of what one computes longer than the others, that a wait explains
constexpr double slow_factor = 1.1;   ///< times the median's seconds per sample
constexpr double off_estimate = 0.1;  ///< beyond it the comparison says why

double bounded_seconds(const json& number) {
  const auto value = number.get<double>();
  return std::isfinite(value) ? std::clamp(value, 0.0, seconds_max) : 0;
}

/// t(b) near an even share, as a line.
policy::pace_estimate line_of(const observed_worker& worker, double share) {
  auto points = worker.points;
  const auto is_near = [&](const auto& point) { // its difference to the usual batch size is noise, and no slope
    return point.batch != worker.batch && point.batch * line_width > worker.batch &&
           point.batch < worker.batch * line_width;
  };
  std::erase_if(points, is_near);
  if (points.empty())
    points = worker.points;
  if (points.size() == 1)
    points.push_back({2 * points.front().batch, 2 * points.front().seconds});
  const std::vector<double> weights(points.size(), 1);
  const policy::step_time_curve curve(policy::make_monotone(std::move(points), weights));
  const double slope = (curve.seconds(share * line_width) - curve.seconds(share / line_width)) /
                       (share * line_width - share / line_width);
  return policy::checked({.fixed_seconds = curve.seconds(share) - slope * share, .sample_seconds = slope, .error = 0});
}

double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

std::string in_milliseconds(double seconds) {
  return fixed(seconds * 1e3, seconds < 0.01 ? 2 : 1);
}

double pace_of(const observed_worker& worker) {
  return worker.batch > 0 ? worker.compute_seconds / worker.batch : 0;
}

/// Of a step's computing, when no CPU was free; 0 where that is not known.
double waited_seconds(const observed_worker& worker) {
  return worker.cpu_wait_share.value_or(0) * worker.compute_seconds;
}

/// Why one computes longer than the others, as far as its agent has seen. `pace`: seconds per sample of the others.
std::string cause_of(const observed_worker& worker, double pace) {
  if (!worker.cpu_wait_share)
    return "its agent has measured nothing that says why";
  const auto waited = waited_seconds(worker);
  const bool explains = waited > cause_share * (worker.compute_seconds - pace * worker.batch);
  return fmt::format("{}no CPU was free for it for {} ms of that",
                     explains ? "" : "its processor is that much slower, or the script does more there; ",
                     in_milliseconds(waited));
}

/// What is measured on a busy machine is what is done to it, and comes first.
void tell_busy(const observation& seen, std::vector<std::string>& told) {
  std::vector<const observed_worker*> waiting;
  for (const auto& worker : seen.workers)
    if (waited_seconds(worker) > noticed_share * worker.step_seconds)
      waiting.push_back(&worker);
  if (!waiting.empty())
    told.push_back(fmt::format(
        "the machine was busy: of each step's computing no CPU was free for {}. Other programs, more threads than CPUs "
        "or a quota do that, and all that follows holds beside them alone",
        listed(waiting, [](const auto* worker) {
          return fmt::format("{} of {} ms for {}", in_milliseconds(waited_seconds(*worker)),
                             in_milliseconds(worker->compute_seconds), worker->name);
        })));
}

void tell_slow(const observation& seen, std::vector<std::string>& told) {
  std::vector<double> paces;
  for (const auto& worker : seen.workers)
    paces.push_back(pace_of(worker));
  const double usual = middle_of(paces);
  for (const auto& worker : seen.workers)
    if (usual > 0 && pace_of(worker) > slow_factor * usual)
      told.push_back(fmt::format(
          "{} is slow: it computes {} ms per step, {} times as long per sample as the median worker; {}", worker.name,
          in_milliseconds(worker.compute_seconds), fixed(pace_of(worker) / usual, 1), cause_of(worker, usual)));
  for (const auto& worker : seen.workers)
    if (worker.data_seconds > noticed_share * worker.step_seconds)
      told.push_back(
          fmt::format("{} waits {} ms of each step for its data loader: more num_workers, or less work per sample",
                      worker.name, in_milliseconds(worker.data_seconds)));
  const auto least = std::ranges::min_element(seen.workers, {}, &observed_worker::exchange_seconds);
  if (least->exchange_seconds > noticed_share * least->step_seconds)
    told.push_back(fmt::format("the exchange of gradients itself takes {} ms of each step: nobody waits less than {}",
                               in_milliseconds(least->exchange_seconds), least->name));
}

void tell_gain(const observation& seen, std::vector<std::string>& told) {
  if (seen.gain < noticed_gain) {
    told.push_back(seen.gain <= 1
                       ? "equal batches cost nothing here: no other shares of the same global batch would be faster"
                       : fmt::format("equal batches cost nothing here that would be noticed: other shares of the same "
                                     "global batch would give {} times as many samples per second (estimated)",
                                     fixed(seen.gain, 2)));
    return;
  }
  const double error = sure_errors * seen.gain_error.value_or(seen.gain);
  if (seen.gain - error <= 1) {
    told.push_back(fmt::format("that equal batches cost anything is not sure: other shares of the same global batch "
                               "would give {} times as many samples per second, {}; observe more steps, or a quieter "
                               "machine",
                               fixed(seen.gain, 2),
                               seen.gain_error ? fmt::format("but parts of the run differ by so much that it may be "
                                                             "anything from {} to {}",
                                                             fixed(std::max(0.0, seen.gain - error), 2),
                                                             fixed(seen.gain + error, 2))
                                               : "but too few steps were seen to say how surely"));
    return;
  }
  const auto& lines = seen.workers.front().lines;
  told.push_back(fmt::format("equal batches cost {} % of the samples per second; {} would give {} times as many "
                             "({} to {}, estimated; {} samples per step shared as {}){}",
                             fixed(100 * (1 - 1 / seen.gain), 0), lines.size() == 1 ? "one line" : "two lines",
                             fixed(seen.gain, 2), fixed(seen.gain - error, 2), fixed(seen.gain + error, 2),
                             std::accumulate(seen.batches.begin(), seen.batches.end(), 0U),
                             listed(seen.batches, [](auto batch) { return std::to_string(batch); }),
                             lines.empty() ? "" : "; here they are:"));
  for (const auto& line : lines)
    told.push_back("    " + printable(line));
}

/// How many times shorter a step gets where the slowest one's computing takes `after` in place of `before`.
double gain_of(double step_seconds, double computing_seconds, double before, double after) {
  const double gone = before > 0 ? 1 - after / before : 0;
  return step_seconds / (step_seconds - std::min(computing_seconds, step_seconds) * gone);
}

double along(const policy::pace_estimate& pace, double batch) {
  return pace.fixed_seconds + pace.sample_seconds * batch;
}

/// Of the gain, by those that the same shares would give in each part of the run; nothing where there are too few.
std::optional<double> error_of(const observation& seen, const std::vector<policy::balanced_worker>& balanced) {
  std::vector<double> gains;
  for (std::size_t part = 0; part < seen.workers.front().parts.size(); ++part) {
    double step_seconds = 0;
    double computing_seconds = 0;
    double after = 0;
    bool known = true;
    for (std::size_t i = 0; i < seen.workers.size() && known; ++i) {
      const auto& worker = seen.workers[i];
      const auto& pace = balanced[i].pace;
      const auto mean = part < worker.parts.size() ? worker.parts[part] : observed_part();
      known = mean.step_seconds > 0 && mean.compute_seconds > 0;
      step_seconds += mean.step_seconds / static_cast<double>(seen.workers.size());
      computing_seconds = std::max(computing_seconds, mean.compute_seconds);
      const double line = along(pace, worker.batch);
      known = known && line > 0;
      if (known)
        after = std::max(after, mean.compute_seconds / line * along(pace, seen.batches[i]));
    }
    if (known)
      gains.push_back(gain_of(step_seconds, computing_seconds, computing_seconds, after));
  }
  if (gains.size() < parts_min)
    return std::nullopt;
  return standard_deviation(gains) / std::sqrt(static_cast<double>(gains.size()));
}

} // namespace

std::optional<observed_worker> parse_observed_worker(const std::string& text, const std::string& name) {
  try {
    const auto object = json::parse(text);
    observed_worker worker{.name = name};
    worker.steps = object.at("steps").get<std::uint64_t>();
    worker.batch = std::min(object.at("batch").get<std::uint32_t>(), batch_max);
    worker.step_seconds = bounded_seconds(object.at("step_seconds"));
    worker.compute_seconds = bounded_seconds(object.at("compute_seconds"));
    worker.exchange_seconds = bounded_seconds(object.at("exchange_seconds"));
    worker.data_seconds = bounded_seconds(object.at("data_seconds"));
    worker.observing_seconds = bounded_seconds(object.at("observing_seconds"));
    worker.other_models = object.at("other_models").get<std::uint64_t>();
    worker.problem = printable(object.at("problem").get<std::string>());
    for (const auto& point : object.at("points")) {
      const policy::step_time next{point.at(0).get<double>(), point.at(1).get<double>()};
      const bool rises = worker.points.empty() ? next.batch >= 1 : next.batch > worker.points.back().batch;
      if (rises && next.batch <= batch_max && next.seconds > 0 && next.seconds <= seconds_max &&
          worker.points.size() < points_max)
        worker.points.push_back(next);
    }
    for (const auto& part : object.at("parts"))
      if (worker.parts.size() < parts_max)
        worker.parts.push_back({bounded_seconds(part.at(0)), bounded_seconds(part.at(1))});
    for (const auto& line : object.at("lines"))
      if (worker.lines.size() < lines_max)
        worker.lines.push_back(printable(line.get<std::string>()));
    return worker;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

observation observe(std::vector<observed_worker> workers) {
  observation seen{.workers = std::move(workers)};
  double step_seconds = 0;
  double computing_seconds = 0; // of the slowest
  std::uint64_t total = 0;
  for (const auto& worker : seen.workers) {
    total += worker.batch;
    step_seconds += worker.step_seconds / static_cast<double>(seen.workers.size());
    computing_seconds = std::max(computing_seconds, worker.compute_seconds);
  }
  for (const auto& worker : seen.workers)
    if (worker.points.empty() || step_seconds <= 0)
      return seen;
  const double share = static_cast<double>(total) / static_cast<double>(seen.workers.size());
  std::vector<policy::balanced_worker> balanced;
  double slowest_seconds = 0; // along the curves, as it is
  for (const auto& worker : seen.workers) {
    const auto pace = line_of(worker, share);
    slowest_seconds = std::max(slowest_seconds, along(pace, worker.batch));
    balanced.push_back({.pace = pace, .batch = worker.batch, .lowest = 1, .highest = batch_max});
  }
  const auto shared = policy::balance(total, balanced);
  seen.samples_per_second = static_cast<double>(total) / step_seconds;
  seen.batches = shared.batches;
  if (shared.reason == policy::balance_reason::moved || shared.reason == policy::balance_reason::evened) {
    seen.gain = std::max(1.0, gain_of(step_seconds, computing_seconds, slowest_seconds, shared.slowest_seconds));
    seen.gain_error = error_of(seen, balanced);
  }
  return seen;
}

std::vector<std::string> to_sentences(const observation& seen) {
  std::vector<std::string> told;
  for (const auto& worker : seen.workers) {
    if (!worker.problem.empty())
      told.push_back(fmt::format("{}: its agent was not told of its steps: {}", worker.name, worker.problem));
    if (worker.other_models > 0 && &worker == &seen.workers.front())
      told.push_back(fmt::format("of {} DistributedDataParallel models of a process the first is observed",
                                 worker.other_models + 1));
  }
  if (seen.samples_per_second <= 0) {
    told.emplace_back("too few steps were observed to say who is slow (some twenty are enough)");
    return told;
  }
  tell_busy(seen, told);
  tell_slow(seen, told);
  tell_gain(seen, told);
  return told;
}

std::string observed_table(const observation& seen) {
  std::string text = fmt::format("{:<16} {:>6} {:>9} {:>12} {:>11} {:>9} {:>11}\n", "worker", "batch", "step ms",
                                 "compute ms", "waiting ms", "data ms", "observing");
  for (const auto& worker : seen.workers) {
    const double training = worker.step_seconds * static_cast<double>(worker.steps);
    text += fmt::format("{:<16} {:>6} {:>9} {:>12} {:>11} {:>9} {:>11}\n", worker.name, worker.batch,
                        in_milliseconds(worker.step_seconds), in_milliseconds(worker.compute_seconds),
                        in_milliseconds(worker.exchange_seconds), in_milliseconds(worker.data_seconds),
                        training > 0 ? percent(worker.observing_seconds / training) : "-");
  }
  return text;
}

std::string to_json(const kept_estimate& kept) {
  const json object = {{"command", kept.command},
                       {"workers", kept.workers},
                       {"samples_per_second", kept.samples_per_second},
                       {"gain", kept.gain}};
  return object.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<kept_estimate> parse_kept_estimate(const std::string& text) {
  try {
    const auto object = json::parse(text);
    kept_estimate kept{.command = object.at("command").get<std::vector<std::string>>(),
                       .workers = object.at("workers").get<std::uint64_t>(),
                       .samples_per_second = object.at("samples_per_second").get<double>(),
                       .gain = object.at("gain").get<double>()};
    const bool possible = kept.samples_per_second > 0 && kept.gain >= 1 && kept.command.size() <= words_max;
    return possible ? std::optional(kept) : std::nullopt;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

std::string compare(const kept_estimate& kept, double samples_per_second) {
  const double gained = samples_per_second / kept.samples_per_second;
  const double off = gained / kept.gain - 1;
  return fmt::format(
      "observed before it joined, at equal batches: {} samples/s, and {} times as many were estimated; now {} "
      "samples/s, {} times as many ({} % {} the estimate{})",
      fixed(kept.samples_per_second, 0), fixed(kept.gain, 2), fixed(samples_per_second, 0), fixed(gained, 2),
      fixed(std::abs(100 * off), 0), off < 0 ? "below" : "above",
      std::abs(off) > off_estimate ? ", which was made at the same global batch and speeds of hosts" : "");
}

} // namespace dynamix::node
