// What a tree of arbitrators decides is what one arbitrator decides: exactly, for the same reports, guidance and
// policy.

#include "policy/deliberation.hpp"
#include "policy/measured_cluster.hpp"
#include "policy/state.hpp"
#include "tests/unit/policy/imagined_cluster.hpp"
#include "tests/unit/policy/tree_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace dynamix::policy {
namespace {

/// The part of a window that a shard of the tree sees.
messages::shard_report shard_part_of(const messages::shard_report& all, std::size_t shards, std::size_t index) {
  auto own = all;
  const auto first = static_cast<std::ptrdiff_t>(index * tree_workers / shards);
  const auto last = static_cast<std::ptrdiff_t>((index + 1) * tree_workers / shards);
  own.reports.assign(all.reports.begin() + first, all.reports.begin() + last);
  own.expected = static_cast<std::uint32_t>(own.reports.size());
  return own;
}

/// A controller and what it has measured of the tree_workers that it sees.
struct side {
  std::unique_ptr<controller> decider;
  measured_cluster measured;
  messages::shard_report report;

  explicit side(const cluster::cluster_file& file) : decider(make_controller(file, {})), measured(file.batch) {}

  observation see(const messages::shard_report& seen, const std::vector<std::uint32_t>& assigned, bool sharded) {
    report = seen;
    measured.measure(report);
    observation observed{.report = &report, .measured = &measured, .sharded = sharded};
    for (std::size_t i = 0; i < report.reports.size(); ++i) {
      observed.assigned.push_back(assigned[report.reports[i].rank]);
      observed.highest.push_back(measured.highest(i));
    }
    return observed;
  }
};

/// What travels from the root to the shards.
ruling what_travels(const ruling& known) {
  return ruling{static_cast<const messages::guidance&>(known), {}, {}};
}

class TreeDecisions : public ::testing::TestWithParam<cluster::policy_kind> {};

TEST_P(TreeDecisions, AreThoseOfOneArbitratorWhenGuidanceIsOfTheSameWindow) {
  for (const bool guard : {true, false})
    for (const std::size_t shards : {1, 3, 8}) {
      auto file = tree_file(GetParam());
      file.arbitrator.guard = guard;
      side central(file);
      side root(file);
      std::vector<side> tree;
      for (std::size_t i = 0; i < shards; ++i)
        tree.emplace_back(file);
      imagined_cluster hosts(5, tree_workers, false);
      std::vector<std::uint32_t> assigned(tree_workers, file.batch.initial);
      std::map<std::uint32_t, messages::decision> in_force;
      bool moved = false;
      for (std::uint64_t window = 1; window <= 40; ++window) {
        const auto all = hosts.run(window, in_force);
        const auto expected = decide(*central.decider, central.see(all, assigned, false));

        const auto seen = root.see(all, assigned, false);
        ruling known;
        known.window = window;
        known.sums = sum_reports(all.reports);
        root.decider->survey(seen, known);
        std::vector<std::vector<choice>> made;
        std::vector<observation> own;
        std::vector<choice> proposals;
        std::string untrained;
        for (std::size_t i = 0; i < shards; ++i) {
          own.push_back(tree[i].see(shard_part_of(all, shards, i), assigned, true));
          made.push_back(tree[i].decider->propose(own[i], known));
          for (const auto& each : made[i])
            proposals.push_back({.rank = each.rank, .batch = each.batch, .vote = each.vote});
          if (untrained.empty())
            untrained = tree[i].decider->untrained(own[i], made[i]);
        }
        root.decider->rule(seen, proposals, untrained, known);
        known = what_travels(known);
        std::vector<std::uint32_t> decided;
        for (std::size_t i = 0; i < shards; ++i) {
          tree[i].decider->settle(own[i], known, made[i]);
          for (const auto& each : made[i])
            decided.push_back(each.batch);
        }
        for (std::uint32_t rank = 0; rank < tree_workers; ++rank) {
          ASSERT_EQ(decided[rank], expected[rank].batch) << "window " << window << ", rank " << rank << ", " << shards;
          moved |= decided[rank] != assigned[rank];
          in_force[rank].batch = decided[rank];
        }
        assigned = decided;
      }
      EXPECT_TRUE(moved || GetParam() == cluster::policy_kind::static_batch);
    }
}

/// A whole tree on the same run; what was decided, window by window.
std::vector<std::vector<std::uint32_t>> run_tree(const cluster::cluster_file& file, std::size_t shards) {
  std::vector<deliberation> tree;
  for (std::size_t i = 0; i < shards; ++i)
    tree.emplace_back(file, make_controller(file, {}));
  deliberation root(file, make_controller(file, {}));
  std::vector<std::uint32_t> members(tree_workers);
  for (std::uint32_t rank = 0; rank < tree_workers; ++rank)
    members[rank] = rank;
  for (auto& shard : tree)
    shard.enter(2, members);
  imagined_cluster hosts(9, tree_workers, false);
  std::vector<std::uint32_t> assigned(tree_workers, file.batch.initial);
  std::map<std::uint32_t, messages::decision> in_force;
  std::vector<std::vector<std::uint32_t>> decided;
  std::size_t learned = 0;
  for (std::uint64_t window = 1; window <= 40; ++window) {
    const auto all = hosts.run(window, in_force);
    messages::shard_window joined{
        .window = window, .generation = 2, .expected = tree_workers, .reports = {}, .choices = {}};
    for (std::size_t i = 0; i < shards; ++i) {
      const auto verdict = tree[i].decide(shard_part_of(all, shards, i));
      for (const auto& each : verdict.decisions) {
        assigned[each.rank] = each.batch;
        in_force[each.rank] = each;
      }
      joined.untrained = joined.untrained.empty() ? verdict.window.untrained : joined.untrained;
      joined.reports.insert(joined.reports.end(), verdict.window.reports.begin(), verdict.window.reports.end());
      joined.choices.insert(joined.choices.end(), verdict.window.choices.begin(), verdict.window.choices.end());
    }
    auto said = root.join(joined);
    EXPECT_EQ(said.known.sums, sum_reports(all.reports)) << "s_global is the flat sum, to the bit";
    EXPECT_EQ(said.window.predicted.decided.total, std::accumulate(assigned.begin(), assigned.end(), 0U));
    EXPECT_GT(said.window.predicted.decided.slowest_seconds, 0);
    EXPECT_TRUE(std::ranges::all_of(said.window.workers, [](const auto& row) { return row.predicted_seconds > 0; }));
    learned += said.rollout.size();
    for (auto& shard : tree)
      shard.follow(said.known);
    decided.push_back(assigned);
  }
  EXPECT_EQ(learned > 0,
            file.arbitrator.mode == cluster::policy_mode::train && cluster::has_parameters(file.arbitrator.policy));
  return decided;
}

TEST_P(TreeDecisions, DoNotDependOnHowTheWorkersAreSpreadOverShards) {
  for (const auto mode : {cluster::policy_mode::infer, cluster::policy_mode::train}) {
    const auto file = tree_file(GetParam(), mode);
    const auto one = run_tree(file, 1);
    EXPECT_EQ(run_tree(file, 2), one);
    EXPECT_EQ(run_tree(file, 7), one);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, TreeDecisions,
                         ::testing::Values(cluster::policy_kind::static_batch, cluster::policy_kind::static_best,
                                           cluster::policy_kind::lb_bsp, cluster::policy_kind::omnilearn,
                                           cluster::policy_kind::goodput, cluster::policy_kind::ppo,
                                           cluster::policy_kind::ppo_add, cluster::policy_kind::ppo_simple),
                         [](const auto& info) {
                           std::string name(cluster::to_string(info.param));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST(TreeDecisionsOfGoodput, ComeNearToThoseOfOneArbitratorAlthoughTheyAreAWindowLate) {
  const auto file = tree_file(cluster::policy_kind::goodput);
  const auto decided = run_tree(file, 4).back();
  EXPECT_GT(std::ranges::max(decided), 2 * std::ranges::min(decided)) << "fast hosts got more";
}

TEST(DeliberationOfAShard, DecidesOnByTheLastGuidanceAndKeepsBatchesUntilThereIsAny) {
  const auto file = tree_file(cluster::policy_kind::goodput);
  deliberation shard(file, make_controller(file, {}));
  imagined_cluster hosts(3, tree_workers, false);
  auto first = shard.decide(shard_part_of(hosts.run(1, {}), 4, 1));
  ASSERT_EQ(first.decisions.size(), 6U);
  EXPECT_EQ(first.decisions[0].batch, 64U);
  messages::guidance known{.generation = 2, .window = 1, .workers = {{.rank = 6, .planned = 0, .ruled = 90}}};
  shard.follow(known);
  for (std::uint64_t window = 2; window < 5; ++window) {
    const auto next = shard.decide(shard_part_of(hosts.run(window, {}), 4, 1));
    EXPECT_EQ(next.decisions[0].batch, 90U) << "the parent is gone, its word stands";
    EXPECT_EQ(next.decisions[1].batch, 64U) << "nothing was ruled for it";
    EXPECT_EQ(next.decisions[0].key.window, window);
  }
  known.window = 0;
  known.workers[0].ruled = 40;
  shard.follow(known);
  EXPECT_EQ(shard.known().window, 1U) << "older guidance is dropped";
}

TEST(DeliberationOfAShard, SendsTheStatesOfAsManyWorkersAsTheBudgetAllows) {
  std::vector<std::uint32_t> members(1000);
  for (std::uint32_t rank = 0; rank < members.size(); ++rank)
    members[rank] = rank;
  const auto sampled = sample_ranks(members, 3, 100'000, 500);
  EXPECT_EQ(sampled.size(), 200U);
  EXPECT_TRUE(std::ranges::is_sorted(sampled));
  EXPECT_EQ(sample_ranks(members, 3, 100'000, 500), sampled) << "the same in every shard";
  EXPECT_NE(sample_ranks(members, 4, 100'000, 500), sampled) << "others in another generation";
  EXPECT_EQ(sample_ranks({4, 7}, 1, 1 << 20, 500), (std::vector<std::uint32_t>{4, 7}));
}

} // namespace
} // namespace dynamix::policy
