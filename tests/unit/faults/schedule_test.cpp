#include "faults/schedule.hpp"
#include "tests/unit/ledger/rows.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace dynamix::faults {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

fault_plan plan_of(const std::string& rules, std::uint64_t seed = 1) {
  auto read = parse_plan_text(rules, "p.toml");
  for (const auto& error : read.errors)
    ADD_FAILURE() << cluster::to_string(error);
  read.plan.seed = seed;
  return read.plan;
}

/// "3.0 kill w1" for each beginning, "4.0 end 2" for each end, at a tenth of a second's steps.
std::vector<std::string> story(const fault_plan& plan, double seconds, double busy_seconds = 0) {
  const auto file = ledger::testing::small_cluster(3);
  schedule planned(plan, file);
  std::vector<std::string> lines;
  double busy_until = -1;
  for (int tick = 0; tick <= static_cast<int>(seconds * 10); ++tick) {
    const double now = tick / 10.0;
    const auto at = std::to_string(tick / 10) + "." + std::to_string(tick % 10) + " ";
    const auto changes = planned.at({.seconds = now,
                                     .step = static_cast<std::uint64_t>(tick),
                                     .window = static_cast<std::uint64_t>(tick / 10),
                                     .leader = "hub",
                                     .busy = now < busy_until});
    for (const auto& fault : changes.end)
      lines.push_back(at + "end " + std::to_string(fault.number));
    for (const auto& fault : changes.begin) {
      std::string hosts;
      for (const auto& host : fault.hosts)
        hosts += " " + host;
      lines.push_back(at + std::string(to_string(fault.kind)) + hosts);
      busy_until = fault.end_seconds + busy_seconds;
    }
  }
  return lines;
}

TEST(Schedule, BeginsAtATimeAStepOrAWindowAndEndsAfterTheDuration) {
  EXPECT_THAT(story(plan_of("[plan]\none_at_a_time = false\n"
                            "[[fault]]\nkind = \"kill\"\ntarget = \"w1\"\nat_seconds = 0.5\n"
                            "[[fault]]\nkind = \"hang\"\ntarget = \"rank:2\"\nat_step = 12\nduration_seconds = 1\n"
                            "[[fault]]\nkind = \"kill\"\ntarget = \"leader\"\nat_window = 2\nduration_seconds = 0.5\n"),
                    5),
              ElementsAre("0.5 kill w1", "0.6 end 1", "1.2 hang w2", "2.0 kill hub", "2.2 end 2", "2.5 end 3"));
}

TEST(Schedule, HitsTheHostOfARankWhereHostsHaveSeveralWorkers) {
  auto file = ledger::testing::small_cluster(3);
  for (auto& host : file.hosts)
    if (host.name != "hub") {
      host.workers = 2;
      host.slots = cluster::make_slots(host);
    }
  const auto plan = plan_of("[[fault]]\nkind = \"kill\"\ntarget = [\"rank:1\", \"rank:5\"]\nat_seconds = 0\n");
  ASSERT_THAT(check_targets(plan, file), IsEmpty());
  schedule planned(plan, file);
  const auto changes = planned.at({.seconds = 0, .step = 0, .window = 0, .leader = "hub", .busy = false});
  ASSERT_EQ(changes.begin.size(), 1U);
  EXPECT_THAT(changes.begin.front().hosts, ElementsAre("w0", "w2"));
}

TEST(Schedule, Repeats) {
  EXPECT_THAT(story(plan_of("[plan]\nsettle_seconds = 0\n[[fault]]\nkind = \"kill\"\ntarget = \"workers\"\n"
                            "at_seconds = 1\nevery_seconds = 1.5\nrepeat = 3\n"),
                    10),
              ElementsAre("1.0 kill w0 w1 w2", "1.1 end 1", "2.5 kill w0 w1 w2", "2.6 end 2", "4.0 kill w0 w1 w2",
                          "4.1 end 3"));
}

TEST(Schedule, LetsAFaultWaitUntilTheOneBeforeIsRecoveredFrom) {
  const std::string rules = "[[fault]]\nkind = \"hang\"\ntarget = \"w1\"\nat_seconds = 1\nduration_seconds = 2\n"
                            "[[fault]]\nkind = \"kill\"\ntarget = \"w2\"\nat_seconds = 1.5\n";
  EXPECT_THAT(story(plan_of("[plan]\nsettle_seconds = 1\n" + rules), 10, 3),
              ElementsAre("1.0 hang w1", "3.0 end 1", "6.9 kill w2", "7.0 end 2"));
  EXPECT_THAT(story(plan_of("[plan]\none_at_a_time = false\n" + rules), 10, 3),
              ElementsAre("1.0 hang w1", "1.5 kill w2", "1.6 end 2", "3.0 end 1"));
}

const std::string at_random = "[plan]\none_at_a_time = false\n[[fault]]\nkind = [\"kill\", \"reset\"]\n"
                              "target = \"random\"\nrate_per_minute = 30\n";

TEST(Schedule, DrawsTheSameFromTheSameSeed) {
  const auto once = story(plan_of(at_random, 7), 600);
  EXPECT_EQ(once, story(plan_of(at_random, 7), 600));
  EXPECT_NE(once, story(plan_of(at_random, 8), 600));
  // 300 are expected, with a standard deviation of 17; each has an end.
  EXPECT_GT(once.size(), 2 * 200U);
  EXPECT_LT(once.size(), 2 * 400U);
  std::set<std::string> seen;
  for (const auto& line : once)
    seen.insert(line.substr(line.find(' ') + 1, 3) == "end" ? "end" : line.substr(line.find(' ') + 1));
  EXPECT_EQ(seen.size(), 1 + 2 * 4U) << "every kind hits every host";
}

TEST(Schedule, IsDoneWhenAllHasBegunThatHasAnEnd) {
  const auto file = ledger::testing::small_cluster(3);
  schedule endless_plan(plan_of(at_random), file);
  EXPECT_TRUE(endless_plan.done());
  schedule one(plan_of("[[fault]]\nkind = \"kill\"\ntarget = \"w1\"\nat_seconds = 1\n"), file);
  EXPECT_THAT(one.at({.seconds = 0.9}).begin, IsEmpty());
  EXPECT_FALSE(one.done());
  EXPECT_EQ(one.at({.seconds = 1}).begin.size(), 1U);
  EXPECT_TRUE(one.done());
}

TEST(Schedule, IsOverSoLongAfterTheLastFaultWasRecoveredFrom) {
  const auto file = ledger::testing::small_cluster(3);
  const std::string rules = "[[fault]]\nkind = \"hang\"\ntarget = \"w1\"\nat_seconds = 1\nduration_seconds = 2\n"
                            "every_seconds = 4\nrepeat = 2\n";
  schedule planned(plan_of("[plan]\ncompare = false\nafter_last_fault_seconds = 3\n" + rules), file);
  schedule unending(plan_of("[plan]\ncompare = false\n" + rules), file);
  double over_since = -1;
  for (int tick = 0; tick <= 300; ++tick) { // begins at 1 and 5 s, is recovered from at 4 and 9 s
    const double now = tick / 10.0;
    const moment seen{.seconds = now, .busy = (now > 1 && now < 4) || (now > 5 && now < 9)};
    planned.at(seen);
    unending.at(seen);
    if (over_since < 0 && planned.over(now))
      over_since = now;
    EXPECT_FALSE(unending.over(now));
  }
  EXPECT_NEAR(over_since, 9 + 3, 0.11);
}

TEST(Schedule, DrawsNoHostThatJoins) {
  auto file = ledger::testing::small_cluster(3);
  file.hosts.push_back({.name = "guest"});
  const auto plan = plan_of("[[fault]]\nkind = \"kill\"\ntarget = [\"worker\", \"workers\", \"random\"]\nat_step = 1\n"
                            "repeat = 30\nevery_seconds = 0.1\n[plan]\none_at_a_time = false\n");
  schedule planned(plan, file);
  for (int tick = 0; tick < 60; ++tick)
    for (const auto& fault : planned.at({.seconds = tick * 0.1, .step = 1}).begin)
      for (const auto& host : fault.hosts)
        EXPECT_NE(host, "guest");
  EXPECT_TRUE(planned.done());
}

} // namespace
} // namespace dynamix::faults
