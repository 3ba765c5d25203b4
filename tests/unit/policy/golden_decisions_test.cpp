// Decisions, ledger rows and rollouts of recorded runs: a change of how they are made must not change what they are.
// decisions.golden holds for each run the batch sizes of its workers, by rank, from each window on in which one of them
// changes, and a digest of all else that was said. Where decisions are meant to change, replace it by what the test
// prints, in a commit that says why.

#include "policy/deliberation.hpp"
#include "storage/fnv1a.hpp"
#include "tests/unit/policy/imagined_cluster.hpp"

#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <fstream>
#include <map>

namespace dynamix::policy {
namespace {

constexpr std::uint32_t workers = 12;
constexpr std::uint64_t windows = imagined_cluster::windows;

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

  /// What holds behind a window, where it is not what held before; "-" is the first batch size.
  void add(std::uint64_t window, const std::map<std::uint32_t, messages::decision>& in_force) {
    std::string batches;
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      batches += in_force.contains(rank) ? fmt::format(" {}", in_force.at(rank).batch) : " -";
    if (batches == batches_)
      return;
    batches_ = batches;
    changes_ += fmt::format("  {}:{}\n", window, batches);
  }

  std::string text() const { return changes_ + fmt::format("  rest {:016x}\n", storage::fnv1a().add(text_).value()); }

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
  std::string batches_; ///< newest
  std::string changes_; ///< of them, a line a window
  bool network_;
};

std::string run_central(const recorded_run& run) {
  const auto file = file_of(run);
  deliberation judge(file, make_controller(file, {}));
  imagined_cluster hosts(run.seed, workers, true);
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
    said.add(window, in_force);
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
  imagined_cluster hosts(run.seed, workers, true);
  std::map<std::uint32_t, messages::decision> in_force;
  account said(cluster::has_parameters(run.policy));
  for (std::uint64_t window = 1; window <= windows; ++window) {
    std::vector<std::uint32_t> members;
    for (std::uint32_t rank = 0; rank < workers; ++rank)
      if (hosts.is_here(rank, window))
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
    said.add(window, in_force);
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

/// By the name of a run, which stands in a line of its own before what it came to.
std::map<std::string, std::string> read_golden() {
  std::map<std::string, std::string> recorded;
  std::ifstream file(DYNAMIX_GOLDEN_DECISIONS);
  std::string run;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("  "))
      recorded[run] += line + "\n";
    else
      run = line;
  return recorded;
}

TEST(GoldenDecisions, AreThoseThatWereRecorded) {
  auto recorded = read_golden();
  std::string all;
  for (const auto& run : recorded_runs()) {
    const auto text = run.shards == 0 ? run_central(run) : run_tree(run);
    all += run.name() + "\n" + text;
    EXPECT_EQ(text, recorded[run.name()]) << run.name();
    recorded.erase(run.name());
  }
  for (const auto& [name, text] : recorded)
    ADD_FAILURE() << "nothing runs any more: " << name;
  if (HasFailure())
    std::puts(all.c_str());
}

} // namespace
} // namespace dynamix::policy
