// Who may say what, in each form of a cluster.

#include "actors/network/authority.hpp"
#include "cluster/places.hpp"
#include "tests/unit/parsed_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>

namespace dynamix::actors {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using kind = statement_kind;

/// Arbitrators first, then workers w0, w1, ...
cluster::cluster_file cluster_of(const std::vector<std::string>& arbitrators, int workers,
                                 const std::string& arbitrator) {
  std::string text = "[cluster]\nname = \"x\"\n[security]\nkeys = \"keys\"\n[arbitrator]\n" + arbitrator;
  int port = 7400;
  for (const auto& name : arbitrators)
    text += fmt::format("\n[[host]]\nname = \"{}\"\nport = {}\nroles = [\"arbitrator\"]\n", name, port++);
  for (int i = 0; i < workers; ++i)
    text += fmt::format("\n[[host]]\nname = \"w{}\"\nport = {}\n", i, port++);
  return parsed_cluster(text);
}

struct row {
  const char* at;      ///< who hears it
  const char* speaker; ///< who has proven its name
  statement said;
  bool allowed;
};

void expect(const cluster::cluster_file& file, const std::vector<row>& rows) {
  int line = 0;
  for (const auto& [at, speaker, said, allowed] : rows) {
    const auto reason = authority(file, at).refuse(speaker, said);
    EXPECT_EQ(reason.empty(), allowed) << "row " << line << ": " << speaker << " to " << at << ", "
                                       << static_cast<int>(said.kind) << ": " << reason;
    ++line;
  }
}

TEST(Authority, OfWorkersEndsWithThemselves) {
  expect(cluster_of({"hub"}, 3, ""), {
                                         {"hub", "w0", {kind::hello, "w0"}, true},
                                         {"hub", "w0", {kind::hello, "w1"}, false},
                                         {"hub", "hub2", {kind::hello, "hub2"}, true}, // it is told what is wrong
                                         {"hub", "w0", {kind::report, "w0", {0}}, true},
                                         {"hub", "w0", {kind::report, "w0", {1}}, false},
                                         {"hub", "w0", {kind::report, "w1", {1}}, false},
                                         {"hub", "w0", {kind::report, "w1", {0}}, false},
                                         {"hub", "w0", {kind::report, "w0", {9}}, false},
                                         {"hub", "w1", {kind::beat, "", {1}}, true},
                                         {"hub", "w1", {kind::beat, "", {0}}, false},
                                         {"hub", "w1", {kind::farewell, "", {1}}, true},
                                         {"hub", "w1", {kind::farewell, "", {2}}, false},
                                         {"hub", "w1", {kind::absent, "", {1}}, true},
                                         {"hub", "w1", {kind::absent, "", {0}}, false},
                                         {"hub", "w1", {kind::evaluation}, true},
                                         {"hub", "w1", {kind::settle}, true},
                                         {"hub", "w1", {kind::operation}, true},
                                         {"hub", "w1", {kind::operation, "", {1}}, true},
                                         {"hub", "w1", {kind::operation, "", {0}}, false},
                                         {"hub", "eve", {kind::evaluation}, false},
                                         {"hub", "eve", {kind::operation}, false},
                                         {"hub", "w1", {kind::decision}, false},
                                         {"hub", "w1", {kind::guidance}, false},
                                         {"hub", "w1", {kind::answer}, false},
                                         {"hub", "w1", {kind::finish, "w1"}, false},
                                         {"hub", "w1", {kind::attach, "w1"}, false},
                                         {"hub", "w1", {kind::relay, "w1", {}}, false},
                                         {"hub", "w1", {kind::beats, "w1", {1}}, false},
                                         {"hub", "w1", {kind::window, "", {1}}, false},
                                     });
}

TEST(Authority, OfAHostWithSeveralWorkersIsOverThoseAlone) {
  const auto read = cluster::parse_cluster_text(
      "[cluster]\nname = \"x\"\n[training]\ntrainer = \"client\"\n[[host]]\nname = \"hub\"\nport = 7400\nroles = "
      "[\"arbitrator\"]\n[[host]]\nname = \"a\"\nport = 7401\nworkers = 2\n[[host]]\nname = \"b\"\nport = 7402\n"
      "workers = 2\n",
      "x.toml");
  ASSERT_TRUE(read.errors.empty());
  expect(read.file, {
                        {"hub", "a", {kind::hello, "a/0"}, true},
                        {"hub", "a", {kind::hello, "a/1"}, true},
                        {"hub", "a", {kind::hello, "b/0"}, false},
                        {"hub", "a", {kind::hello, "a/2"}, false},
                        {"hub", "a", {kind::report, "a/1", {1}}, true},
                        {"hub", "a", {kind::report, "b/0", {2}}, false},
                        {"hub", "a", {kind::report, "a/1", {2}}, false},
                        {"hub", "a", {kind::beat, "", {0}}, true},
                        {"hub", "a", {kind::beat, "", {3}}, false},
                        {"hub", "b", {kind::absent, "", {3}}, true},
                        {"hub", "b", {kind::farewell, "b/1", {3}}, true},
                        {"hub", "b", {kind::farewell, "b/1", {1}}, false},
                        {"hub", "a", {kind::evaluation}, true},
                        {"hub", "a", {kind::decision}, false},
                        {"a", "hub", {kind::decision}, true},
                        {"a", "b", {kind::decision}, false},
                        {"a", "hub", {kind::answer}, true},
                    });
}

TEST(Authority, OverAWorkerIsItsArbitrators) {
  expect(cluster_of({"hub"}, 2, ""), {
                                         {"w0", "hub", {kind::decision}, true},
                                         {"w0", "w1", {kind::decision}, false},
                                         {"w0", "hub", {kind::answer}, true},
                                         {"w0", "w1", {kind::answer}, false},
                                         {"w0", "hub", {kind::guidance}, false}, // it has no aggregator
                                         {"w0", "hub", {kind::report, "", {0}}, false},
                                     });
}

TEST(Authority, ToFinishIsAReplicas) {
  expect(cluster_of({"hub", "hub2", "hub3"}, 2, "replicas = [\"hub\", \"hub2\", \"hub3\"]\n"),
         {
             {"hub", "hub2", {kind::finish, "hub2"}, true},
             {"hub", "hub2", {kind::finish, "hub3"}, false},
             {"hub", "w0", {kind::finish, "w0"}, false},
             {"hub", "w0", {kind::finish, "hub2"}, false},
             {"hub", "hub3", {kind::answer}, true},
             {"hub", "w0", {kind::answer}, false},
             {"hub", "hub2", {kind::decision}, false}, // it has no worker
             {"w0", "hub3", {kind::decision}, true},   // whichever leads
             {"w0", "w1", {kind::decision}, false},
             {"w0", "hub2", {kind::answer}, true},
         });
}

/// hub above w0 (of w0 to w2), w3 (of w3 to w5) and w6 (of w6 to w8).
TEST(Authority, InATreeFollowsThePlan) {
  expect(cluster_of({"hub"}, 9, "topology = \"tree\"\nfanout = 3\nshards = [\"w0\", \"w3\", \"w6\"]\n"),
         {
             // Shards to the root.
             {"hub", "w0", {kind::attach, "w0"}, true},
             {"hub", "w0", {kind::attach, "w3"}, false},
             {"hub", "w1", {kind::attach, "w1"}, false},
             {"hub", "w0", {kind::relay, "w1"}, true},
             {"hub", "w1", {kind::relay, "w1"}, false},
             {"hub", "w0", {kind::beats, "w0", {0, 1, 2}}, true},
             {"hub", "w0", {kind::beats, "w0", {0, 4}}, true}, // whose own shard is away
             {"hub", "w0", {kind::beats, "w3", {0}}, false},
             {"hub", "w0", {kind::beats, "w0", {9}}, false},
             {"hub", "w0", {kind::window, "", {0, 1, 2}}, true},
             {"hub", "w1", {kind::window, "", {1}}, false},
             {"hub", "w0", {kind::farewell, "", {1}}, true},
             {"hub", "w0", {kind::absent, "", {2}}, true},
             {"hub", "w1", {kind::farewell, "", {1}}, true}, // where no shard is there
             {"hub", "w1", {kind::farewell, "", {2}}, false},
             {"hub", "w0", {kind::report, "w0", {1}}, false},
             {"hub", "w0", {kind::guidance}, false},
             {"hub", "w0", {kind::answer}, false},
             // The root and its siblings to a shard.
             {"w0", "hub", {kind::guidance}, true},
             {"w0", "w3", {kind::guidance}, false},
             {"w0", "w1", {kind::guidance}, false},
             {"w0", "hub", {kind::answer}, true},
             {"w0", "w1", {kind::answer}, false},
             {"w0", "w3", {kind::attach, "w3"}, false},
             {"w0", "w3", {kind::beats, "w3", {0}}, false},
             // Workers and a shard.
             {"w0", "w1", {kind::report, "w1", {1}}, true},
             {"w0", "w4", {kind::report, "w4", {4}}, true},
             {"w0", "w1", {kind::report, "w2", {2}}, false},
             {"w1", "w0", {kind::decision}, true},
             {"w1", "w3", {kind::decision}, true}, // its sibling, where its own is away
             {"w1", "hub", {kind::decision}, true},
             {"w1", "w2", {kind::decision}, false},
             {"w1", "w2", {kind::answer}, false},
             {"w1", "w0", {kind::guidance}, false},
         });
}

/// Of eight workers in shards of two, two shards under each of two arbitrators.
TEST(Authority, OfAnArbitratorBelowTheRootIsOverItsOwnPart) {
  const auto file = cluster_of({"hub"}, 8, "topology = \"tree\"\nfanout = 2\n");
  const auto plan = cluster::plan_tree(file);
  ASSERT_EQ(plan.depth, 3U);
  const auto& left = plan.nodes[1];
  const auto& right = plan.nodes[2];
  const auto& shard = plan.nodes[left.children[0]];
  ASSERT_EQ(left.first_rank, 0U);
  ASSERT_EQ(shard.first_rank, 0U);
  const auto at = [&](const std::string& own, const std::string& speaker, const statement& said) {
    return authority(file, own).refuse(speaker, said);
  };
  EXPECT_THAT(at("hub", left.host, {kind::window, "", {0, 1, 2, 3}}), IsEmpty());
  EXPECT_THAT(at("hub", left.host, {kind::window, "", {7}}), HasSubstr("does not come through it"));
  EXPECT_THAT(at("hub", shard.host, {kind::window, "", {0, 1}}), IsEmpty()) << "while the one between is away";
  EXPECT_THAT(at(left.host, shard.host, {kind::window, "", {0, 1, 2, 3}}), IsEmpty()) << "its sibling's, too";
  EXPECT_THAT(at(left.host, right.host, {kind::window, "", {4}}), HasSubstr("not an arbitrator below"));
  EXPECT_THAT(at(shard.host, left.host, {kind::guidance}), IsEmpty());
  EXPECT_THAT(at(shard.host, "hub", {kind::guidance}), IsEmpty());
  EXPECT_THAT(at(shard.host, right.host, {kind::guidance}), HasSubstr("an arbitrator above"));
  EXPECT_TRUE(authority(file, "hub").relays(shard.host));
  EXPECT_FALSE(authority(cluster_of({"hub"}, 8, ""), "hub").relays("hub"));
}

TEST(Authority, SaysWhoseItIs) {
  const authority rules(cluster_of({"hub"}, 3, ""), "hub");
  EXPECT_EQ(rules.refuse("w0", {kind::farewell, "", {1}}), "it is about rank 1, which is host \"w1\"'s");
  EXPECT_EQ(rules.refuse("w0", {kind::farewell, "", {7}}), "it is about rank 7, which is nobody's");
  EXPECT_EQ(rules.refuse("w0", {kind::hello, "w2"}), "it says that it is of host \"w2\"");
  EXPECT_EQ(rules.refuse("w0", {kind::finish, "w0"}), "only a replica may say that");
}

TEST(Authority, OfAStandInIsThatOfTheWorkersThatItPlays) {
  const auto file = cluster_of({"hub"}, 4, "");
  const stand_ins played = {{"part-1", {0, 1}}, {"part-2", {2, 3}}};
  const authority hub(file, "hub", nullptr, played);
  EXPECT_THAT(hub.refuse("part-1", {kind::hello, "w1"}), IsEmpty());
  EXPECT_THAT(hub.refuse("part-1", {kind::report, "w1", {1}}), IsEmpty());
  EXPECT_THAT(hub.refuse("part-1", {kind::settle}), IsEmpty());
  EXPECT_EQ(hub.refuse("part-1", {kind::hello, "w2"}), "it says that it is of host \"w2\"");
  EXPECT_EQ(hub.refuse("part-1", {kind::beat, "", {2}}), "it is about rank 2, which is host \"w2\"'s");
  EXPECT_EQ(hub.refuse("part-2", {kind::report, "w1", {2}}), "it says that it is of host \"w1\"");
  EXPECT_EQ(hub.refuse("part-3", {kind::settle}), "it has no worker");
  EXPECT_EQ(hub.refuse("w1", {kind::report, "w0", {0}}), "it says that it is of host \"w0\"") << "as ever";
  EXPECT_NE(hub.refuse("part-1", {kind::decision}), "");
  const authority part(file, "part-1", nullptr, played);
  EXPECT_THAT(part.refuse("hub", {kind::decision}), IsEmpty());
  EXPECT_NE(part.refuse("w2", {kind::decision}), "");

  const auto tree = cluster_of({"hub"}, 9, "topology = \"tree\"\nfanout = 3\nshards = [\"w0\", \"w3\", \"w6\"]\n");
  const authority below(tree, "part-1", nullptr, {{"part-1", {3, 4, 5}}});
  EXPECT_THAT(below.refuse("w3", {kind::decision}), IsEmpty());
  EXPECT_THAT(below.refuse("hub", {kind::answer}), IsEmpty());
  EXPECT_NE(below.refuse("w4", {kind::decision}), "");
}

TEST(Authority, OfAHostThatHasJoinedEndsWithItselfToo) {
  auto file = cluster_of({"hub"}, 1, "");
  file.membership = cluster::membership_kind::open;
  file.workers_max = 3;
  file = cluster::with_places(file);
  const auto names = std::make_shared<worker_names>(file);
  const authority rules(file, "hub", names);
  EXPECT_THAT(rules.refuse("guest", {kind::hello, "guest"}), IsEmpty()) << "it may ask";
  EXPECT_EQ(rules.refuse("guest", {kind::hello, "w0"}), "it says that it is of host \"w0\"");
  EXPECT_EQ(rules.refuse("guest", {kind::operation}), "it has no worker") << "it has no place yet";
  EXPECT_EQ(rules.refuse("guest", {kind::beat, "", {1}}), "it has no worker");
  names->give(1, "guest");
  EXPECT_THAT(rules.refuse("guest", {kind::beat, "", {1}}), IsEmpty());
  EXPECT_THAT(rules.refuse("guest", {kind::operation}), IsEmpty());
  EXPECT_EQ(rules.refuse("guest", {kind::beat, "", {0}}), "it is about rank 0, which is host \"w0\"'s");
  EXPECT_EQ(rules.refuse("w0", {kind::farewell, "", {1}}), "it is about rank 1, which is host \"guest\"'s");
  names->give(1, "other");
  EXPECT_EQ(rules.refuse("guest", {kind::beat, "", {1}}), "it has no worker") << "forgotten";
  names->give(2, "large/3");
  EXPECT_THAT(rules.refuse("large", {kind::hello, "large/7"}), IsEmpty()) << "one of several workers of it";
  EXPECT_THAT(rules.refuse("large", {kind::beat, "", {2}}), IsEmpty());
  EXPECT_EQ(rules.refuse("large", {kind::beat, "", {1}}), "it is about rank 1, which is host \"other\"'s");
  EXPECT_NE(rules.refuse("other", {kind::hello, "large/3"}), "");
  const authority own(file, "guest");
  EXPECT_THAT(own.refuse("hub", {kind::decision}), IsEmpty());
  EXPECT_THAT(own.refuse("w0", {kind::decision}), Not(IsEmpty()));
}

} // namespace
} // namespace dynamix::actors
