// What a root decides of the aggregators below it, and of the workers that come through them.

#include "tests/unit/actors/noted_aggregator.hpp"

namespace dynamix::actors {
namespace {

using testing::AggregatorRole;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::file_of;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::RoleInATree;

class RootOfATree : public RoleInATree {
protected:
  RootOfATree() {
    root = make_root({.plan = plan});
    for (const auto child : plan.nodes[0].children) {
      const auto said = hello_of_shard(child);
      EXPECT_EQ(root->judge_child(said).verdict, messages::welcome_verdict::accepted);
      root->take_child(said, [](const messages::welcome&) {});
    }
    for (std::uint32_t rank = 0; rank < 6; ++rank)
      say_hello(*root, hello_of(rank), home(rank));
    links.take();
    root->look();
  }
  messages::shard_hello hello_of_shard(std::size_t node) const {
    return {.cluster = file.name,
            .cluster_digest = file.digest(),
            .host = plan.nodes[node].host,
            .node = plan.nodes[node].host,
            .incarnation = 1,
            .heartbeat_interval_ms = timeouts.heartbeat_interval_ms};
  }
};

TEST_F(RootOfATree, TellsEachShardTheProtocolThatBothSpeak) {
  auto said = hello_of_shard(plan.nodes[0].children[0]);
  EXPECT_EQ(root->judge_child(said).protocol, messages::newest_protocol);
  said.newest_protocol = 0; // a release that did not know it
  EXPECT_EQ(root->judge_child(said).protocol, messages::oldest_protocol);
  said.protocol = said.newest_protocol = messages::newest_protocol + 1;
  EXPECT_EQ(root->judge_child(said).verdict, messages::welcome_verdict::protocol_mismatch);
  EXPECT_THAT(root->judge_child(said).detail, HasSubstr("speaks protocol 7, this arbitrator protocol 6"));
}

TEST_F(RootOfATree, PlacesWorkersThroughTheirShards) {
  const auto notes = links.take();
  EXPECT_THAT(notes, Contains(fmt::format("place 0,1,2 of 1 through \"{}\"", home(0))));
  EXPECT_THAT(notes, Contains(fmt::format("place 3,4,5 of 1 through \"{}\"", home(3))));
}

TEST_F(RootOfATree, SendsAWorkerHomeThatCameElsewhereOnlyOnce) {
  links.take();
  auto said = hello_of(4);
  say_hello(*root, said, home(0));
  EXPECT_THAT(links.take(), ElementsAre("answer the shard of host w4 is there"));
  say_hello(*root, said, home(0));
  EXPECT_THAT(links.take(), Contains("answer accepted")) << "it cannot reach its own";
}

/// Keeps nothing until it is let to.
class held_journal final : public decision_journal {
public:
  void keep(std::uint64_t, journal_content content, std::function<void(bool kept)> done) override {
    names.emplace_back(replication::kind_name({.content = content}));
    waiting.push_back(std::move(done));
  }
  void keep_all() {
    for (auto& done : std::exchange(waiting, {}))
      done(true);
  }
  std::vector<std::string> names;
  std::vector<std::function<void(bool kept)>> waiting;
};

/// Of nine workers, of whom the last three are guests, with a journal.
class ReplicatedRootOfAnOpenTree : public RootOfATree {
protected:
  ReplicatedRootOfAnOpenTree() {
    file.membership = cluster::membership_kind::open;
    file.workers_max = 9;
    file = cluster::with_places(file);
    plan = cluster::plan_tree(file);
    names = std::make_shared<worker_names>(file);
    root = make_root({.journal = journal, .names = names, .plan = plan});
    links.on_settled = [this](std::uint64_t token, bool kept) { root->settle(token, kept); };
    root->serve_arbitrator();
    journal->keep_all();
    for (const auto child : plan.nodes[0].children)
      attach(plan.nodes[child].host);
    journal->keep_all();
    links.take();
    journal->names.clear();
  }
  void attach(const std::string& host) {
    root->take_child({.host = host, .node = host}, [this, host](const messages::welcome& welcome) {
      links.note("{} in term {}", host, welcome.term);
    });
  }
  messages::hello guest(const std::string& name) const {
    auto said = hello_of(7);
    said.host = name;
    return said;
  }
  std::shared_ptr<held_journal> journal = std::make_shared<held_journal>();
  std::shared_ptr<worker_names> names;
};

TEST_F(ReplicatedRootOfAnOpenTree, TakesNoGuestThatSaysItIsFoundWhereItDoesNotComeFrom) {
  names->linked("guest", {"10.0.0.9"});
  auto said = guest("guest");
  for (const auto* address : {"10.0.0.7", "database.example"}) {
    said.address = address;
    say_hello(*root, said);
    EXPECT_THAT(links.take(),
                Contains(HasSubstr(fmt::format("at {}, and its connection comes from 10.0.0.9", address))));
  }
  say_hello(*root, said, home(0));
  EXPECT_THAT(links.take(), Not(Contains(HasSubstr("comes from")))) << "of one that comes through a shard that judges";
  said.address = "10.0.0.9";
  said.host = "guest/1";
  say_hello(*root, said);
  EXPECT_THAT(links.take(), Not(Contains(HasSubstr("comes from"))));
}

TEST_F(ReplicatedRootOfAnOpenTree, LetsNobodyDecideUnderATermThatIsNotKept) {
  attach("w0");
  EXPECT_THAT(links.take(), Not(Contains(HasSubstr("in term")))) << "what it decides must be told from what it decided";
  journal->keep_all();
  EXPECT_THAT(links.take(), Contains(HasSubstr("w0 in term")));
  auto said = hello_of(0);
  said.last_decision = {.term = 1000, .window = 1};
  say_hello(*root, said, home(0));
  EXPECT_THAT(links.take(), Not(Contains("answer accepted"))) << "its shard would decide under a term that it has left";
  journal->keep_all();
  const auto notes = links.take();
  EXPECT_THAT(notes, Contains("answer accepted"));
  EXPECT_LT(std::ranges::find(notes, "term 1005"), std::ranges::find(notes, "answer accepted"));
}

TEST_F(ReplicatedRootOfAnOpenTree, AnswersAGuestOnceItsPlaceIsKept) {
  say_hello(*root, guest("guest"), home(0));
  EXPECT_THAT(links.take(), Not(Contains("answer accepted")));
  EXPECT_THAT(journal->names, ElementsAre("place_given"));
  journal->keep_all();
  EXPECT_THAT(links.take(), Contains("answer accepted"));
  EXPECT_EQ(names->name_of(6), "guest");
}

TEST_F(ReplicatedRootOfAnOpenTree, SendsAGuestToTheShardWithRoom) {
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    say_hello(*root, hello_of(rank), home(rank));
  journal->keep_all();
  links.take();
  say_hello(*root, guest("guest"), "north"); // which holds a shard of none beside the root
  const auto room = plan.nodes[plan.nodes[0].children.back()].host;
  EXPECT_THAT(links.take(), ElementsAre(fmt::format("answer the shard of host guest is there")));
  say_hello(*root, guest("guest"), room);
  journal->keep_all();
  EXPECT_THAT(links.take(), Contains("answer accepted"));
  say_hello(*root, guest("other"), home(0));
  journal->keep_all();
  EXPECT_THAT(links.take(), Contains("answer accepted")) << "it stays with a shard that it has come to";
}

TEST_F(ReplicatedRootOfAnOpenTree, KeepsAGuestThatCannotReachTheShardWithRoom) {
  say_hello(*root, guest("guest"), "north");
  EXPECT_THAT(links.take(), ElementsAre("answer the shard of host guest is there"));
  say_hello(*root, guest("guest"), "north");
  journal->keep_all();
  EXPECT_THAT(links.take(), Contains("answer accepted"));
}

TEST_F(AggregatorRole, ARootLosesAllWorkersOfAShardsHostWhoseConnectionBreaks) {
  file = file_of(2);
  for (auto& host : file.hosts)
    for (int slot = 0; host.name != "north" && slot < 3; ++slot)
      host.slots.push_back({.name = fmt::format("{}/{}", host.name, slot)});
  file.arbitrator.topology = cluster::arbitration_topology::tree;
  file.arbitrator.fanout = 3;
  const auto root = make_root({.plan = cluster::plan_tree(file)});
  for (const auto* shard : {"w0", "w1"})
    root->take_child({.host = shard, .node = shard}, [](const messages::welcome&) {});
  for (std::uint32_t rank = 0; rank < 6; ++rank) {
    auto said = hello_of(rank);
    said.host = fmt::format("w{}/{}", rank / 3, rank % 3);
    say_hello(*root, said, said.host.substr(0, 2));
  }
  root->look();
  links.take();
  root->lost_child("w1", true);
  const auto notes = links.take();
  for (const auto rank : {3, 4, 5})
    EXPECT_THAT(notes, Contains(fmt::format("lose {}", rank)));
  EXPECT_THAT(notes, Not(Contains("lose 0")));
}

/// The place after a shard's own is the arbitrator above its parent.
TEST_F(AggregatorRole, ARootLeavesWorkersWithAShardThatCameToItInPlaceOfItsParent) {
  file = file_of(12);
  file.arbitrator.topology = cluster::arbitration_topology::tree;
  file.arbitrator.fanout = 3;
  const auto plan = cluster::plan_tree(file);
  ASSERT_EQ(plan.depth, 3U);
  const auto root = make_root({.plan = plan});
  const auto shard = plan.shard_of(0);
  for (const auto child : {plan.nodes[shard].parent, shard})
    root->take_child({.host = plan.nodes[child].host, .node = plan.nodes[child].host}, [](const messages::welcome&) {});
  links.take();
  say_hello(*root, hello_of(0), plan.nodes[shard].host);
  EXPECT_THAT(links.take(), Contains("answer accepted"));
  const auto& above = plan.nodes[plan.nodes[shard].parent].host;
  root->take_child({.host = above, .node = above}, [](const messages::welcome&) {});
  EXPECT_THAT(links.take(), Not(Contains(HasSubstr("leaving 0")))) << "nobody is called away when its parent is back";
}

/// its farewell overtook a window that an aggregator below was still gathering.
TEST_F(RootOfATree, WaitsForWhatAWorkerHasReportedBeforeItsFarewell) {
  const auto window_of = [&](std::uint32_t first) {
    messages::shard_window window{.window = 1, .generation = 1, .expected = 3};
    for (auto rank = first; rank < first + 3; ++rank) {
      window.reports.push_back(report_of(rank, 1));
      window.choices.push_back({.rank = rank});
    }
    return window;
  };
  root->take_window(window_of(3));
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    root->take_farewell({.host = fmt::format("w{}", rank), .rank = rank, .succeeded = true, .reason = "done"},
                        [](bool) {});
  links.take();
  root->take_window(window_of(0));
  EXPECT_THAT(links.take(), ElementsAre("judge 1 with 6 reports"));
}

TEST_F(RoleInATree, ARootWaitsForAllShardsOfAGenerationThatItMeetsInMidTraining) {
  root = make_root({.plan = plan});
  const auto come_back = [this](std::uint32_t first) {
    for (std::uint32_t rank = first; rank < first + 3; ++rank) {
      auto said = hello_of(rank);
      said.generation = 4;
      said.training = true;
      said.members = {0, 1, 2, 3, 4, 5};
      said.steps = said.attempted_steps = 7ULL * file.arbitrator.window_steps;
      say_hello(*root, said, home(rank));
    }
    messages::shard_window window{.window = 7, .generation = 4, .expected = 3};
    for (std::uint32_t rank = first; rank < first + 3; ++rank) {
      window.reports.push_back(report_of(rank, 7, 4));
      window.choices.push_back({.rank = rank});
    }
    links.take();
    root->take_window(window);
    return links.take();
  };
  EXPECT_THAT(come_back(0), ElementsAre("deadline 7 of 4 in 2 time-outs"))
      << "a shard may close it at its own deadline";
  EXPECT_THAT(come_back(3), ElementsAre("judge 7 with 6 reports"));
}

TEST_F(RootOfATree, GuidesEachShardForItsWorkers) {
  links.take();
  messages::guidance known{.generation = 1, .window = 1};
  for (std::uint32_t rank = 0; rank < 5; ++rank)
    known.workers.push_back({.rank = rank});
  root->guide(known);
  EXPECT_THAT(links.take(), ::testing::UnorderedElementsAre(fmt::format("guide {} for 3 workers", home(0)),
                                                            fmt::format("guide {} for 2 workers", home(3))));
}

} // namespace
} // namespace dynamix::actors
