// What a root does when its user changes which shards take workers, and when one of them is lost for good.

#include "tests/unit/actors/noted_aggregator.hpp"

#include <nlohmann/json.hpp>

namespace dynamix::actors {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::RoleInATree;

/// Six workers, shards of three on w0 and another, and one that stands by.
class RootShards : public RoleInATree {
protected:
  RootShards() {
    for (const auto& node : plan.nodes)
      if (node.stands_by)
        standby = node.host;
    begin({.plan = plan});
  }
  void begin(root_options options) {
    options.write_layout = [this](const shard_layout& layout) {
      kept = layout;
      return std::string();
    };
    root = make_root(std::move(options));
    root->serve_arbitrator();
    for (std::size_t node = 1; node < plan.nodes.size(); ++node)
      attach(plan.nodes[node].host);
    for (std::uint32_t rank = 0; rank < 6; ++rank)
      say_hello(*root, hello_of(rank), home(rank));
    root->look();
    links.take();
  }
  void attach(const std::string& host) {
    root->take_child({.host = host, .node = host}, [](const messages::welcome&) {});
  }
  nlohmann::json say(const std::string& line) {
    std::string said;
    root->take_command(line, [&](std::string answer) { said = std::move(answer); });
    return nlohmann::json::parse(said);
  }
  nlohmann::json of(const std::string& host) {
    const auto state = say("list");
    for (const auto& one : state["arbitrators"])
      if (one["host"] == host)
        return one;
    return {};
  }

  std::string standby;
  shard_layout kept;
};

TEST_F(RootShards, ListsWhoHoldsWhatAndWhoseWorkers) {
  EXPECT_EQ(say("list")["root"], "north");
  EXPECT_THAT(of("w0")["workers"].get<std::vector<std::string>>(), ElementsAre("w0", "w1", "w2"));
  EXPECT_EQ(of("w0")["state"], "decides");
  EXPECT_EQ(of(standby)["state"], "stands by");
  EXPECT_EQ(of(standby)["parent"], "north");
  root->lost_child("w0", false);
  EXPECT_EQ(of("w0")["state"], "away");
}

TEST_F(RootShards, CallsTheWorkersOfADrainedShardAway) {
  const auto other = home(3);
  EXPECT_EQ(say("drain w0")["done"], true);
  EXPECT_THAT(links.take(), Contains("order w0 leaving 0,1,2 finished false"));
  say_hello(*root, hello_of(1), "w0"); // the first place where it looks
  EXPECT_THAT(links.take(), Contains("answer the shard of host w1 is there"));
  say_hello(*root, hello_of(1), other);
  EXPECT_THAT(links.take(), Contains("answer accepted"));
  EXPECT_THAT(of(other)["workers"].get<std::vector<std::string>>(), Contains("w1"));
  EXPECT_EQ(kept.serving.size(), 1U) << "kept for a root that begins anew";
}

TEST_F(RootShards, KeepsAWorkerThatReachesOnlyADrainedShard) {
  say("drain w0");
  links.take();
  say_hello(*root, hello_of(1), "w0");
  links.take();
  say_hello(*root, hello_of(1), "w0");
  EXPECT_THAT(links.take(), Contains("answer accepted")) << "it was sent to the other, and cannot get there";
}

TEST_F(RootShards, CallsWorkersToAShardThatIsAdded) {
  EXPECT_EQ(say("add " + standby)["done"], true);
  const auto notes = links.take();
  EXPECT_THAT(notes, Contains(HasSubstr("leaving"))) << fmt::format("{}", fmt::join(notes, "; "));
  EXPECT_EQ(of(standby)["state"], "decides");
  EXPECT_THAT(rows->rows, Contains(::testing::Truly([this](const ledger::row& row) {
                const auto* shard = std::get_if<ledger::shard>(&row.entry);
                return shard != nullptr && shard->name == standby && shard->state == ledger::shard_state::up;
              })));
}

TEST_F(RootShards, SaysWhyItDoesNothing) {
  EXPECT_EQ(say("add w0")["reason"], "the shard of host w0 takes workers already");
  EXPECT_THAT(say("add").dump(), HasSubstr("it is not a command"));
  EXPECT_THAT(links.take(), IsEmpty());
  root->stop();
  EXPECT_EQ(say("drain w0")["reason"], "training ends");
}

TEST_F(RootShards, GoesOnFromALayoutThatWasKept) {
  say("move w0 " + standby);
  begin({.plan = plan, .layout = kept});
  EXPECT_EQ(of("w0")["state"], "stands by");
  EXPECT_EQ(of(standby)["state"], "decides");
  auto of_another_file = kept;
  ++of_another_file.cluster_digest;
  begin({.plan = plan, .layout = of_another_file});
  EXPECT_EQ(of("w0")["state"], "decides");
}

TEST_F(RootShards, PutsAShardThatStandsByInPlaceOfOneThatIsLost) {
  root->lost_child("w0", false);
  links.now += timeouts.rejoin_timeout_ms / 1000.0 - 0.1;
  for (std::size_t node = 1; node < plan.nodes.size(); ++node)
    if (plan.nodes[node].host != "w0")
      root->take_beats({.node = plan.nodes[node].host, .beats = {}});
  root->look();
  links.now += timeouts.rejoin_timeout_ms / 1000.0;
  for (std::size_t node = 1; node < plan.nodes.size(); ++node)
    if (plan.nodes[node].host != "w0")
      root->take_beats({.node = plan.nodes[node].host, .beats = {}});
  EXPECT_EQ(of(standby)["state"], "stands by") << "it may come back";
  root->look();
  EXPECT_EQ(of(standby)["state"], "decides");
  say_hello(*root, hello_of(0), standby);
  EXPECT_THAT(links.take(), Contains("answer accepted"));
  attach("w0");
  EXPECT_EQ(of("w0")["state"], "stands by") << "its workers are another's by now";
  EXPECT_THAT(links.take(), Not(Contains(HasSubstr("leaving 0"))));
}

TEST_F(RootShards, WaitsForShardsForAsLongAsItTakesThemToBegin) {
  root = make_root({.plan = plan});
  root->serve_arbitrator();
  root->look();
  links.now += 100;
  attach(standby);
  root->look();
  EXPECT_EQ(of(standby)["state"], "stands by");
}

TEST_F(RootShards, SendsWorkersOfALostShardWhereThereIsRoom) {
  root->lost_child("w0", false);
  links.take();
  say_hello(*root, hello_of(0), "north"); // which holds a shard of none beside the root
  EXPECT_THAT(links.take(), ElementsAre("answer the shard of host w0 is there"));
  say_hello(*root, hello_of(0), home(3));
  EXPECT_THAT(links.take(), Contains("answer accepted"));
}

/// Keeps nothing until it is let to.
class slow_journal final : public decision_journal {
public:
  void keep(std::uint64_t, journal_content content, std::function<void(bool kept)> done) override {
    if (std::holds_alternative<shard_layout>(content))
      layout = std::get<shard_layout>(content);
    waiting.push_back(std::move(done));
  }
  void keep_all() {
    for (auto& done : std::exchange(waiting, {}))
      done(true);
  }
  shard_layout layout;
  std::vector<std::function<void(bool kept)>> waiting;
};

TEST_F(RootShards, MovesNobodyBeforeTheReplicasKnow) {
  const auto journal = std::make_shared<slow_journal>();
  links.on_settled = [this](std::uint64_t token, bool kept) { root->settle(token, kept); };
  root = make_root({.journal = journal, .plan = plan});
  root->serve_arbitrator();
  journal->keep_all();
  for (std::size_t node = 1; node < plan.nodes.size(); ++node)
    attach(plan.nodes[node].host);
  journal->keep_all();
  for (std::uint32_t rank = 0; rank < 6; ++rank)
    say_hello(*root, hello_of(rank), home(rank));
  journal->keep_all();
  links.take();
  std::string answer;
  root->take_command("drain w0", [&](std::string said) { answer = std::move(said); });
  EXPECT_EQ(answer, "");
  EXPECT_THAT(links.take(), Not(Contains(HasSubstr("leaving"))));
  EXPECT_EQ(say("drain " + home(3))["reason"], "another change is being made; ask again");
  journal->keep_all();
  EXPECT_THAT(answer, HasSubstr("3 workers"));
  EXPECT_THAT(links.take(), Contains("order w0 leaving 0,1,2 finished false"));

  auto before = std::make_shared<replication::journal_state>();
  before->shards = journal->layout;
  root = make_root({.before = before, .plan = plan});
  EXPECT_EQ(of("w0")["state"], "away") << "of another leader, to which nothing is attached yet";
  root->serve_arbitrator();
  attach("w0");
  EXPECT_EQ(of("w0")["state"], "stands by");
}

} // namespace
} // namespace dynamix::actors
