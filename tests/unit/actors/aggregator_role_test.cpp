// What aggregators decide, in every place of a tree: without actors, with links that take notes.

#include "tests/unit/actors/noted_aggregator.hpp"

namespace dynamix::actors {
namespace {

using testing::AggregatorRole;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class RootRole : public AggregatorRole {
protected:
  void SetUp() override {
    root->serve_arbitrator();
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      say_hello(*root, hello_of(rank));
    root->look();
  }
  std::unique_ptr<root_role> root = make_root();
};

TEST_F(RootRole, AnswersAHelloBeforeItPlacesTheWorker) {
  const auto notes = links.take();
  const auto answered = std::ranges::find(notes, "answer accepted");
  EXPECT_LT(std::ranges::find(notes, "connect 0"), answered);
  EXPECT_LT(answered, std::ranges::find(notes, "place 0,1,2 of 1 through \"\""));
  EXPECT_THAT(notes, Contains("store for 3"));
}

TEST_F(RootRole, HandsACompleteWindowToItsArbitrator) {
  links.take();
  for (std::uint32_t rank = 0; rank < 3; ++rank)
    root->take_report(report_of(rank, 1));
  EXPECT_THAT(links.take(), ElementsAre("deadline 1 of 1", "decide on 1 with 3 reports"));
}

/// It trains the same window again, and the deadline before is still on its way.
TEST_F(RootRole, LeavesAWindowOpenAtADeadlineOfTheGenerationBefore) {
  root->take_report(report_of(0, 1));
  root->lost_worker(0);
  for (std::uint32_t rank = 1; rank < 3; ++rank) {
    auto said = hello_of(rank);
    said.generation = said.steps = said.attempted_steps = 1;
    say_hello(*root, said);
  }
  links.now += 0.5;
  root->look();
  ASSERT_THAT(links.take(), Contains("place 1,2 of 2 through \"\""));
  root->take_report(report_of(1, 1, 2));
  EXPECT_THAT(links.take(), ElementsAre("deadline 1 of 2"));
  root->end_gathering(1, 1);
  EXPECT_THAT(links.take(), IsEmpty());
  root->end_gathering(2, 1);
  EXPECT_THAT(links.take(), ElementsAre("decide on 1 with 1 reports"));
}

/// One of two that have come back ends; the third may have obeyed a newer term than both.
TEST_F(RootRole, DecidesForNobodyBeforeAllHaveComeThoughOneEnds) {
  for (const bool all_end : {false, true}) {
    root = make_root();
    root->serve_arbitrator();
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto said = hello_of(rank);
      said.generation = 4;
      said.training = true;
      said.members = {0, 1, 2};
      said.steps = said.attempted_steps = 7ULL * file.arbitrator.window_steps;
      say_hello(*root, said);
      auto report = report_of(rank, 7, 4);
      report.final = rank == 0 || all_end;
      root->take_report(report);
    }
    links.take();
    root->end_gathering(4, 7);
    EXPECT_THAT(links.take(), ElementsAreArray(all_end ? std::vector<std::string>{"decide on 7 with 2 reports"}
                                                       : std::vector<std::string>{}));
  }
}

TEST_F(RootRole, WritesWhoHasEvaluatedAndNoMoreThanTrainingHasSteps) {
  rows->rows.clear();
  for (int i = 0; i < 10'000; ++i) {
    root->hear_evaluation({.step = 1, .test_accuracy = 1, .host = "w0"}, {.host = "w2", .rank = 2});
    root->hear_evaluation({.step = 1, .test_accuracy = 0.5, .host = "w2"}, {.host = "w0", .rank = 0});
  }
  EXPECT_EQ(rows->rows.size(), evaluation_gate::most_at_once(file.arbitrator.window_steps));
  for (const auto& row : rows->rows) {
    const auto& said = std::get<ledger::evaluation>(row.entry).report;
    EXPECT_EQ(said.host, "w0");
    EXPECT_EQ(said.test_accuracy, 0.5);
  }
}

TEST_F(RootRole, EndsTheGenerationOfAWorkerWhoseConnectionBreaks) {
  links.take();
  root->lost_worker(1);
  EXPECT_THAT(links.take(), ElementsAre("disconnect 1", "lose 1", "notify 0,2 of 1 through \"\""));
}

TEST_F(RootRole, AsksAWorkerThatComesAfterAStopToStopBeforeItAnswers) {
  root->stop();
  links.take();
  auto said = hello_of(2);
  said.generation = 1;
  say_hello(*root, said);
  EXPECT_THAT(links.take(), ElementsAre("connect 2", "stop 2", "answer accepted", "look soon"));
}

TEST_F(RootRole, EndsTheRunOnceAllWorkersHaveSaidFarewell) {
  bool taken = true;
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    EXPECT_FALSE(events->take().arbitrator);
    root->take_farewell({.host = fmt::format("w{}", rank), .rank = rank, .succeeded = true, .reason = "done"},
                        [&](bool heard) { taken &= heard; });
    root->look();
  }
  EXPECT_TRUE(taken);
  ASSERT_TRUE(events->take().arbitrator);
  EXPECT_TRUE(events->take().arbitrator->succeeded);
}

TEST_F(RootRole, GoesOnWithTheOthersWhereOneSaysAtItsFirstStepThatTrainingIsComplete) {
  const auto say_farewell = [this](std::uint32_t rank, std::uint64_t steps) {
    root->take_farewell(
        {.host = fmt::format("w{}", rank), .rank = rank, .succeeded = true, .reason = "done", .steps = steps},
        [](bool) {});
    root->look();
  };
  say_farewell(0, 1);
  for (std::uint32_t rank = 1; rank < 3; ++rank) {
    auto said = hello_of(rank);
    said.generation = said.steps = said.attempted_steps = 1;
    say_hello(*root, said);
  }
  links.take();
  links.now += timeouts.silence_ms / 1000.0 - 0.1;
  root->look();
  links.now += 0.2;
  for (int round = 0; round < 3; ++round)
    root->look();
  EXPECT_THAT(links.take(), Contains("place 1,2 of 2 through \"\""));
  EXPECT_FALSE(events->take().arbitrator);
  const auto last_said = [this] {
    messages::farewell said;
    for (const auto& row : rows->rows)
      if (const auto* entry = std::get_if<ledger::farewell>(&row.entry))
        said = entry->farewell;
    return said;
  };
  EXPECT_FALSE(last_said().succeeded) << "the ledger tells what became of its word";
  say_farewell(1, 400);
  say_farewell(2, 400);
  ASSERT_TRUE(events->take().arbitrator);
  EXPECT_TRUE(events->take().arbitrator->succeeded);
  EXPECT_EQ(events->take().arbitrator->reason, "w1 and w2 finished");
}

TEST_F(RootRole, TellsWhoeverIsRefusedWhyAndKeepsThemOnlyWhereAPlaceMayBecomeFree) {
  auto said = hello_of(0);
  said.host = "guest";
  links.take();
  say_hello(*root, said);
  EXPECT_THAT(links.take(), ElementsAre("answer host guest has no worker in the cluster file"));

  file.membership = cluster::membership_kind::open;
  file.workers_max = 4;
  file = cluster::with_places(file);
  root = make_root();
  for (const auto* host : {"guest", "other"}) {
    said = hello_of(0);
    said.host = host;
    links.take();
    say_hello(*root, said);
  }
  EXPECT_THAT(links.take(), ElementsAre("keep waiting", HasSubstr("answer all 1 places of the cluster are taken")));
}

TEST_F(RootRole, DismissesWhoeverWaitsForAPlaceOnceTheRunIsOver) {
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    root->look();
    EXPECT_THAT(links.dismissed, IsEmpty());
    root->take_farewell({.host = fmt::format("w{}", rank), .rank = rank, .succeeded = true, .reason = "done"},
                        [](bool) {});
  }
  root->look();
  EXPECT_THAT(links.dismissed, ElementsAre("training is over"));
}

TEST_F(RootRole, TakesNoAggregatorsInWhereItIsTheRootOfNoTree) {
  EXPECT_FALSE(root->takes_children());
}

TEST_F(AggregatorRole, ARootWaitsForAllMembersOfAGenerationThatItMeetsInMidTraining) {
  const auto root = make_root();
  auto said = hello_of(0);
  said.generation = 4;
  said.training = true;
  said.members = {0, 1, 2};
  said.steps = said.attempted_steps = 6ULL * file.arbitrator.window_steps;
  say_hello(*root, said);
  links.take();
  root->take_report(report_of(0, 7, 4));
  root->end_gathering(4, 7);
  EXPECT_THAT(links.take(), ElementsAre("deadline 7 of 4")) << "another may have obeyed a newer term";
}

class ShardRole : public AggregatorRole {
protected:
  void attach() {
    shard.find_parent();
    links.parent = true;
    links.attaching({5, {}});
  }
  void join(std::uint32_t rank) {
    say_hello(shard, hello_of(rank));
    messages::welcome accepted;
    accepted.rank = rank;
    links.hellos.back()(accepted);
  }
  /// A worker of generation 4 that trains finds `role`, and reports window 7. What comes of the report.
  auto come_in_mid_training(shard_role& role, std::uint32_t rank) {
    auto said = hello_of(rank);
    said.generation = 4;
    said.training = true;
    said.members = {0, 1, 2};
    say_hello(role, said);
    messages::welcome accepted;
    accepted.rank = rank;
    links.hellos.back()(accepted);
    links.take();
    role.take_report(report_of(rank, 7, 4));
    return links.take();
  }
  shard_role shard{std::make_shared<const cluster::cluster_file>(file),
                   timeouts,
                   {.host = "w0", .parent = "north", .incarnation = 9, .first_rank = 0, .workers = 2},
                   links};
};

TEST_F(ShardRole, SendsWorkersOnOnceItHasBeenWithoutAParentForLong) {
  say_hello(shard, hello_of(0));
  EXPECT_THAT(links.take(), ElementsAre("fail")) << "it has only begun";
  links.now += 6;
  say_hello(shard, hello_of(0));
  EXPECT_THAT(links.take(), ElementsAre("answer the shard of host w0 has lost its parent"));
}

TEST_F(ShardRole, AnswersAHelloWhenItsParentHas) {
  attach();
  links.take();
  say_hello(shard, hello_of(1));
  EXPECT_THAT(links.take(), ElementsAre("relay hello of w1"));
  messages::welcome accepted;
  accepted.rank = 1;
  links.hellos.back()(accepted);
  EXPECT_THAT(links.take(), ElementsAre("connect 1", "answer accepted"));
}

TEST_F(ShardRole, BelievesNoWelcomeThatComesAfterItIsAttachedAnew) {
  attach();
  say_hello(shard, hello_of(1));
  shard.lost_parent("it is gone");
  attach();
  links.take();
  messages::welcome accepted;
  accepted.rank = 1;
  links.hellos.back()(accepted);
  EXPECT_THAT(links.take(), ElementsAre("fail")) << "the worker says hello again, to whoever is the root now";
}

TEST_F(ShardRole, DecidesOnWithoutItsParent) {
  attach();
  join(1);
  shard.take_placement({1}, {.generation = 1, .members = {1}, .source = 1, .store_prefix = "x"});
  shard.lost_parent("it is gone");
  links.take();
  shard.take_report(report_of(1, 1));
  EXPECT_THAT(links.take(), ElementsAre("decide on 1 with 1 reports"));
}

TEST_F(ShardRole, BeginsAnewWhenItIsAttachedAgainWithWorkers) {
  attach();
  join(1);
  shard.lost_parent("it is gone");
  links.take();
  attach();
  EXPECT_THAT(links.take(), ElementsAre("attach", "begin anew"));
}

/// Its workers find it one after the other. The first one's window must not pass the others by.
TEST_F(ShardRole, WaitsInMidTrainingForTheOthersOfItsOwn) {
  attach();
  EXPECT_THAT(come_in_mid_training(shard, 0), ElementsAre("deadline 7 of 4"));
  EXPECT_THAT(come_in_mid_training(shard, 1), ElementsAre("decide on 7 with 2 reports")) << "w2 is another shard's";
}

/// It has no workers of its own: it takes those of a lost shard. It waits for nobody beyond its deadline.
TEST_F(ShardRole, WaitsInMidTrainingForWhoeverComesWhereItStandsBy) {
  shard_role standby{std::make_shared<const cluster::cluster_file>(file),
                     timeouts,
                     {.host = "north", .parent = "north", .incarnation = 9},
                     links};
  standby.find_parent();
  links.parent = true;
  links.attaching({5, {}});
  EXPECT_THAT(come_in_mid_training(standby, 1), ElementsAre("deadline 7 of 4"));
  EXPECT_THAT(come_in_mid_training(standby, 2), IsEmpty());
  standby.end_gathering(4, 7);
  EXPECT_THAT(links.take(), ElementsAre("decide on 7 with 2 reports"));
  standby.take_report(report_of(1, 8, 4));
  links.take();
  standby.take_report(report_of(2, 8, 4));
  EXPECT_THAT(links.take(), ElementsAre("decide on 8 with 2 reports"));
}

TEST_F(ShardRole, LooksForAnotherParentWhenItsSignsOfLifeAreNotAnswered) {
  attach();
  join(1);
  shard.take_beat({.rank = 1, .incarnation = 2});
  links.take();
  shard.tick();
  EXPECT_THAT(links.take(), IsEmpty());
  shard.tick();
  EXPECT_THAT(links.take(), ElementsAre("beats of 1"));
  links.unanswered();
  EXPECT_THAT(links.take(), ElementsAre("next parent"));
  EXPECT_FALSE(links.parent);
}

TEST_F(ShardRole, GoesToTheNextPlaceAfterFiveRefusalsButNotBeforeItsParentHadTimeToBegin) {
  const auto be_refused_five_times = [&] {
    for (int i = 0; i < 5; ++i) {
      shard.find_parent();
      links.attaching({});
    }
    return links.take();
  };
  EXPECT_EQ(std::ranges::count(be_refused_five_times(), "attach later"), 5);
  links.now += 6;
  const auto notes = be_refused_five_times();
  EXPECT_EQ(std::ranges::count(notes, "attach later"), 4);
  EXPECT_EQ(notes.back(), "next parent");
}

TEST_F(ShardRole, GoesToTheReplicaThatLeads) {
  shard.find_parent();
  links.take();
  links.attaching({.term = {}, .leader = "north2"});
  EXPECT_THAT(links.take(), ElementsAre("parent at north2"));
  shard.find_parent();
  links.take();
  links.attaching({}); // an election is under way
  EXPECT_THAT(links.take(), ElementsAre("attach later"));
}

TEST_F(ShardRole, DoesNotAnswerAWorkerThatIsToGoHome) {
  attach();
  join(1);
  const messages::heartbeat sign{.rank = 1, .incarnation = 2};
  EXPECT_TRUE(shard.take_beat(sign));
  shard.take_order({.leaving = {1}, .reason = {}});
  EXPECT_FALSE(shard.take_beat(sign));
}

TEST_F(ShardRole, JoinsTheWindowsOfAggregatorsBelowWhereItHasNoArbitrator) {
  links.arbitrator = false;
  attach();
  say_hello(shard, hello_of(1), "below");
  messages::welcome accepted;
  accepted.rank = 1;
  links.hellos.back()(accepted);
  shard.take_placement({1}, {.generation = 1, .members = {1}, .source = 1, .store_prefix = "x"});
  links.take();
  messages::shard_window window{.window = 1, .generation = 1, .expected = 1};
  window.reports.push_back(report_of(1, 1));
  window.choices.push_back({.rank = 1});
  shard.take_window(window);
  EXPECT_THAT(links.take(), ElementsAre("send up 1"));
}

} // namespace
} // namespace dynamix::actors
