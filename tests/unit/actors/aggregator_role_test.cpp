// What aggregators decide, in every place of a tree: without actors, with links that take notes.

#include "actors/aggregator/root_role.hpp"
#include "actors/aggregator/shard_role.hpp"
#include "cluster/places.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::actors {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using ranks = std::vector<std::uint32_t>;

/// Notes what an aggregator does to others; parents answer when the test lets them.
class noted_links final : public aggregator_links {
public:
  double now_seconds() const override { return now; }
  void place(const route& way, const ranks& workers, const messages::placement& place) override {
    note("place {} of {} through \"{}\"", fmt::join(workers, ","), place.generation, way);
  }
  void notify(const route& way, const ranks& workers, const messages::generation_notice& notice) override {
    note("notify {} of {} through \"{}\"", fmt::join(workers, ","), notice.generation, way);
  }
  void decide(const messages::decision& made) override { note("decide {}", made.rank); }
  void guide(const std::string& child, const messages::guidance& known) override {
    note("guide {} for {} workers", child, known.workers.size());
  }
  void order(const std::string& child, const messages::shard_order& given) override {
    note("order {} leaving {} finished {}", child, fmt::join(given.leaving, ","), given.finished);
  }
  void stop_all() override { note("stop all"); }
  void stop(std::uint32_t worker) override { note("stop {}", worker); }
  void dismiss_waiting(const messages::generation_notice& notice) override { dismissed.push_back(notice.reason); }
  void disconnect(std::uint32_t worker) override { note("disconnect {}", worker); }

  bool has_arbitrator() const override { return arbitrator; }
  void decide_on(const messages::shard_report& window) override {
    note("decide on {} with {} reports", window.window, window.reports.size());
  }
  void judge(const messages::shard_window& window) override {
    note("judge {} with {} reports", window.window, window.reports.size());
  }
  void raise_term(std::uint64_t term) override { note("term {}", term); }
  void enter(const messages::placement& place) override { note("enter {}", place.generation); }
  void lose(std::uint32_t worker) override { note("lose {}", worker); }
  void finish_arbitrator(std::function<void()> done) override { done(); }

  void look_soon() override { note("look soon"); }
  void await_deadline(std::uint64_t window) override { note("deadline {}", window); }
  void open_store(std::size_t meeting) override { note("store for {}", meeting); }
  std::function<void(std::uint64_t token, bool kept)> settled() override {
    return [](std::uint64_t, bool) {};
  }

  bool has_parent() const override { return parent; }
  void attach(const messages::shard_hello&, std::function<void(std::optional<std::uint64_t>)> answered) override {
    note("attach");
    attaching = std::move(answered);
  }
  void attach_later(double) override { note("attach later"); }
  void detach() override { parent = false; }
  void try_next_parent() override { note("next parent"); }
  void relay(const messages::hello& hello, std::function<void(std::optional<messages::welcome>)> answered) override {
    note("relay hello of {}", hello.host);
    hellos.push_back(std::move(answered));
  }
  void relay(const messages::farewell& said, std::function<void(bool taken)> answered) override {
    note("relay farewell of {}", said.rank);
    answered(true);
  }
  void report_absent(const messages::absence& gone) override { note("absent {}", gone.rank); }
  void report(const messages::evaluation_report&) override { note("evaluation"); }
  void report(const messages::beat_summary& summary, std::function<void()> failed) override {
    note("beats of {}", summary.beats.size());
    unanswered = std::move(failed);
  }
  void report(const messages::shard_window& window) override { note("send up {}", window.window); }
  void begin_anew() override { note("begin anew"); }

  template <class... Content>
  void note(fmt::format_string<Content...> text, Content&&... content) {
    notes.push_back(fmt::format(text, std::forward<Content>(content)...));
  }
  /// What was noted since the last call.
  std::vector<std::string> take() { return std::exchange(notes, {}); }

  double now = 1000;
  bool arbitrator = true;
  bool parent = false;
  std::vector<std::string> notes;
  std::vector<std::string> dismissed; ///< the reasons
  std::function<void(std::optional<std::uint64_t>)> attaching;
  std::vector<std::function<void(std::optional<messages::welcome>)>> hellos; ///< that wait for the parent
  std::function<void()> unanswered;
};

class rows_in_memory final : public ledger::writer {
public:
  void append(const ledger::row& row) override { rows.push_back(row); }
  std::vector<ledger::row> rows;
};

cluster::cluster_file file_of(std::uint32_t workers) {
  cluster::cluster_file file;
  file.name = "test";
  file.hosts = {{.name = "north", .port = 1, .roles = {cluster::role::arbitrator}}};
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    file.hosts.push_back({.name = fmt::format("w{}", rank), .port = static_cast<std::uint16_t>(rank + 2)});
  return file;
}

class AggregatorRole : public ::testing::Test {
protected:
  messages::hello hello_of(std::uint32_t rank) const {
    messages::hello said;
    said.cluster = file.name;
    said.cluster_digest = file.digest();
    said.host = fmt::format("w{}", rank);
    said.incarnation = rank + 1;
    said.heartbeat_interval_ms = timeouts.heartbeat_interval_ms;
    return said;
  }
  /// How the hello was answered.
  void say_hello(aggregator_role& aggregator, const messages::hello& said, const route& way = {}) {
    aggregator.take_hello(said, way,
                          {.connect = [this](std::uint32_t rank) { links.note("connect {}", rank); },
                           .keep_waiting = [this] { links.note("keep waiting"); },
                           .answer =
                               [this](const messages::welcome& welcome) {
                                 links.note("answer {}", welcome.verdict == messages::welcome_verdict::accepted
                                                             ? "accepted"
                                                             : welcome.detail);
                               },
                           .fail = [this] { links.note("fail"); }});
  }
  messages::window_report report_of(std::uint32_t rank, std::uint64_t window, std::uint64_t generation = 1) const {
    return {.host = fmt::format("w{}", rank), .rank = rank, .generation = generation, .window = window};
  }
  std::unique_ptr<root_role> make_root(root_options options = {}) {
    options.run_ledger = rows;
    options.events = events;
    return std::make_unique<root_role>(std::make_shared<const cluster::cluster_file>(file), timeouts,
                                       std::move(options), links);
  }

  cluster::cluster_file file = file_of(3);
  cluster::timeouts timeouts = cluster::derive_timeouts(1000);
  noted_links links;
  std::shared_ptr<rows_in_memory> rows = std::make_shared<rows_in_memory>();
  std::shared_ptr<host_events> events = std::make_shared<host_events>();
};

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
  EXPECT_THAT(links.take(), ElementsAre("deadline 1", "decide on 1 with 3 reports"));
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
  EXPECT_THAT(links.take(), ElementsAre("look soon", "connect 2", "stop 2", "answer accepted"));
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
  root->end_gathering(7);
  EXPECT_THAT(links.take(), ElementsAre("deadline 7")) << "another may have obeyed a newer term";
}

class RootOfATree : public AggregatorRole {
protected:
  RootOfATree() {
    file = file_of(6);
    file.arbitrator.topology = cluster::arbitration_topology::tree;
    file.arbitrator.fanout = 3;
    plan = cluster::plan_tree(file);
    root = make_root({.plan = plan});
    for (const auto child : plan.nodes[0].children) {
      const auto said = hello_of_shard(child);
      EXPECT_EQ(root->judge_child(said).verdict, messages::welcome_verdict::accepted);
      root->take_child(said);
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
  std::string home(std::uint32_t rank) const { return plan.nodes[plan.shard_of(rank)].host; }

  cluster::tree_plan plan;
  std::unique_ptr<root_role> root;
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
    root->take_child({.host = plan.nodes[child].host, .node = plan.nodes[child].host});
  links.take();
  say_hello(*root, hello_of(0), plan.nodes[shard].host);
  EXPECT_THAT(links.take(), Contains("answer accepted"));
  const auto& above = plan.nodes[plan.nodes[shard].parent].host;
  root->take_child({.host = above, .node = above});
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

TEST_F(RootOfATree, GuidesEachShardForItsWorkers) {
  links.take();
  messages::guidance known{.generation = 1, .window = 1};
  for (std::uint32_t rank = 0; rank < 5; ++rank)
    known.workers.push_back({.rank = rank});
  root->guide(known);
  EXPECT_THAT(links.take(), ::testing::UnorderedElementsAre(fmt::format("guide {} for 3 workers", home(0)),
                                                            fmt::format("guide {} for 2 workers", home(3))));
}

class ShardRole : public AggregatorRole {
protected:
  void attach() {
    shard.find_parent();
    links.parent = true;
    links.attaching(5);
  }
  void join(std::uint32_t rank) {
    say_hello(shard, hello_of(rank));
    messages::welcome accepted;
    accepted.rank = rank;
    links.hellos.back()(accepted);
  }
  shard_role shard{std::make_shared<const cluster::cluster_file>(file),
                   timeouts,
                   {.host = "w0", .parent = "north", .incarnation = 9},
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
      links.attaching(std::nullopt);
    }
    return links.take();
  };
  EXPECT_EQ(std::ranges::count(be_refused_five_times(), "attach later"), 5);
  links.now += 6;
  const auto notes = be_refused_five_times();
  EXPECT_EQ(std::ranges::count(notes, "attach later"), 4);
  EXPECT_EQ(notes.back(), "next parent");
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
