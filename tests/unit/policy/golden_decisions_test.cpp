// Decisions, ledger rows and rollouts of recorded runs: a change of how they are made must not change what they are.
// decisions.golden holds a digest a run. Where decisions are meant to change, replace its lines by those that the
// test prints, in a commit that says why.

#include "policy/deliberation.hpp"
#include "storage/fnv1a.hpp"

#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <random>

namespace dynamix::policy {
namespace {

constexpr std::uint32_t workers = 12;
constexpr std::uint64_t windows = 30;

struct recorded_run {
  cluster::policy_kind policy;
  cluster::policy_mode mode = cluster::policy_mode::infer;
  bool guard = true;
  bool shadow = false;
  std::size_t shards = 0; ///< 0: one arbitrator decides for all
  std::uint64_t seed = 1;

  std::string name() const {
    return fmt::format("{} {}{}{} {} seed {}", cluster::to_string(policy), cluster::to_string(mode),
                       guard ? " guarded" : "", shadow ? " shadow" : "",
                       shards == 0 ? "central" : fmt::format("shards {}", shards), seed);
  }
};

cluster::cluster_file file_of(const recorded_run& run) {
  cluster::cluster_file file;
  file.name = "recorded";
  file.seed = 11 * run.seed;
  file.batch = {.initial = 64, .lowest = 8, .highest = 512};
  file.training.optimizer = run.seed % 2 == 0 ? cluster::optimizer_kind::adam : cluster::optimizer_kind::sgd;
  file.ppo.horizon = 4;
  file.arbitrator.policy = run.policy;
  file.arbitrator.static_batch = 96;
  file.arbitrator.mode = run.mode;
  file.arbitrator.guard = run.guard;
  file.arbitrator.shadow = run.shadow;
  file.arbitrator.balance = cluster::balance_kind::off;
  file.arbitrator.trajectory_kib = 6;
  file.hosts.push_back({.name = "hub", .port = 1, .roles = {cluster::role::arbitrator}});
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    file.hosts.push_back({.name = fmt::format("w{}", rank), .port = static_cast<std::uint16_t>(rank + 2)});
  file.hosts[3].batch_highest = 90;
  file.hosts[9].batch_highest = 200;
  return file;
}

/// Hosts that differ, slow down, report with noise, late or not at all, and leave and come back.
class recorded_cluster {
public:
  explicit recorded_cluster(std::uint64_t seed) : random_(seed) {
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      speeds_.push_back(std::uniform_real_distribution<>(500, 5000)(random_));
  }

  static bool is_here(std::uint32_t rank, std::uint64_t window) { return rank != 5 || window < 15 || window >= 22; }
  static std::uint64_t generation_of(std::uint64_t window) { return window < 15 ? 2 : window < 22 ? 3 : 4; }

  messages::shard_report run(std::uint64_t window, const std::map<std::uint32_t, messages::decision>& in_force) {
    messages::shard_report all{.window = window, .generation = generation_of(window), .reports = {}};
    all.gather_seconds = 0.001 * static_cast<double>(window % 5);
    if (window % 7 == 0)
      speeds_[window % workers] *= window % 2 == 0 ? 0.4 : 2.5;
    double slowest = 0;
    std::uint64_t global_batch = 0;
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      if (is_here(rank, window)) {
        all.reports.push_back(report_of(rank, window, in_force));
        slowest = std::max(slowest, all.reports.back().training.compute_seconds);
        global_batch += all.reports.back().batch;
      }
    for (auto& report : all.reports) {
      report.training.iteration_seconds = slowest + 0.003;
      report.training.exchange_seconds = report.training.iteration_seconds - report.training.compute_seconds;
      report.global_batch = global_batch;
      if (report.rank == 4 && window % 6 == 0)
        report = newest_[4]; // it is late, the one before stands in
      newest_[report.rank] = report;
    }
    all.expected = static_cast<std::uint32_t>(all.reports.size());
    return all;
  }

private:
  messages::window_report report_of(std::uint32_t rank, std::uint64_t window,
                                    const std::map<std::uint32_t, messages::decision>& in_force) {
    const double noise = std::lognormal_distribution<>(0, 0.05)(random_);
    messages::window_report report{.host = fmt::format("w{}", rank), .rank = rank, .window = window};
    report.generation = generation_of(window);
    report.first_step = 10 * (window - 1);
    report.final = window == windows;
    const auto decided = in_force.find(rank);
    report.batch = decided == in_force.end() ? 64 : decided->second.batch;
    report.decision = decided == in_force.end() ? messages::decision_key{} : decided->second.key;
    const auto progress = static_cast<double>(window) / windows;
    report.training = {.steps = 10,
                       .samples = 10ULL * report.batch,
                       .accuracy = 0.2 + 0.5 * progress + 0.01 * (noise - 1),
                       .loss = 2 / std::sqrt(static_cast<double>(window)),
                       .compute_seconds = (0.004 + report.batch / speeds_[rank]) * noise,
                       .gradient_valid = window > 3 && rank != 7,
                       .sigma_norm = 1.1,
                       .sigma2_norm = 1.21,
                       .noise_scale = 4000 * noise};
    if (rank == 1 && window < 5)
      report.training.compute_seconds = 0; // not measured yet
    return report;
  }

  std::mt19937_64 random_;
  std::vector<double> speeds_;
  std::map<std::uint32_t, messages::window_report> newest_;
};

/// What a run came to, line by line. Numbers of a network are left out, for they differ between processors.
class account {
public:
  explicit account(bool network) : network_(network) {}

  void add(const messages::decision& made) {
    add(fmt::format("decision {}/{} generation {} rank {} batch {} from {}", made.key.term, made.key.window,
                    made.generation, made.rank, made.batch, made.first_step));
  }

  void add(const judged_window& window) {
    add(fmt::format("window {}/{} generation {} version {} decided {} gathered {:.9g} guard {}", window.key.term,
                    window.key.window, window.generation, window.policy_version, window.decided, window.gather_seconds,
                    window.guard));
    const auto& expected = window.predicted;
    add(fmt::format("predicted {:.9g} {:.9g}", expected.exchange_seconds, expected.noise_scale));
    for (const auto* step : {&expected.assigned, &expected.decided, &expected.planned})
      add(fmt::format("step {} {:.9g} {:.9g}", step->total, step->slowest_seconds, step->goodput));
    for (const auto& row : window.workers)
      add(row);
  }

  void add(const std::vector<messages::trajectory>& rollout) {
    for (const auto& one : rollout) {
      add(fmt::format("trajectory {} version {}", one.rank, one.policy_version));
      for (const auto& step : one.transitions)
        add(fmt::format("transition {} {:.6g} {}", step.action, step.reward, step.state.size()));
    }
  }

  void add(const messages::guidance& known) {
    add(fmt::format("guidance {} {} {:.9g} {} {} {}", known.generation, known.window, known.target_seconds,
                    known.ruled_total, known.intervention, known.reason));
    for (const auto& one : known.workers)
      add(fmt::format("guided {} {} {}", one.rank, one.planned, one.ruled));
  }

  void add(const std::string& line) { text_ += line + "\n"; }
  const std::string& text() const { return text_; }

private:
  void add(const judged_worker& row) {
    add(fmt::format("worker {} stale {} reward {:.9g} {:.9g} {:.9g} compute {:.9g} barrier {:.9g} action {} "
                    "assigned {} decided {} proposed {} planned {} predicted {:.9g} states {} intervention {}",
                    row.report.rank, row.stale, row.reward.total, row.reward.gain, row.reward.noise,
                    row.time.compute_seconds, row.time.barrier_seconds, row.action, row.assigned_batch,
                    row.decided_batch, row.proposed_batch, row.planned_batch, row.predicted_seconds, row.state.size(),
                    row.intervention));
    if (!network_)
      add("reason " + row.reason);
  }

  std::string text_;
  bool network_;
};

std::string run_central(const recorded_run& run) {
  const auto file = file_of(run);
  deliberation judge(file, make_controller(file, {}));
  recorded_cluster hosts(run.seed);
  std::map<std::uint32_t, messages::decision> in_force;
  account said(cluster::has_parameters(run.policy));
  for (std::uint64_t window = 1; window <= windows; ++window) {
    if (window == 15)
      judge.forget(5);
    if (window == 18)
      judge.raise_term(4);
    const auto verdict = judge.consider(hosts.run(window, in_force));
    for (const auto& made : verdict.decisions) {
      in_force[made.rank] = made;
      said.add(made);
    }
    said.add(verdict.window);
    said.add(verdict.rollout);
  }
  return said.text();
}

/// The part of a window that a shard of the tree sees.
messages::shard_report part_of(const messages::shard_report& all, std::size_t shards, std::size_t index) {
  auto own = all;
  std::erase_if(own.reports, [&](const auto& report) { return report.rank * shards / workers != index; });
  own.expected = static_cast<std::uint32_t>(own.reports.size());
  return own;
}

std::string run_tree(const recorded_run& run) {
  const auto file = file_of(run);
  std::vector<deliberation> tree;
  for (std::size_t i = 0; i < run.shards; ++i)
    tree.emplace_back(file, make_controller(file, {}));
  deliberation root(file, make_controller(file, {}));
  recorded_cluster hosts(run.seed);
  std::map<std::uint32_t, messages::decision> in_force;
  account said(cluster::has_parameters(run.policy));
  for (std::uint64_t window = 1; window <= windows; ++window) {
    std::vector<std::uint32_t> members;
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      if (recorded_cluster::is_here(rank, window))
        members.push_back(rank);
    if (window == 15) {
      root.forget(5);
      tree[5 * run.shards / workers].forget(5);
    }
    if (window == 18) {
      root.raise_term(4);
      for (auto& shard : tree)
        shard.raise_term(4);
    }
    const auto all = hosts.run(window, in_force);
    messages::shard_window joined{
        .window = window, .generation = all.generation, .expected = all.expected, .reports = {}, .choices = {}};
    for (std::size_t i = 0; i < tree.size(); ++i) {
      tree[i].enter(all.generation, members);
      const auto verdict = tree[i].decide(part_of(all, run.shards, i));
      for (const auto& made : verdict.decisions) {
        in_force[made.rank] = made;
        said.add(made);
      }
      const auto& own = verdict.window;
      joined.untrained = joined.untrained.empty() ? own.untrained : joined.untrained;
      joined.gather_seconds = std::max(joined.gather_seconds, own.gather_seconds);
      joined.reports.insert(joined.reports.end(), own.reports.begin(), own.reports.end());
      joined.choices.insert(joined.choices.end(), own.choices.begin(), own.choices.end());
    }
    const auto verdict = root.join(joined);
    said.add(verdict.window);
    said.add(verdict.rollout);
    said.add(verdict.known);
    for (std::size_t i = 0; i < tree.size(); ++i)
      if (i != 2 || window < 10 || window > 12) // that one is cut off for a while
        tree[i].follow(verdict.known);
  }
  return said.text();
}

std::vector<recorded_run> recorded_runs() {
  using cluster::policy_kind;
  std::vector<recorded_run> runs;
  for (const std::size_t shards : {0, 1, 3})
    for (const std::uint64_t seed : {1, 2}) {
      for (const auto policy : {policy_kind::static_batch, policy_kind::static_best, policy_kind::lb_bsp,
                                policy_kind::omnilearn, policy_kind::goodput})
        runs.push_back({.policy = policy, .guard = false, .shards = shards, .seed = seed});
      for (const auto policy : {policy_kind::ppo, policy_kind::ppo_add, policy_kind::ppo_simple})
        for (const auto mode : {cluster::policy_mode::infer, cluster::policy_mode::train})
          for (const bool guard : {true, false})
            runs.push_back({.policy = policy, .mode = mode, .guard = guard, .shards = shards, .seed = seed});
      runs.push_back({.policy = policy_kind::goodput, .guard = false, .shadow = true, .shards = shards, .seed = seed});
      runs.push_back({.policy = policy_kind::ppo, .shadow = true, .shards = shards, .seed = seed});
    }
  return runs;
}

TEST(GoldenDecisions, AreThoseThatWereRecorded) {
  std::map<std::string, std::string> recorded;
  std::ifstream file(DYNAMIX_GOLDEN_DECISIONS);
  for (std::string line; std::getline(file, line);)
    recorded[line.substr(0, line.rfind(' '))] = line.substr(line.rfind(' ') + 1);
  std::string lines;
  for (const auto& run : recorded_runs()) {
    const auto text = run.shards == 0 ? run_central(run) : run_tree(run);
    const auto digest = fmt::format("{:016x}", storage::fnv1a().add(text).value());
    lines += fmt::format("{} {}\n", run.name(), digest);
    EXPECT_EQ(digest, recorded[run.name()]) << run.name();
    recorded.erase(run.name());
  }
  for (const auto& [name, digest] : recorded)
    ADD_FAILURE() << "nothing runs any more: " << name;
  if (HasFailure())
    std::puts(lines.c_str());
}

} // namespace
} // namespace dynamix::policy
