// The ledger of a tree of arbitrators: what each shard decided follows from it, window by window.

#include "ledger/codec.hpp"
#include "ledger/replay.hpp"
#include "policy/deliberation.hpp"
#include "policy/state.hpp"
#include "tests/unit/policy/imagined_cluster.hpp"
#include "tests/unit/policy/tree_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <map>

namespace dynamix::ledger {
namespace {

using ::testing::HasSubstr;

using policy::tree_file;
using policy::tree_shards;
using policy::tree_workers;

constexpr std::uint64_t windows = 30;

/// A run of a tree whose second shard hears from the root in every third window only, and the third's guidance names
/// one worker less. Once a worker leaves a shard and comes back, and once a shard's arbitrator begins anew.
class tree_run {
public:
  explicit tree_run(const cluster::cluster_file& file) : file_(file), root_(fresh()) {
    for (std::uint32_t i = 0; i < tree_shards; ++i)
      begin(i);
    rows_.push_back({.entry = ledger::start{.cluster = "tree"}});
    for (const auto& field : policy::state_fields())
      std::get<ledger::start>(rows_.back().entry).state_fields.emplace_back(field.name);
    rows_.push_back({.entry = ledger::deciding{.cluster_digest = fmt::format("{:016x}", file.digest())}});
    for (std::uint64_t window = 1; window <= windows; ++window) {
      if (window == 9) {
        tree_.at(0).judge.forget(5);
        root_.forget(5);
      }
      if (window == 15)
        begin(2);
      decide(window);
    }
  }

  /// As they are read from the file.
  std::vector<ledger::row> rows() const {
    std::vector<ledger::row> read;
    for (const auto& row : rows_)
      read.push_back(*parse_line(to_json_line(row)));
    return read;
  }

private:
  struct shard {
    policy::deliberation judge;
    std::uint64_t arbitrator = 0;
  };

  policy::deliberation fresh() const { return {file_, policy::make_controller(file_, {})}; }

  void begin(std::uint32_t index) {
    tree_.erase(index);
    tree_.emplace(index, shard{fresh(), ++begun_});
    std::vector<std::uint32_t> members(tree_workers);
    for (std::uint32_t rank = 0; rank < tree_workers; ++rank)
      members[rank] = rank;
    tree_.at(index).judge.enter(2, members);
  }

  void decide(std::uint64_t window) {
    const auto all = hosts_.run(window, in_force_);
    messages::shard_window joined{
        .window = window, .generation = 2, .expected = tree_workers, .reports = {}, .choices = {}};
    for (auto& [index, shard] : tree_) {
      auto own = all;
      std::erase_if(own.reports,
                    [&](const auto& report) { return report.rank / (tree_workers / tree_shards) != index; });
      own.expected = static_cast<std::uint32_t>(own.reports.size());
      auto verdict = shard.judge.decide(own);
      verdict.window.accounts.at(0).arbitrator = shard.arbitrator;
      for (const auto& decision : verdict.decisions)
        in_force_[decision.rank] = decision;
      joined.untrained = joined.untrained.empty() ? verdict.window.untrained : joined.untrained;
      std::ranges::move(verdict.window.reports, std::back_inserter(joined.reports));
      std::ranges::move(verdict.window.choices, std::back_inserter(joined.choices));
      std::ranges::move(verdict.window.accounts, std::back_inserter(joined.accounts));
    }
    auto said = root_.join(joined);
    for (auto& [index, shard] : tree_) {
      auto known = said.known;
      if (index == 2)
        std::erase_if(known.workers, [](const auto& one) { return one.rank == 20; });
      if (index != 1 || window % 3 == 0)
        shard.judge.follow(known);
    }
    rows_.push_back({.entry = said.window});
    ledger::tree by{.known = said.known, .accounts = joined.accounts, .votes = {}, .untrained = joined.untrained};
    for (const auto& choice : joined.choices)
      by.votes.push_back(choice.vote);
    rows_.push_back({.entry = by});
  }

  const cluster::cluster_file file_;
  policy::deliberation root_;
  std::map<std::uint32_t, shard> tree_;
  std::uint64_t begun_ = 0;
  policy::imagined_cluster hosts_{9, tree_workers, false};
  std::map<std::uint32_t, messages::decision> in_force_;
  std::vector<ledger::row> rows_;
};

replay_result replayed(const std::vector<ledger::row>& rows, const cluster::cluster_file& file) {
  return replay(rows, file, [](const auto&, auto&) { return "there is no archive"; });
}

class TreeReplay : public ::testing::TestWithParam<cluster::policy_kind> {};

TEST_P(TreeReplay, MakesEveryShardsDecisionsAgainToTheBit) {
  for (const auto mode : {cluster::policy_mode::infer, cluster::policy_mode::train}) {
    const auto file = tree_file(GetParam(), mode);
    const auto result = replayed(tree_run(file).rows(), file);
    EXPECT_TRUE(result.proven()) << to_text(result);
    EXPECT_EQ(result.windows, windows);
    EXPECT_EQ(result.decisions, windows * tree_workers);
    EXPECT_EQ(result.deviation, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, TreeReplay,
                         ::testing::Values(cluster::policy_kind::lb_bsp, cluster::policy_kind::goodput,
                                           cluster::policy_kind::ppo, cluster::policy_kind::ppo_add),
                         [](const auto& info) {
                           std::string name(cluster::to_string(info.param));
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// A run's rows, to be changed.
class ChangedTreeLedger : public ::testing::Test {
protected:
  ChangedTreeLedger() : rows_(tree_run(file_).rows()) {}

  template <class Entry>
  Entry& nth(std::uint64_t number) {
    for (auto& row : rows_)
      if (auto* found = std::get_if<Entry>(&row.entry); found != nullptr && --number == 0)
        return *found;
    throw std::out_of_range("no such row");
  }
  std::string said() const { return to_text(replayed(rows_, file_)); }

  const cluster::cluster_file file_ = tree_file(cluster::policy_kind::goodput);
  std::vector<ledger::row> rows_;
};

/// A shard that was lost had decided on it, too; its row tells of the later one.
TEST_F(ChangedTreeLedger, ComparesAWorkerWithTheShardThatDecidedOnItLast) {
  auto& window = nth<ledger::window>(1);
  auto& by = nth<ledger::tree>(1);
  messages::shard_report own{.window = window.key.window, .generation = window.generation, .reports = {}};
  for (const std::uint32_t rank : {0U, 1U})
    own.reports.push_back(window.workers[rank].report);
  own.expected = 2;
  policy::deliberation lost(file_, policy::make_controller(file_, {}));
  lost.enter(window.generation, {0, 1});
  auto account = lost.decide(own).window.accounts.at(0);
  account.arbitrator = 1000;
  by.accounts.insert(by.accounts.begin(), account);
  window.workers[0].decided_batch += 1;
  EXPECT_THAT(said(), HasSubstr("DIFFERENT in window 1"));
  window.workers[0].decided_batch -= 1;
  EXPECT_THAT(said(), HasSubstr("The same: "));
}

TEST_F(ChangedTreeLedger, ShowsTheFirstDecisionThatIsAnother) {
  nth<ledger::window>(7).workers[3].decided_batch += 1;
  EXPECT_THAT(said(), HasSubstr("DIFFERENT in window 7"));
}

TEST_F(ChangedTreeLedger, ShowsAMeasurementThatWasChangedAfterwards) {
  nth<ledger::window>(6).workers[9].report.training.compute_seconds *= 3;
  EXPECT_THAT(said(), HasSubstr("DIFFERENT in window 6"));
}

TEST_F(ChangedTreeLedger, ShowsGuidanceThatDoesNotFollow) {
  nth<ledger::tree>(12).known.ruled_total += 1;
  EXPECT_THAT(said(), HasSubstr("DIFFERENT in window 12 (term 1): ruled_total of the guidance"));
}

TEST_F(ChangedTreeLedger, ProvesNothingOfAShardFromAWindowOnThatIsMissing) {
  auto& accounts = nth<ledger::tree>(10).accounts;
  accounts.erase(accounts.begin() + 2);
  auto result = replayed(rows_, file_);
  EXPECT_FALSE(result.first) << to_text(result);
  EXPECT_EQ(result.skipped, 5U) << "until its arbitrator began anew before window 15";
  EXPECT_THAT(result.skipped_why, HasSubstr("a shard's window reached the root too late"));
  std::erase_if(rows_, [](const auto& row) { return std::holds_alternative<ledger::tree>(row.entry); });
  result = replayed(rows_, file_);
  EXPECT_EQ(result.skipped, windows);
  EXPECT_THAT(result.skipped_why, HasSubstr("an older version wrote the ledger"));
}

/// Its windows reach the root only when that has closed them with the reports before.
TEST_F(ChangedTreeLedger, ProvesNothingOfAShardThatIsAlwaysLate) {
  constexpr auto late_from = tree_workers - tree_workers / tree_shards;
  for (auto& row : rows_)
    if (auto* window = std::get_if<ledger::window>(&row.entry))
      for (auto& worker : window->workers)
        worker.stale = worker.report.rank >= late_from;
    else if (auto* by = std::get_if<ledger::tree>(&row.entry))
      std::erase_if(by->accounts, [](const auto& account) { return account.ranks.front() >= late_from; });
  const auto result = replayed(rows_, file_);
  EXPECT_FALSE(result.first) << to_text(result);
  EXPECT_FALSE(result.proven());
  EXPECT_EQ(result.skipped, windows - 1) << "nothing is in force in the first";
  EXPECT_THAT(result.skipped_why, HasSubstr("a shard's window reached the root too late"));
}

} // namespace
} // namespace dynamix::ledger
