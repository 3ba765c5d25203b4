/// What workers report, honest ones and liars, over some windows, to decisions: of every policy, of one arbitrator or
/// of a tree's shard and root. Reports go through the codec as over the network or, to try the arithmetic alone,
/// straight to the deliberation.
///
/// Bytes: the policy's place among `arbiters`; how many workers, and by which way; then for each worker in each window
/// how many of its numbers are lies, and for each lie which one and what it says. 0 is an honest report.

#include "cluster/decision_steps.hpp"
#include "ledger/codec.hpp"
#include "messages/codec.hpp"
#include "messages/fields.hpp"
#include "messages/validation.hpp"
#include "policy/controller.hpp"
#include "policy/deliberation.hpp"
#include "tests/fuzz/described_file.hpp"
#include "tests/fuzz/targets.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::fuzz {
namespace {

constexpr std::uint32_t lowest = 16;
constexpr std::uint32_t window_steps = 20;
constexpr std::uint64_t windows_most = 48;
constexpr std::uint32_t workers_least = 2;
constexpr std::uint32_t workers_most = 6;
constexpr std::uint8_t straight_flag = 8;
constexpr std::uint8_t tree_flag = 16;

/// Sections of cluster files.
constexpr std::array arbiters = {
    "policy = \"static\"",
    "policy = \"static-best\"\nstatic_batch = 400",
    "policy = \"lb-bsp\"",
    "policy = \"omnilearn\"",
    "policy = \"goodput\"",
    "policy = \"goodput\"\nbalance = \"off\"",
    "policy = \"lb-bsp\"\nshadow = true",
    "policy = \"stigmergic\"",
    "policy = \"ppo\"\nmode = \"train\"",
    "policy = \"lb-bsp\"\nbalance = \"on\"",
    "policy = \"ppo\"\nmode = \"infer\"\nbalance = \"off\"",
    "policy = \"ppo\"\nmode = \"train\"\nguard = false",
    "policy = \"ppo-add\"\nmode = \"train\"\nguard = false",
    "policy = \"ppo-simple\"\nmode = \"train\"",
};

const cluster::cluster_file& file_of(std::size_t arbiter) {
  static const auto files = [] {
    std::vector<cluster::cluster_file> all;
    for (const auto* section : arbiters) {
      std::string text = "[cluster]\nname = \"fuzz\"\n[batch]\ninitial = 64\nlowest = 16\nhighest = 512\n"
                         "[ppo]\nhidden = 4\nhorizon = 2\n[arbitrator]\nwindow_steps = 20\n";
      text += section;
      for (std::uint32_t rank = 0; rank < workers_most; ++rank)
        text += "\n[[host]]\nname = \"w" + std::to_string(rank) + "\"\nport = " + std::to_string(rank + 1) +
                "\nbatch_highest = " + std::to_string(512 - 64 * rank) +
                (rank == 0 ? "\nroles = [\"worker\", \"arbitrator\"]" : "");
      const auto read = cluster::parse_cluster_text(text, "fuzz.toml");
      for (const auto& error : read.errors)
        require(false, error.message.c_str());
      all.push_back(read.file);
    }
    return all;
  }();
  return files[arbiter % files.size()];
}

/// Zeros behind the end.
class byte_source {
public:
  explicit byte_source(byte_span bytes) : bytes_(bytes) {}
  bool empty() const { return at_ >= bytes_.size(); }
  std::uint8_t next() { return empty() ? 0 : bytes_[at_++]; }

private:
  byte_span bytes_;
  std::size_t at_ = 0;
};

template <class T>
T lie_of(std::uint8_t which, T truth) {
  using limits = std::numeric_limits<T>;
  if constexpr (std::is_floating_point_v<T>) {
    const std::array<T, 14> lies = {limits::quiet_NaN(),
                                    limits::infinity(),
                                    -limits::infinity(),
                                    limits::max(),
                                    limits::lowest(),
                                    limits::denorm_min(),
                                    limits::min(),
                                    T{0},
                                    T{-1},
                                    T{1e300},
                                    T{1e-300},
                                    T{86400},
                                    truth * 1000,
                                    truth / 1000};
    return lies[which % lies.size()];
  } else {
    const std::array<T, 8> lies = {T{0},
                                   T{1},
                                   limits::max(),
                                   static_cast<T>(limits::max() / 2),
                                   static_cast<T>(std::uint64_t{1} << 40U),
                                   static_cast<T>(messages::max_counter),
                                   static_cast<T>(truth + 1),
                                   static_cast<T>(truth * 1000)};
    return lies[which % lies.size()];
  }
}

/// Puts a lie in the place of the number of this place, of those that a worker may choose: the connection tells whose
/// report it is, and of which generation.
template <class T>
void tell_lie(T& value, std::size_t& place, std::uint8_t which) {
  messages::for_each_field(value, [&]<class Field>(const std::string_view name, Field& field) {
    if (name == "rank" || name == "generation")
      return;
    if constexpr (std::is_same_v<Field, bool>) {
      if (place-- == 0)
        field = !field;
    } else if constexpr (std::is_arithmetic_v<Field>) {
      if (place-- == 0)
        field = lie_of(which, field);
    } else if constexpr (std::is_class_v<Field> && !std::is_same_v<Field, std::string>) {
      tell_lie(field, place, which);
    }
  });
}

template <class T>
std::size_t count_numbers(const T& value) {
  auto copy = value;
  std::size_t place = std::numeric_limits<std::size_t>::max();
  tell_lie(copy, place, 0);
  return std::numeric_limits<std::size_t>::max() - place;
}

messages::window_report honest_report(std::uint32_t rank, std::uint64_t window, std::uint32_t batch,
                                      std::uint64_t global_batch) {
  messages::window_report report{.host = "w" + std::to_string(rank),
                                 .rank = rank,
                                 .generation = 1,
                                 .window = window,
                                 .first_step = (window - 1) * window_steps,
                                 .batch = batch,
                                 .global_batch = global_batch};
  if (window > 1)
    report.decision = {.term = 1, .window = window - 1};
  const double seconds = 0.01 + 0.0002 * (rank + 1) * batch;
  report.training = {.steps = window_steps,
                     .samples = std::uint64_t{window_steps} * batch,
                     .accuracy = 0.5,
                     .loss = 1,
                     .iteration_seconds = seconds + 0.05,
                     .compute_seconds = seconds,
                     .exchange_seconds = 0.05,
                     .gradient_valid = true,
                     .sigma_norm = 2,
                     .sigma2_norm = 4,
                     .gradient_norm = 1,
                     .noise_scale = 500,
                     .learning_rate = 0.1};
  report.network = {.valid = true,
                    .throughput_bytes_per_second = 1e8,
                    .rtt_seconds = 1e-4,
                    .source = messages::signal_source::unprivileged};
  report.system = {.valid = true, .cpu_time_ratio = 1, .source = messages::signal_source::unprivileged};
  return report;
}

/// As it arrives over the network; nothing where it is refused.
std::optional<messages::window_report> send(const messages::window_report& report) {
  const auto encoded = messages::encode(report);
  if (!encoded)
    return std::nullopt;
  const auto decoded = messages::decode(*encoded);
  require(static_cast<bool>(decoded), "what is sent is taken");
  return std::get<messages::window_report>(*decoded);
}

class arbitrated_cluster {
public:
  arbitrated_cluster(const cluster::cluster_file& file, std::uint32_t workers, bool straight, bool tree)
      : file_(file), highest_(file.highest_by_rank()), straight_(straight), tree_(tree),
        own_(file, policy::make_controller(file, {})) {
    batches_.assign(workers, file.batch.initial);
    latest_.resize(workers);
    if (tree_) {
      root_.emplace(file, policy::make_controller(file, {}));
      std::vector<std::uint32_t> members;
      for (std::uint32_t rank = 0; rank < workers; ++rank)
        members.push_back(rank);
      own_.enter(1, members);
    }
  }

  /// One window. Returns how many decisions were made.
  std::size_t pass(std::uint64_t window, byte_source& bytes) {
    const auto global_batch = std::accumulate(batches_.begin(), batches_.end(), std::uint64_t{0});
    messages::shard_report shard{.window = window, .generation = 1, .reports = {}};
    std::size_t honest = 0;
    for (std::uint32_t rank = 0; rank < batches_.size(); ++rank) {
      auto report = honest_report(rank, window, batches_[rank], global_batch);
      const auto lies = bytes.next() % 8;
      for (int i = 0; i < lies; ++i) {
        auto place = bytes.next() % count_numbers(report);
        tell_lie(report, place, bytes.next());
      }
      auto arrived = straight_ ? std::optional(report) : send(report);
      // As an aggregator gathers: a later window is not this one's, and an older report stands in.
      if (arrived && (straight_ || arrived->window == window))
        latest_[rank] = std::move(arrived);
      if (latest_[rank])
        shard.reports.push_back(*latest_[rank]);
      honest += lies == 0 ? 1 : 0;
    }
    if (shard.reports.empty())
      return 0;
    shard.expected = static_cast<std::uint32_t>(batches_.size());
    const auto decisions = tree_ ? decide_in_tree(shard) : decide_alone(shard);
    check(shard, decisions);
    if (2 * honest > batches_.size()) {
      require(decisions.size() == going_on(shard), "a window that most do not call the last is decided");
      for (const auto& made : decisions)
        require(made.first_step == due_step(window), "the decisions are due when most have got there");
    }
    for (const auto& made : decisions)
      batches_[made.rank] = made.batch;
    return decisions.size();
  }

private:
  std::uint64_t due_step(std::uint64_t window) const {
    return cluster::decision_step((window - 1) * window_steps, window_steps);
  }

  std::vector<messages::decision> decide_alone(const messages::shard_report& shard) {
    auto verdict = own_.consider(shard);
    check(verdict.window);
    for (const auto& trajectory : verdict.rollout)
      require(messages::validate(trajectory).empty(), "the learner is given numbers");
    return verdict.decisions;
  }

  std::vector<messages::decision> decide_in_tree(const messages::shard_report& shard) {
    auto verdict = own_.decide(shard);
    if (!straight_)
      require(messages::validate(verdict.window).empty(), "the root takes what a shard says");
    auto joined = root_->join(verdict.window);
    check(joined.window);
    if (const auto fault = messages::validate(joined.known); !straight_ && !fault.empty())
      require(false, ("the shards take what the root says: " + fault).c_str());
    own_.follow(joined.known);
    return verdict.decisions;
  }

  static std::size_t going_on(const messages::shard_report& shard) {
    return static_cast<std::size_t>(std::ranges::count(shard.reports, false, &messages::window_report::final));
  }

  void check(const messages::shard_report& shard, const std::vector<messages::decision>& decisions) const {
    require(decisions.empty() || decisions.size() == going_on(shard), "one decision for each who does not end");
    for (const auto& made : decisions) {
      require(messages::validate(made).empty(), "a decision can be sent");
      require(made.batch >= lowest && made.batch <= highest_[made.rank], "a batch size is within its host's limits");
    }
  }

  void check(const policy::judged_window& window) const {
    for (const auto& worker : window.workers) {
      require(std::isfinite(worker.reward.total), "a reward is a number");
      require(std::isfinite(worker.predicted_seconds), "an expected time is a number");
      const auto bounded = [](float entry) { return entry >= -5 && entry <= 5; };
      require(std::ranges::all_of(worker.state, bounded), "a state is bounded");
      for (const auto seconds : {worker.time.compute_seconds, worker.time.cpu_wait_seconds, worker.time.network_seconds,
                                 worker.time.barrier_seconds, worker.time.data_seconds, worker.time.other_seconds})
        require(seconds >= 0 && seconds <= messages::max_seconds, "a part of a step is a time");
    }
    for (const auto* promised : {&window.predicted.assigned, &window.predicted.decided, &window.predicted.planned})
      require(std::isfinite(promised->slowest_seconds) && std::isfinite(promised->goodput), "a promise is a number");
    if (!straight_)
      require(ledger::parse_line(ledger::to_json_line({.at_seconds = 1, .entry = window})).has_value(),
              "the ledger's row can be read");
  }

  const cluster::cluster_file& file_;
  const std::vector<std::uint32_t> highest_;
  const bool straight_;
  const bool tree_;
  policy::deliberation own_;
  std::optional<policy::deliberation> root_;
  std::vector<std::uint32_t> batches_; ///< in force, by rank
  std::vector<std::optional<messages::window_report>> latest_;
};

} // namespace

std::size_t read_decisions(byte_span bytes) {
  byte_source source(bytes);
  const auto& file = file_of(source.next());
  const auto how = source.next();
  const auto workers = workers_least + how % 8 % (workers_most - workers_least + 1);
  arbitrated_cluster cluster(file, workers, (how & straight_flag) != 0, (how & tree_flag) != 0);
  std::size_t decided = 0;
  for (std::uint64_t window = 1; window <= windows_most && !source.empty(); ++window)
    decided += cluster.pass(window, source);
  return decided;
}

std::map<std::string, kept_example> decisions_examples() {
  constexpr std::uint8_t largest = 3;
  constexpr std::uint8_t power_of_two = 4;
  constexpr std::size_t windows = 8;
  const auto place_of = [](auto&& is_changed) {
    const auto truth = honest_report(0, 1, 64, 64);
    for (std::uint8_t at = 0;; ++at) {
      auto report = truth;
      std::size_t place = at;
      tell_lie(report, place, largest);
      if (is_changed(report))
        return static_cast<char>(at);
    }
  };
  const auto seconds = place_of([](const auto& report) { return report.training.compute_seconds > 1; });
  const auto step = place_of([](const auto& report) { return report.first_step > 0; });
  const auto lie = [](char place, std::uint8_t which) { return std::string{1, place, static_cast<char>(which)}; };
  const auto over_windows = [&](std::size_t arbiter, std::uint8_t how, const std::string& window) {
    std::string bytes{static_cast<char>(arbiter), static_cast<char>(how)};
    for (std::size_t i = 0; i < windows; ++i)
      bytes += window;
    return bytes;
  };
  std::map<std::string, kept_example> all;
  const std::string honest(1, 0);
  constexpr std::uint8_t four_workers = 2;
  for (std::size_t arbiter = 0; arbiter < arbiters.size(); ++arbiter) {
    const auto number = std::to_string(arbiter);
    const auto liars = honest + lie(seconds, largest) + honest + lie(seconds, largest);
    all["times-" + number] = {over_windows(arbiter, four_workers, liars), 4 * windows};
    all["straight-" + number] = {over_windows(arbiter, four_workers | straight_flag, liars), 4 * windows};
    all["tree-" + number] = {over_windows(arbiter, four_workers | tree_flag, liars), 4 * windows};
  }
  const auto ahead = honest + lie(step, power_of_two) + honest;
  all["far-ahead"] = {over_windows(2, 1, ahead), 3 * windows};
  return all;
}

target decisions_target() {
  return {"decisions", [](byte_span bytes) { read_decisions(bytes); }};
}

} // namespace dynamix::fuzz
