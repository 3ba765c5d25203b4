#include "policy/guard.hpp"
#include "policy/state.hpp"
#include "samples.hpp"
#include "scripted_controller.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

namespace dynamix::policy {
namespace {

using ::testing::HasSubstr;
using batches = std::vector<std::uint32_t>;

constexpr cluster::batch limits{.initial = 64, .lowest = 8, .highest = 256};
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Two hosts, the second half as fast: 0.1 and 0.2 ms per sample, and an exchange of 5 ms.
class Guard : public ::testing::Test {
protected:
  Guard() {
    run_window({128, 128}); // so that step times are known to be proportional
    run_window({64, 64});
  }

  void run_window(const batches& in_force, double factor = 1, bool noise_known = true) {
    shard = testing::make_shard(2, ++window);
    for (std::size_t i = 0; i < 2; ++i) {
      auto& report = shard.reports[i];
      report.batch = in_force[i];
      report.global_batch = 128;
      report.training.compute_seconds = (i == 0 ? 1e-4 : 2e-4 * factor) * in_force[i];
      report.training.exchange_seconds = i == 0 ? 0.02 : 0.005;
      report.training.gradient_valid = noise_known;
      report.training.noise_scale = 10'000;
    }
    measured.measure(shard, {256, 256});
  }
  observation observed() const {
    return {.report = &shard, .assigned = {64, 64}, .highest = {256, 256}, .measured = &measured};
  }
  batches best() const { return measured.best().batches; }
  std::vector<choice> wants(const batches& wanted) const { return testing::choices_of(observed(), wanted); }
  /// Reviews these batch sizes, and remembers.
  guard_verdict ask(const batches& wanted) { return ask(wants(wanted)); }
  guard_verdict ask(const std::vector<choice>& choices) {
    auto verdict = review(choices, best(), observed(), rules, memory);
    memory = verdict.memory;
    return verdict;
  }

  measured_cluster measured{limits};
  messages::shard_report shard;
  std::uint64_t window = 0;
  guard_rules rules;
  guard_memory memory;
};

TEST_F(Guard, LetsAChoiceStandThatPromisesAsMuchAsTheHeuristic) {
  EXPECT_EQ(ask(best()).intervention, "");
  auto near_best = best();
  near_best[0] -= 3;
  EXPECT_EQ(ask(near_best).intervention, "");
}

TEST_F(Guard, StepsInWhereTheChoicePromisesLessThanTheMarginAllows) {
  const auto verdict = ask({64, 64});
  EXPECT_EQ(verdict.intervention, "slower than goodput");
  // 128 samples in 12.8 + 5 ms; some 250, split 2:1, in 16.6 + 5 ms, each worth 1.4 % less.
  EXPECT_EQ(verdict.reason, "the policy's batch sizes promise 7191 useful samples/s, 37.0 % less than the 11411 of "
                            "goodput's");
  rules.margin = 0.5;
  memory = {};
  EXPECT_EQ(ask({64, 64}).intervention, "");
}

TEST_F(Guard, BelievesTheNewestWindowWhereItSpeaksForThePolicy) {
  run_window({64, 64}, 0.85);
  rules.margin = 0;
  const std::vector<belief> newest(2, belief::newest);
  const auto wanted = measured.best(newest).batches;
  ASSERT_LT(measured.judge(wanted).goodput, measured.judge(best()).goodput);
  EXPECT_EQ(ask(wanted).intervention, "");
}

TEST_F(Guard, RefusesWhatIsNoChoice) {
  const auto refused = [this](auto spoil) {
    auto choices = wants(best());
    spoil(choices);
    memory = {};
    const auto verdict = ask(choices);
    EXPECT_EQ(verdict.intervention, "not a valid choice");
    return verdict.reason;
  };
  EXPECT_EQ(refused([](auto& choices) { choices[1].batch = 0; }), "the policy gave host-1 0 samples, outside [8, 256]");
  EXPECT_THAT(refused([](auto& choices) { choices[0].batch = 257; }), HasSubstr("host-0 257 samples, outside"));
  EXPECT_EQ(refused([](auto& choices) { choices[1].probabilities[0] = not_a_number; }),
            "the policy's numbers for host-1 are not finite");
  refused([](auto& choices) { choices[0].value = std::numeric_limits<float>::infinity(); });
  refused([](auto& choices) { choices[0].state = {not_a_number}; });
  EXPECT_EQ(refused([](auto& choices) { choices[1].rank = 0; }), "the policy chose for rank 0 in the place of host-1");
  EXPECT_EQ(refused([](auto& choices) { choices.pop_back(); }), "the policy made 1 choices for 2 workers");
}

TEST_F(Guard, LooksAtLimitsAloneWhileNothingIsMeasured) {
  auto seen = observed();
  measured_cluster fresh(limits);
  for (auto& report : shard.reports)
    report.training.compute_seconds = 0;
  fresh.measure(shard, {256, 256});
  seen.measured = &fresh;
  EXPECT_EQ(review(wants({256, 8}), {64, 64}, seen, rules, {}).intervention, "");
  EXPECT_EQ(review(wants({256, 7}), {64, 64}, seen, rules, {}).intervention, "not a valid choice");
}

TEST_F(Guard, GoesOnWithTheHeuristicUntilThePolicyComesClose) {
  rules.margin = 0.4; // {64, 64} gives away 37 %
  EXPECT_EQ(ask({8, 8}).intervention, "slower than goodput");
  EXPECT_EQ(ask({64, 64}).intervention, "not close enough yet");
  EXPECT_EQ(ask({64, 64}).intervention, "not close enough yet");
  EXPECT_EQ(ask({64, 64}).intervention, "") << "three windows are over";

  EXPECT_EQ(ask({8, 8}).intervention, "slower than goodput");
  EXPECT_EQ(ask(best()).intervention, "");
  EXPECT_EQ(ask({64, 64}).intervention, "") << "it came close in between";
}

TEST_F(Guard, ForgetsWithTheGeneration) {
  rules.margin = 0.4;
  ask({8, 8});
  shard.generation = 2;
  EXPECT_EQ(ask({64, 64}).intervention, "");
}

TEST_F(Guard, StepsInWhereThePolicyKeepsAWorkerAtABound) {
  rules.margin = 1;
  for (int i = 0; i < 7; ++i)
    EXPECT_EQ(ask({8, 80}).intervention, "") << i;
  const auto verdict = ask({8, 80});
  EXPECT_EQ(verdict.intervention, "batch stuck at a bound");
  EXPECT_THAT(verdict.reason, HasSubstr("kept host-0 at its bound for 8 windows, where goodput gives it 171 samples"));
  EXPECT_EQ(ask({8, 80}).intervention, "batch stuck at a bound") << "as long as it stays there";
  EXPECT_EQ(ask({9, 80}).intervention, "not close enough yet");
  EXPECT_EQ(ask({9, 80}).intervention, "not close enough yet");
  EXPECT_EQ(ask({8, 80}).intervention, "") << "the count begins anew";
}

TEST_F(Guard, SaysNothingAboutABoundThatTheHeuristicKeepsToo) {
  rules.margin = 1;
  for (int i = 0; i < 20; ++i) {
    const auto verdict = review(wants({256, 100}), {235, 117}, observed(), rules, memory);
    EXPECT_EQ(verdict.intervention, "");
    memory = verdict.memory;
  }
}

TEST_F(Guard, WithoutANoiseScaleComparesSplitsAndStopsGrowth) {
  measured = measured_cluster(limits);
  run_window({128, 128}, 1, false);
  run_window({64, 64}, 1, false);
  EXPECT_EQ(ask({86, 42}).intervention, "");
  EXPECT_EQ(ask({168, 84}).intervention, "") << "twice the initial global batch at most";
  const auto split = ask({84, 168});
  EXPECT_EQ(split.intervention, "slower than goodput");
  EXPECT_THAT(split.reason, HasSubstr("of the best split of as many"));
  memory = {};
  const auto grown = ask({176, 88});
  EXPECT_EQ(grown.intervention, "growth without a noise scale");
  EXPECT_THAT(grown.reason, HasSubstr("a global batch of 264, "));
  auto seen = observed();
  seen.assigned = {200, 100}; // before a restart, say
  EXPECT_EQ(review(wants({176, 88}), best(), seen, rules, {}).intervention, "");
}

/// In the first steps of training a small global batch stands, of which a larger one's samples per second say nothing.
TEST_F(Guard, LetsASmallStartStand) {
  run_window({16, 16});
  for (auto& report : shard.reports) {
    report.first_step = 0;
    report.global_batch = 32;
    ++report.window;
  }
  ++shard.window;
  measured.measure(shard, {256, 256});
  ASSERT_TRUE(measured.early());
  EXPECT_EQ(ask({21, 11}).intervention, "");
  EXPECT_EQ(ask({8, 24}).intervention, "slower than goodput") << "of splits there is something to say";
}

TEST_F(Guard, ComparesGlobalBatchesAloneWhereWorkersShareByTheirPaces) {
  const auto total = measured.judge(best()).total;
  const auto uneven = batches{8, static_cast<std::uint32_t>(total) - 8};
  ASSERT_EQ(ask(uneven).intervention, "slower than goodput") << "as shares";
  rules.balanced = true;
  memory = {};
  EXPECT_EQ(ask(uneven).intervention, "") << "the same global batch";
  EXPECT_EQ(ask({8, 8}).intervention, "slower than goodput");
  memory = {};
  EXPECT_EQ(ask({7, 64}).intervention, "not a valid choice");
  auto seen = *observed().report;
  seen.reports[1].balance.shared_cpus = 2;
  auto sharing = observed();
  sharing.report = &seen;
  EXPECT_EQ(review(wants(uneven), best(), sharing, rules, {}).intervention, "slower than goodput")
      << "one shares its cores, and keeps what is decided";
}

/// The range of training is [-1, 1] for every field, of which [-1.3, 1.3] counts as inside.
class GuardOfStates : public Guard {
protected:
  GuardOfStates() {
    rules.trained_on = {.low = std::vector<float>(state_size(), -1), .high = std::vector<float>(state_size(), 1)};
    state = std::vector<float>(state_size());
    for (const char* name : {"network_valid", "system_valid", "gradient_valid", "noise_valid", "plan_valid"})
      at(name) = 1;
  }
  float& at(const std::string& name) {
    const auto fields = state_fields();
    const auto found = std::ranges::find(fields, name, &state_field::name);
    return state.at(static_cast<std::size_t>(found - fields.begin()));
  }
  guard_verdict ask_in_this_state() {
    auto choices = wants(best());
    choices[1].state = state;
    memory = {};
    return ask(choices);
  }
  std::vector<float> state;
};

TEST_F(GuardOfStates, StepsInWhereTwoEntriesLieOutsideTheTraining) {
  at("relative_rtt") = 1.31F;
  at("batch_spread") = -1.29F;
  EXPECT_EQ(ask_in_this_state().intervention, "") << "one entry is a coincidence";
  at("batch_spread") = -1.31F;
  const auto verdict = ask_in_this_state();
  EXPECT_EQ(verdict.intervention, "state outside training");
  EXPECT_EQ(verdict.reason, "the policy was trained on relative_rtt from -1.00 to 1.00, that of host-1 is 1.31, and 1 "
                            "more entries of its state are outside");
  rules.trained_on = {};
  EXPECT_EQ(ask_in_this_state().intervention, "") << "not known";
}

TEST_F(GuardOfStates, SpeaksAgainstAChoiceOnlyWhereItGivesSomethingAwayAndWorkersShareByTheirPaces) {
  at("relative_rtt") = at("batch_spread") = 2;
  rules.balanced = true;
  EXPECT_EQ(ask_in_this_state().intervention, "");
}

TEST_F(GuardOfStates, DoesNotCountMaskedGroups) {
  std::ranges::fill(rules.trained_on.low, 0.5F);
  for (auto& entry : state)
    entry = 0.75F;
  EXPECT_EQ(ask_in_this_state().intervention, "");
  for (const char* name : {"relative_throughput", "relative_rtt", "retransmission_rate", "network_valid"})
    at(name) = 0;
  EXPECT_EQ(ask_in_this_state().intervention, "") << "the group network was not measured";
  at("network_valid") = 1;
  EXPECT_EQ(ask_in_this_state().intervention, "state outside training");
}

TEST_F(GuardOfStates, CountsAGroupThatWasMaskedInTraining) {
  for (auto* bounds : {&rules.trained_on.low, &rules.trained_on.high})
    std::ranges::fill(*bounds, 0.0F);
  std::ranges::fill(state, 0.0F);
  at("network_valid") = 1;
  EXPECT_EQ(ask_in_this_state().intervention, "");
  at("relative_throughput") = 0.2F;
  EXPECT_EQ(ask_in_this_state().intervention, "state outside training");
}

testing::measured_controller make_guarded_script(testing::scripted_controller::script script) {
  cluster::cluster_file file;
  file.batch = limits;
  file.arbitrator.balance = cluster::balance_kind::off; // shares are part of a choice
  return {make_guarded(std::make_unique<testing::scripted_controller>(std::move(script)), file, {}), limits};
}

/// The window of `guard` with a noise scale.
messages::shard_report measured_shard() {
  auto shard = testing::make_shard(2);
  for (auto& report : shard.reports) {
    report.batch = 64;
    report.global_batch = 128;
    report.training.gradient_valid = true;
    report.training.noise_scale = 10'000;
  }
  return shard;
}

TEST(GuardedController, GivesEveryoneTheHeuristicWhereItStepsIn) {
  auto guarded = make_guarded_script([](const observation& seen) { return testing::choices_of(seen, {8, 256}); });
  const auto choices = guarded.decide(measured_shard());
  ASSERT_EQ(choices.size(), 2U);
  EXPECT_GT(choices[0].batch, choices[1].batch) << "host-0 is twice as fast";
  EXPECT_EQ(choices[0].proposed, 8U);
  EXPECT_EQ(choices[1].proposed, 256U);
  for (const auto& made : choices) {
    EXPECT_EQ(made.action, -1);
    EXPECT_EQ(made.intervention, "slower than goodput");
    EXPECT_THAT(made.reason, HasSubstr("guard: the policy's batch sizes promise "));
    EXPECT_THAT(made.reason, HasSubstr("; " + std::to_string(made.batch) + " by goodput instead of " +
                                       std::to_string(made.proposed)));
    EXPECT_EQ(made.probabilities, (std::vector<float>{0.25F, 0.75F}));
  }
}

TEST(GuardedController, HandsOnWhatStands) {
  auto guarded = make_guarded_script(
      [](const observation& seen) { return testing::choices_of(seen, seen.measured->best().batches); });
  const auto made = guarded.decide(measured_shard()).front();
  EXPECT_EQ(made.action, 1);
  EXPECT_EQ(made.proposed, 0U);
  EXPECT_EQ(made.intervention, "");
  EXPECT_EQ(made.reason, "as scripted");
}

TEST(GuardedController, MakesValidChoicesOfInvalidOnesBeforeAnythingIsMeasured) {
  auto guarded = make_guarded_script([](const observation& seen) {
    auto choices = testing::choices_of(seen, {0});
    choices[0].probabilities[1] = not_a_number;
    return choices;
  });
  auto shard = measured_shard();
  for (auto& report : shard.reports)
    report.training.compute_seconds = 0;
  const auto choices = guarded.decide(shard, {64, 1000});
  ASSERT_EQ(choices.size(), 2U);
  EXPECT_EQ(choices[0].batch, 64U);
  EXPECT_EQ(choices[1].batch, 256U) << "what is assigned, within the limits";
  EXPECT_EQ(choices[1].rank, 1U);
  EXPECT_TRUE(choices[0].probabilities.empty()) << "numbers that are none go nowhere";
}

TEST(GuardedController, PassesTheRestThrough) {
  auto guarded =
      make_guarded_script([](const observation&) -> std::vector<choice> { throw std::out_of_range("torn"); });
  EXPECT_EQ(guarded->name(), "scripted");
  EXPECT_TRUE(guarded->learns());
  EXPECT_EQ(guarded->adopt({.version = 4}), "");
  EXPECT_EQ(guarded->version(), 4U);
  EXPECT_EQ(guarded->adopt({.version = 13}), "unlucky");
  EXPECT_THROW(guarded.decide(measured_shard()), std::out_of_range);
}

TEST(GuardedController, RefusesARangeOfOtherStates) {
  EXPECT_THROW(make_guarded(nullptr, {}, {.low = {0}, .high = {1}}), std::invalid_argument);
}

} // namespace
} // namespace dynamix::policy
