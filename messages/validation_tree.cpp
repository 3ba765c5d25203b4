/// The messages of the tree (messages/tree.hpp).

#include "messages/checker.hpp"
#include "messages/validation.hpp"

#include <algorithm>
#include <cmath>
#include <string>

namespace dynamix::messages {
namespace {

constexpr std::uint32_t max_heartbeat_interval_ms = 3'600'000;
constexpr double log_probability_max = 1e-6; ///< rounding may push a probability above 1

std::string element(std::string_view name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

bool finite(const std::vector<float>& values) {
  return std::ranges::all_of(values, [](float one) { return std::isfinite(one); });
}

std::string fault_in(const worker_choice& value) {
  checker check;
  check.count("rank", value.rank, 0, max_workers - 1);
  check.count("assigned", value.assigned, 0, max_batch);
  check.count("batch", value.batch, 0, max_batch);
  check.count("proposed", value.proposed, 0, max_batch);
  check.require(value.vote >= -1 && value.vote < static_cast<std::int32_t>(max_actions), "vote", "is no action");
  check.require(!value.acted || value.vote >= 0, "acted", "is on no action");
  check.number("log_probability", value.log_probability, -unbounded, log_probability_max);
  check.number("value", value.value, -unbounded);
  check.count("state size", value.state.size(), 0, max_state_size);
  check.count("probabilities size", value.probabilities.size(), 0, max_actions);
  check.require(finite(value.state), "state", "holds numbers that are not finite");
  check.require(finite(value.probabilities), "probabilities", "holds numbers that are not finite");
  check.text("reason", value.reason, 0, max_text_length, lines::many);
  return check.take();
}

std::string fault_in(const global_sums& value) {
  checker check;
  for (const auto number :
       {value.reports, value.weight, value.accuracy, value.loss, value.iteration_seconds_max, value.noise_scale,
        value.noise_weight, value.global_batch, value.batch_lowest, value.batch_highest, value.compute_seconds,
        value.compute_seconds_max, value.speed, value.speed_reports})
    check.number("a sum", number, 0);
  return check.take();
}

} // namespace

std::string validate(const shard_hello& value) {
  checker check;
  check.count("protocol", value.protocol, 1, any);
  check.name("cluster", value.cluster);
  check.name("host", value.host);
  check.name("node", value.node);
  check.name("parent", value.parent);
  check.count("incarnation", value.incarnation, 1, any);
  check.count("heartbeat_interval_ms", value.heartbeat_interval_ms, 1, max_heartbeat_interval_ms);
  return check.take();
}

std::string validate(const absence& value) {
  checker check;
  check.count("rank", value.rank, 0, max_workers - 1);
  check.count("incarnation", value.incarnation, 1, any);
  check.text("detail", value.detail, 0, max_text_length, lines::many);
  return check.take();
}

std::string validate(const beat_summary& value) {
  checker check;
  check.name("node", value.node);
  check.count("beats size", value.beats.size(), 0, max_workers);
  for (std::size_t i = 0; i < value.beats.size(); ++i) {
    check.nested(element("beats", i), validate(value.beats[i]));
    check.require(i == 0 || value.beats[i].rank > value.beats[i - 1].rank, element("beats", i),
                  "does not come in the order of ranks");
  }
  return check.take();
}

std::string validate(const shard_window& value) {
  checker check;
  check.counter("window", value.window, 1);
  check.counter("generation", value.generation, 1);
  check.count("expected", value.expected, 0, max_workers);
  check.number("gather_seconds", value.gather_seconds, 0);
  check.number("decide_seconds", value.decide_seconds, 0);
  check.text("untrained", value.untrained, 0, max_text_length, lines::many);
  check.count("reports size", value.reports.size(), 0, value.expected);
  check.require(value.choices.size() == value.reports.size(), "choices", "are not one a report");
  for (std::size_t i = 0; i < std::min(value.reports.size(), value.choices.size()); ++i) {
    const auto& report = value.reports[i];
    check.nested(element("reports", i), validate(report));
    check.nested(element("choices", i), fault_in(value.choices[i]));
    check.require(report.generation == value.generation, element("reports", i), "is of another generation");
    check.require(report.window <= value.window, element("reports", i), "is of a later window");
    check.require(report.rank == value.choices[i].rank, element("choices", i), "is of another worker");
    check.require(i == 0 || report.rank > value.reports[i - 1].rank, element("reports", i),
                  "does not come in the order of ranks");
  }
  return check.take();
}

std::string validate(const guidance& value) {
  checker check;
  check.counter("generation", value.generation, 1);
  check.counter("window", value.window, 1);
  check.nested("sums", fault_in(value.sums));
  check.number("planned_total", value.planned_total, 0);
  check.number("assigned_total", value.assigned_total, 0);
  check.number("gain", value.gain, 0);
  check.number("surprise_largest", value.surprise_largest, -unbounded);
  check.number("exchange_over_step", value.exchange_over_step, 0, 1);
  check.number("noise_trend", value.noise_trend, 0);
  check.number("target_seconds", value.target_seconds, 0);
  check.text("intervention", value.intervention, 0, max_text_length, lines::many);
  check.text("reason", value.reason, 0, max_text_length, lines::many);
  check.count("workers size", value.workers.size(), 0, max_workers);
  for (std::size_t i = 0; i < value.workers.size(); ++i) {
    const auto& one = value.workers[i];
    check.count("planned", one.planned, 0, max_batch);
    check.count("ruled", one.ruled, 0, max_batch);
    check.count("rank", one.rank, 0, max_workers - 1);
    check.require(i == 0 || one.rank > value.workers[i - 1].rank, element("workers", i),
                  "does not come in the order of ranks");
  }
  return check.take();
}

std::string validate(const recipients& value) {
  checker check;
  check.ranks("ranks", value.ranks, 1, max_workers);
  return check.take();
}

std::string validate(const shard_order& value) {
  checker check;
  check.counter("term", value.term);
  check.ranks("leaving", value.leaving, 0, max_workers);
  check.text("reason", value.reason, 0, max_text_length, lines::many);
  return check.take();
}

} // namespace dynamix::messages
