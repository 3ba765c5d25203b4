#include "actors/arbitrator/decision_journal.hpp"
#include "links/pump.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/links/temporary_keys.hpp"
#include "tests/unit/replication/journal_examples.hpp"
#include "tests/wait_until.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

namespace dynamix::actors {
namespace {

constexpr std::uint64_t client = 7;

/// A voter that is alone, in a directory of its own.
class DecisionJournalTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(links::make_keys(keys_.path(), links::testing::request_of({"one"})), "");
    std::string problem;
    std::shared_ptr<links::pump> pump = links::pump::start({.directory = links::host_directory(keys_.path(), "one"),
                                                            .host = "one",
                                                            .accepted = {"one"},
                                                            .protocol = links::raft_protocol},
                                                           problem);
    ASSERT_NE(pump, nullptr) << problem;
    ASSERT_EQ(voter_->start({.id = 1,
                             .voters = {{.id = 1, .address = "127.0.0.1:1", .host = "one"}},
                             .directory = root_.path(),
                             .links = pump}),
              "");
    ASSERT_TRUE(wait_until([&] { return voter_->now().now == replication::role::leader; }));
    keep(replication::begin_term({1, 1}, 1).content);
    keep(replication::form_generation({1, 1}, 1, 1).content);
  }
  void TearDown() override { voter_->stop(); }
  void keep(journal_content content) {
    ++called_;
    journal_->keep(1, std::move(content), [this](bool kept) { ++(kept ? kept_ : dropped_); });
  }

  const temporary_directory root_;
  const links::testing::temporary_keys keys_;
  std::shared_ptr<replication::replica> voter_ = std::make_shared<replication::replica>();
  std::shared_ptr<replicated_journal> journal_ = std::make_shared<replicated_journal>(voter_, client);
  std::atomic<int> called_ = 0;
  std::atomic<int> kept_ = 0;
  std::atomic<int> dropped_ = 0;
};

TEST_F(DecisionJournalTest, KeepsWhatTwoThreadsSayEachInItsOrder) {
  constexpr std::uint64_t count = 100;
  std::thread learner([&] {
    for (std::uint64_t version = 1; version <= count; ++version)
      keep(replication::publish_policy({1, 1}, 1, version).content);
  });
  for (std::uint64_t window = 1; window <= count; ++window)
    keep(replication::decide_window({1, 1}, 1, window).content);
  learner.join();
  EXPECT_TRUE(wait_until([&] { return kept_ + dropped_ == called_; }));
  EXPECT_EQ(dropped_, 0); // a window or a version that came too early would have been refused
  std::atomic<bool> told = false;
  voter_->read_local([&](const replication::read_result& result) {
    EXPECT_EQ(result.state->counts.windows_decided, count);
    EXPECT_EQ(result.state->counts.policies_published, count);
    EXPECT_EQ(result.state->counts.duplicated, 0U);
    told = true;
  });
  EXPECT_TRUE(wait_until([&] { return told.load(); }));
}

TEST_F(DecisionJournalTest, AnswersAllOnceWhenTheVoterStopsMeanwhile) {
  std::atomic<bool> more = true;
  std::thread arbitrator([&] {
    for (std::uint64_t window = 1; more && window <= 500; ++window)
      keep(replication::decide_window({1, 1}, 1, window).content);
  });
  EXPECT_TRUE(wait_until([&] { return kept_ > 10; }));
  EXPECT_TRUE(voter_->stop(60'000));
  more = false;
  arbitrator.join();
  keep(replication::decide_window({1, 1}, 1, 1000).content);
  EXPECT_TRUE(wait_until([&] { return kept_ + dropped_ == called_; }));
  EXPECT_GT(dropped_, 0);
}

/// Keeps nothing until it is told to.
class held_journal final : public decision_journal {
public:
  void keep(std::uint64_t /*term*/, journal_content /*content*/, std::function<void(bool kept)> done) override {
    waiting.push_back(std::move(done));
  }
  std::vector<std::function<void(bool)>> waiting;
};

TEST(KeptActions, AreUnderWayUntilAllAreKeptOrRefused) {
  held_journal journal;
  kept_actions actions;
  std::vector<std::string> done;
  for (const auto* what : {"first", "second"})
    actions.keep(
        &journal, 1, replication::begin_term({1, 1}, 1).content, [&done, what] { done.emplace_back(what); },
        [&actions](std::uint64_t token, bool kept) { actions.settle(token, kept); });
  EXPECT_TRUE(done.empty());
  journal.waiting[0](true);
  EXPECT_FALSE(actions.empty());
  journal.waiting[1](false);
  EXPECT_TRUE(actions.empty());
  EXPECT_EQ(done, std::vector<std::string>{"first"});
}

} // namespace
} // namespace dynamix::actors
