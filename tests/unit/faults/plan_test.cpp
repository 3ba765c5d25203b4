#include "faults/plan.hpp"
#include "storage/atomic_file.hpp"
#include "tests/unit/ledger/rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace dynamix::faults {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> errors_of(const std::string& text) {
  std::vector<std::string> messages;
  for (const auto& error : parse_plan_text(text, "p.toml").errors)
    messages.push_back(cluster::to_string(error));
  return messages;
}

TEST(Plan, ReadsWhatAPlanSays) {
  const auto read = parse_plan_text(R"([plan]
cluster = "../c.toml"
seed = 7
compare = false
one_at_a_time = false

[limits]
steps_lost_per_fault = 2
resume_seconds = 5

[[fault]]
kind = "kill"
target = ["worker", "rank:0"]
at_window = 3
every_seconds = 4
repeat = 10

[[fault]]
kind = ["partition", "delay"]
target = "w1"
rate_per_minute = 2.5
duration_seconds = 3
delay_ms = 20
direction = "out"
)",
                                    "a/soak.toml");
  ASSERT_THAT(read.errors, IsEmpty());
  const auto& plan = read.plan;
  EXPECT_EQ(plan.name, "soak");
  EXPECT_EQ(cluster_path(plan), "a/../c.toml");
  EXPECT_EQ(plan.seed, 7U);
  EXPECT_FALSE(plan.compare);
  EXPECT_FALSE(plan.one_at_a_time);
  EXPECT_EQ(plan.limits.steps_lost_per_fault, 2U);
  EXPECT_EQ(plan.limits.resume_seconds, 5);
  EXPECT_EQ(plan.limits.recover_seconds, 60) << "left to its default";
  ASSERT_EQ(plan.rules.size(), 2U);
  EXPECT_THAT(plan.rules[0].kinds, ElementsAre(fault_kind::kill));
  EXPECT_THAT(plan.rules[0].targets, ElementsAre("worker", "rank:0"));
  EXPECT_EQ(plan.rules[0].at_window, 3U);
  EXPECT_EQ(plan.rules[0].repeat, 10U);
  EXPECT_LT(plan.rules[0].at_seconds, 0);
  EXPECT_THAT(plan.rules[1].kinds, ElementsAre(fault_kind::partition, fault_kind::delay));
  EXPECT_EQ(plan.rules[1].rate_per_minute, 2.5);
  EXPECT_EQ(plan.rules[1].repeat, endless) << "at random without end";
  EXPECT_EQ(plan.rules[1].direction, fault_direction::out);
}

TEST(Plan, NamesThePlaceOfEachMistake) {
  EXPECT_THAT(errors_of("[plan]\nseed = 1.5\nspeed = 1\n[[fault]]\nkind = \"kil\"\ntarget = \"w1\"\nat_seconds = 1\n"),
              ElementsAre(HasSubstr("p.toml:2:8: plan.seed is a number with a fraction; it must be an integer in"),
                          HasSubstr("p.toml:3:1: plan.speed is unknown; did you mean \"seed\"?"),
                          HasSubstr("p.toml:5:8: fault.kind is \"kil\"; did you mean \"kill\"?")));
}

TEST(Plan, RefusesWhatIsNoPlan) {
  EXPECT_THAT(errors_of(""), ElementsAre(HasSubstr("p.toml:1:1: a plan has 1 to 256 sections [[fault]]")));
  EXPECT_THAT(errors_of("x ="), ElementsAre(HasSubstr("p.toml:1:")));
  EXPECT_THAT(errors_of("fault = 3"),
              ElementsAre(HasSubstr("p.toml:1:9: fault is an integer; it must be tables, each under [[fault]]")));
  EXPECT_THAT(errors_of("faults = 3"), ElementsAre(HasSubstr("p.toml:1:1: faults is unknown; did you mean \"fault\"?"),
                                                   HasSubstr("p.toml:1:1: a plan has")));
  EXPECT_THAT(cluster::to_string(read_plan("no/such.toml").errors.at(0)),
              HasSubstr("no/such.toml: there is no such file; a plan is a TOML file"));
}

TEST(Plan, RefusesAFaultThatMakesNoSense) {
  const std::string head = "[[fault]]\ntarget = \"w1\"\n";
  EXPECT_THAT(errors_of(head + "kind = \"kill\"\n"), ElementsAre(HasSubstr("p.toml:1:1: fault has no trigger")));
  EXPECT_THAT(errors_of(head + "kind = \"kill\"\nat_step = 1\nat_window = 1\n"),
              ElementsAre(HasSubstr("fault has several triggers")));
  EXPECT_THAT(errors_of(head + "kind = \"hang\"\nat_step = 1\n"),
              ElementsAre(HasSubstr("fault.duration_seconds is missing; a fault of kind \"hang\" needs it")));
  EXPECT_THAT(errors_of(head + "kind = \"kill\"\nat_step = 1\nfactor = 3\n"),
              ElementsAre(HasSubstr("p.toml:5:10: fault.factor means nothing to a fault of kind \"kill\"")));
  EXPECT_THAT(errors_of(head + "kind = \"reset\"\nat_step = 1\nduration_seconds = 3\n"),
              ElementsAre(HasSubstr("fault.duration_seconds means nothing to a fault of kind \"reset\"")));
  EXPECT_THAT(errors_of(head + "kind = \"kill\"\nat_step = 1\nrepeat = 3\n"),
              ElementsAre(HasSubstr("fault.every_seconds is missing")));
  EXPECT_THAT(errors_of(head + "kind = \"slow\"\nat_step = 1\nduration_seconds = 1\nfactor = 1\n"),
              ElementsAre(HasSubstr("fault.factor is 1; it must be in (1, 100]")));
  EXPECT_THAT(errors_of("[[fault]]\nkind = \"kill\"\nat_step = 1\n"),
              ElementsAre(HasSubstr("p.toml:1:1: fault.target is missing; it must be a string or a list of")));
}

TEST(Plan, NamesTargetsThatTheClusterDoesNotHave) {
  const auto file = ledger::testing::small_cluster(3);
  const auto read = parse_plan_text("[[fault]]\nkind = \"kill\"\ntarget = [\"w1\", \"w9\", \"rank:3\", \"leader\"]\n"
                                    "at_step = 1\n[[fault]]\nkind = \"kill\"\ntarget = \"rank:2\"\nat_step = 1\n",
                                    "p.toml");
  ASSERT_THAT(read.errors, IsEmpty());
  std::vector<std::string> messages;
  for (const auto& error : check_targets(read.plan, file))
    messages.push_back(cluster::to_string(error));
  EXPECT_THAT(messages, ElementsAre(HasSubstr("p.toml:3:10: fault.target is \"w9\"; did you mean \"w"),
                                    HasSubstr("p.toml:3:10: fault.target is \"rank:3\"; ranks are 0 to 2")));
}

/// All workers of an open cluster may be hosts that join.
TEST(Plan, RefusesWorkersWhereTheClusterFileHasNone) {
  auto file = ledger::testing::small_cluster(3);
  std::erase_if(file.hosts, [](const auto& host) { return host.name != "hub"; });
  const auto read = parse_plan_text("[[fault]]\nkind = \"kill\"\nat_step = 1\n"
                                    "target = [\"worker\", \"workers\", \"rank:0\", \"random\", \"arbitrator\"]\n",
                                    "p.toml");
  ASSERT_THAT(read.errors, IsEmpty());
  std::vector<std::string> messages;
  for (const auto& error : check_targets(read.plan, file))
    messages.push_back(error.message);
  EXPECT_THAT(messages, ElementsAre(HasSubstr("\"worker\"; no host of the cluster file has"),
                                    HasSubstr("\"workers\"; no host"), HasSubstr("\"rank:0\"; no host")));
}

const std::string joining =
    "[plan]\ncompare = false\n[[fault]]\nkind = \"join\"\ntarget = \"guest\"\nworkers = 2\nat_step = 1\n"
    "[[fault]]\nkind = \"leave\"\ntarget = \"guest\"\nat_step = 2\n";

TEST(Plan, HasHostsThatJoinAnOpenCluster) {
  const auto read = parse_plan_text(joining, "p.toml");
  ASSERT_THAT(read.errors, IsEmpty());
  auto file = ledger::testing::small_cluster(3);
  ASSERT_FALSE(check_targets(read.plan, file).empty());
  EXPECT_THAT(check_targets(read.plan, file).front().message,
              HasSubstr("hosts join where cluster.membership = \"open\""));
  file.membership = cluster::membership_kind::open;
  EXPECT_THAT(check_targets(read.plan, file), IsEmpty());
  const auto all = with_joining(read.plan, file);
  ASSERT_EQ(all.hosts.size(), file.hosts.size() + 1);
  EXPECT_TRUE(joins(all.hosts.back()));
  EXPECT_FALSE(joins(all.hosts.front()));
  EXPECT_EQ(all.workers().back()->name, "guest/1");
  EXPECT_THAT(errors_of("[[fault]]\nkind = [\"join\", \"kill\"]\ntarget = \"w1\"\nat_step = 1\n"),
              ElementsAre(HasSubstr("needs plan.compare = false"), HasSubstr("it stands alone")));
}

TEST(Plan, HasAScriptWhereTheClusterTrainsByScripts) {
  const std::string kill = "[[fault]]\nkind = \"kill\"\ntarget = \"w1/1\"\nat_step = 1\n";
  const auto with = parse_plan_text("[plan]\ncompare = false\nscript = \"train\"\n" + kill, "p.toml");
  ASSERT_THAT(with.errors, IsEmpty());
  const auto without = parse_plan_text(kill, "p.toml");
  auto file = ledger::testing::small_cluster(3);
  file.hosts[2].workers = 2;
  file.hosts[2].slots = cluster::make_slots(file.hosts[2]);
  const auto first = [&](const plan_result& read) {
    const auto errors = check_targets(read.plan, file);
    return errors.empty() ? "" : errors.front().message;
  };
  EXPECT_THAT(first(with), HasSubstr("plan.script needs a cluster file with training.trainer = \"client\""));
  EXPECT_THAT(first(without), HasSubstr("\"w1/1\", of which only plan.script could be a process"));
  file.training.trainer = cluster::trainer_kind::client;
  EXPECT_EQ(first(with), "");
  EXPECT_THAT(first(without), HasSubstr("plan.script is missing"));
  const auto reset = parse_plan_text("[plan]\ncompare = false\nscript = \"train\"\n[[fault]]\nkind = \"reset\"\n"
                                     "target = \"w1/1\"\nat_step = 1\n",
                                     "p.toml");
  EXPECT_THAT(first(reset), HasSubstr("a script, to which a fault of kind \"reset\" means nothing"));
}

TEST(Plan, EveryShippedPlanFitsItsCluster) {
  std::size_t plans = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DYNAMIX_SOURCE_DIRECTORY "/deployments/faults")) {
    EXPECT_EQ(entry.path().extension(), ".toml") << entry.path() << " is not a plan";
    ++plans;
    const auto read = read_plan(entry.path().string());
    for (const auto& error : read.errors)
      ADD_FAILURE() << cluster::to_string(error);
    const auto parsed = cluster::read_cluster_file(cluster_path(read.plan));
    for (const auto& error : parsed.errors)
      ADD_FAILURE() << cluster::to_string(error);
    for (const auto& error : check_targets(read.plan, parsed.file))
      ADD_FAILURE() << cluster::to_string(error);
  }
  EXPECT_GE(plans, 8U);
}

TEST(Plan, IsDocumentedFieldByField) {
  std::string text;
  ASSERT_EQ(storage::read_file(DYNAMIX_SOURCE_DIRECTORY "/docs/faults.md", 1U << 20, text), "");
  EXPECT_THAT(text, HasSubstr(describe_plan_markdown())) << "docs/faults.md should hold:\n" << describe_plan_markdown();
}

TEST(Plan, EndsAfterItsLastFaultOnlyWhereThereIsOneAndNothingToCompareWith) {
  const std::string fault = "[[fault]]\nkind = \"kill\"\ntarget = \"w1\"\n";
  const auto read = parse_plan_text("[plan]\ncompare = false\nafter_last_fault_seconds = 2.5\n" + fault +
                                        "rate_per_minute = 6\nrepeat = 4\n",
                                    "p.toml");
  EXPECT_THAT(read.errors, IsEmpty());
  EXPECT_EQ(read.plan.after_last_fault_seconds, 2.5);
  EXPECT_LT(parse_plan_text(fault + "at_window = 1\n", "p.toml").plan.after_last_fault_seconds, 0);
  EXPECT_THAT(
      errors_of("[plan]\nafter_last_fault_seconds = 2\n" + fault + "rate_per_minute = 6\n"),
      ElementsAre("p.toml:2:28: plan.after_last_fault_seconds needs plan.compare = false; a run that ends early "
                  "cannot be compared with one that does not",
                  "p.toml:2:28: plan.after_last_fault_seconds means nothing while the fault of line 3 goes on "
                  "for ever; give that a repeat"));
}

TEST(Plan, RepeatsItsFaultsAsOftenAsItIsToldTo) {
  const std::string once = "[[fault]]\nkind = \"kill\"\ntarget = \"w1\"\nat_window = 1\n";
  const std::string for_ever = "[[fault]]\nkind = \"kill\"\ntarget = \"w1\"\nrate_per_minute = 6\n";
  auto plan = parse_plan_text(once + for_ever + once + "repeat = 3\nevery_seconds = 2\n", "p.toml").plan;
  EXPECT_TRUE(repeat_faults(plan, 10'000));
  EXPECT_EQ(plan.rules.at(0).repeat, 1U);
  EXPECT_EQ(plan.rules.at(1).repeat, endless);
  EXPECT_EQ(plan.rules.at(2).repeat, 10'000U);
  plan.rules.pop_back();
  EXPECT_FALSE(repeat_faults(plan, 10'000));
}

} // namespace
} // namespace dynamix::faults
