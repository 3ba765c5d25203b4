#include "policy/trace_network.hpp"
#include "policy/trace_ppo.hpp"
#include "policy/traces.hpp"
#include "tests/unit/seeds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace dynamix::policy {
namespace {

using batches = std::vector<std::uint32_t>;

/// Workers whose step takes a + c b seconds, an exchange that follows, and a gradient noise scale.
class small_world {
public:
  small_world(std::vector<double> fixed, std::vector<double> per_sample, double exchange, double noise_scale,
              double least_total = 0)
      : per_sample_(std::move(per_sample)), fixed_(std::move(fixed)), exchange_(exchange), noise_scale_(noise_scale),
        highest_(fixed_.size(), 4096), in_force_(fixed_.size(), 64) {
    for (std::size_t i = 0; i < fixed_.size(); ++i)
      workers_.emplace_back(trace_worker::limits{.lowest = 1, .highest = highest_[i], .least_total = least_total});
  }

  void step() {
    std::vector<trace> laid;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].measure(in_force_[i], seconds(i, in_force_[i]));
      laid.push_back(decode_trace(encode(workers_[i].choose(field_, noise_scale_, hand_action))));
    }
    field_.deposit(laid);
    for (auto& each : workers_)
      each.pass_barrier(field_, slowest(in_force_) + exchange_);
    in_force_ = batches_of(laid, in_force_, 1, highest_);
  }
  double seconds(std::size_t worker, double batch) const { return fixed_[worker] + per_sample_[worker] * batch; }
  double slowest(const batches& split) const {
    double longest = 0;
    for (std::size_t i = 0; i < split.size(); ++i)
      longest = std::max(longest, seconds(i, split[i]));
    return longest;
  }
  double goodput(const batches& split) const {
    const double total = std::accumulate(split.begin(), split.end(), 0.0);
    return total / (noise_scale_ + total) / (slowest(split) + exchange_);
  }
  /// By trying every step time.
  double best_goodput() const {
    double best = 0;
    for (double time = 0.01; time < 60; time *= 1.002) {
      batches split;
      for (std::size_t i = 0; i < fixed_.size(); ++i)
        split.push_back(
            static_cast<std::uint32_t>(std::clamp((time - fixed_[i]) / per_sample_[i], 1.0, 1.0 * highest_[i])));
      best = std::max(best, goodput(split));
    }
    return best;
  }

  std::vector<double> per_sample_;
  const batches& in_force() const { return in_force_; }

private:
  std::vector<double> fixed_;
  double exchange_;
  double noise_scale_;
  batches highest_;
  batches in_force_;
  trace_field field_;
  std::vector<trace_worker> workers_;
};

TEST(Traces, TravelAsFloatsAndNonsenseIsNobodysTrace) {
  const trace laid{.batch = 4095, .arrival = 0.25, .aim = 0.5, .expected = 0.75, .supply = 1024};
  const auto back = decode_trace(encode(laid));
  EXPECT_EQ(back.batch, 4095U);
  EXPECT_EQ(back.arrival, 0.25);
  EXPECT_EQ(back.aim, 0.5);
  EXPECT_EQ(back.expected, 0.75);
  EXPECT_EQ(back.supply, 1024);
  constexpr float wrong[] = {-1, 1e20F, std::numeric_limits<float>::quiet_NaN(),
                             std::numeric_limits<float>::infinity()};
  for (std::size_t place = 0; place < trace_floats; ++place)
    for (const float value : wrong) {
      auto slot = encode(laid);
      slot[place] = value;
      EXPECT_EQ(decode_trace(slot).batch, 0U) << place << ": " << value;
    }
  EXPECT_EQ(decode_trace(trace_slot{}).batch, 0U);
}

TEST(Traces, NameTheBatchSizesOfAll) {
  std::vector<trace> laid = {{.batch = 10, .arrival = 1, .aim = 1, .expected = 1},
                             {.batch = 900, .arrival = 1, .aim = 1, .expected = 1}};
  EXPECT_EQ(batches_of(laid, {64, 64}, 16, batches{512, 512}), (batches{16, 512}));
  laid[1].batch = 0;
  EXPECT_EQ(batches_of(laid, {64, 64}, 16, batches{512, 512}), (batches{64, 64})) << "one has not measured itself";
  laid.pop_back();
  EXPECT_EQ(batches_of(laid, {64, 64}, 16, batches{512, 512}), (batches{64, 64})) << "one has laid nothing";
}

/// The same as the field's, written down as it is said: mass by mass.
std::array<double, trace_field::cells> slow_density(const std::vector<std::vector<double>>& steps) {
  constexpr auto cells = trace_field::cells;
  std::array<double, cells> mass{};
  for (const auto& arrivals : steps) {
    std::array<double, cells> next{};
    for (std::size_t from = 0; from < cells; ++from)
      for (std::size_t to = 0; to < cells; ++to) {
        double share = 0;
        if (to + 1 == from || from + 1 == to)
          share = 0.1;
        else if (to == from)
          share = from == 0 || from + 1 == cells ? 0.9 : 0.8; // nothing leaves at the ends
        next[to] += 0.95 * share * mass[from];
      }
    const double slowest = std::ranges::max(arrivals);
    for (const double arrival : arrivals)
      for (std::size_t cell = 0; cell < cells; ++cell)
        if (arrival / slowest > static_cast<double>(cell) / cells &&
            arrival / slowest <= static_cast<double>(cell + 1) / cells)
          next[cell] += 0.05 / static_cast<double>(arrivals.size());
    mass = next;
  }
  return mass;
}

TEST(TraceField, EvaporatesAndSpreadsInTheOrderOfArrival) {
  storage::splitmix64 numbers(3);
  std::vector<std::vector<double>> steps;
  trace_field field;
  for (int step = 0; step < 60; ++step) {
    std::vector<trace> laid;
    steps.emplace_back();
    for (int worker = 0; worker < 5; ++worker) {
      const double arrival = 0.05 + 0.001 * numbers.below(950);
      steps.back().push_back(arrival);
      laid.push_back({.batch = 8, .arrival = arrival, .aim = 1, .expected = 1, .supply = 10});
    }
    field.deposit(laid);
  }
  const auto expected = slow_density(steps);
  for (std::size_t cell = 0; cell < trace_field::cells; ++cell)
    EXPECT_NEAR(field.arrivals()[cell], expected[cell], 1e-12) << cell;
  EXPECT_NEAR(std::accumulate(field.arrivals().begin(), field.arrivals().end(), 0.0), 1 - std::pow(0.95, 60), 1e-9);
  EXPECT_EQ(field.total(), 40);
  EXPECT_EQ(field.supply(), 50);
}

TEST(TraceField, AimsAtTheMeanOfThoseWhomNoBoundHolds) {
  trace_field field;
  EXPECT_FALSE(field.ready());
  field.deposit(std::vector<trace>{{.batch = 4, .arrival = 1, .aim = 1, .expected = 2, .supply = 1},
                                   {.batch = 4, .arrival = 3, .aim = 4, .expected = 2, .supply = 1},
                                   {.batch = 1, .arrival = 2, .aim = 1.5, .expected = 1.5}});
  EXPECT_DOUBLE_EQ(field.aim(), 2);
  EXPECT_DOUBLE_EQ(field.slowest(), 3);
  EXPECT_DOUBLE_EQ(field.slowest_but_one(), 2);
  field.deposit(std::vector<trace>{{.batch = 4, .arrival = 1, .aim = 1, .expected = 1, .supply = 1},
                                   {.batch = 1, .arrival = 9, .aim = 9, .expected = 9}});
  EXPECT_DOUBLE_EQ(field.aim(), 9) << "a worker at its lowest batch size is waited for anyway";
}

/// Steps of three whose aim is a second and of one whose lowest batch size takes two; in every `each`-th step one of
/// the three takes so long.
trace_field delayed_field(double seconds, std::uint64_t each) {
  trace_field field;
  for (std::uint64_t step = 0; step < 200; ++step) {
    std::vector<trace> laid(4, {.batch = 8, .arrival = 1, .aim = 1, .expected = 1, .supply = 10});
    laid[3] = {.batch = 1, .arrival = 2, .aim = 2, .expected = 2};
    for (auto& one : laid)
      one.aim = one.expected = one.supply > 0 && field.ready() ? field.aim() : one.aim;
    for (std::size_t i = 0; i < 3; ++i)
      laid[i].arrival = field.ready() ? field.aim() : 1;
    if (step % each == 0)
      laid[step / each % 3].arrival *= seconds;
    field.deposit(laid);
  }
  return field;
}

TEST(TraceField, AimsBelowABoundByTheDelayThatIsCountedOn) {
  const auto calm = delayed_field(1, 1);
  EXPECT_DOUBLE_EQ(calm.lateness(), 0);
  EXPECT_NEAR(calm.bound(), 2, 0.01);
  EXPECT_DOUBLE_EQ(calm.aim(), 2) << "the one at its lowest batch size is waited for anyway";
  const auto delayed = delayed_field(1.6, 1);
  EXPECT_NEAR(delayed.lateness(), std::log(1.6), 1e-6);
  EXPECT_NEAR(delayed.bound(), 2 / 1.6, 0.01) << "the step takes two seconds as it is";
  EXPECT_DOUBLE_EQ(delayed_field(1.6, 3).lateness(), 0) << "a third of the steps are no rule";
  EXPECT_DOUBLE_EQ(delayed_field(0.5, 1).lateness(), 0);
}

TEST(TraceWorker, LearnsNothingOfTheExchangeFromAStepWhoseTracesAreNotAllThere) {
  trace_field field;
  trace_worker self({.lowest = 1, .highest = 512});
  const auto lay = [&] {
    self.measure(64, 0.1);
    return self.choose(field, 1000, hand_action);
  };
  const trace slow{.batch = 64, .arrival = 0.3, .aim = 0.3, .expected = 0.3, .supply = 100};
  for (int step = 0; step < 20; ++step) {
    field.deposit(std::vector<trace>{lay(), slow});
    ASSERT_TRUE(field.complete());
    self.pass_barrier(field, 0.3);
  }
  const double before = self.elasticity();
  EXPECT_GT(before, 0.99) << "the step takes what its slowest worker does";
  field.deposit(std::vector<trace>{lay(), {}}); // the slow one had fewer samples than its batch size, and lays nothing
  EXPECT_FALSE(field.complete());
  self.pass_barrier(field, 0.3);
  EXPECT_EQ(self.elasticity(), before) << "not that 0.2 s of it are the exchange's";
  field.deposit(std::vector<trace>{lay(), slow});
  self.pass_barrier(field, 0.3);
  EXPECT_GT(self.elasticity(), 0.99);
}

TEST(HandRule, ComesToTheBestGoodput) {
  // At 50 the slowest computes as little as it may, and the others fill the time that they wait for it.
  for (const double noise_scale : {50.0, 200.0, 500.0, 20000.0}) {
    small_world world({0.1, 0.02, 0.3, 0.05}, {0.001, 0.004, 0.002, 0.0015}, 0.2, noise_scale);
    for (int step = 0; step < 150; ++step)
      world.step();
    EXPECT_GT(world.goodput(world.in_force()), 0.97 * world.best_goodput()) << noise_scale;
  }
}

TEST(HandRule, KeepsTheLeastGlobalBatch) {
  for (const double least : {0.0, 400.0}) {
    small_world world({0.01, 0.01, 0.01, 0.01}, {0.002, 0.004, 0.002, 0.001}, 0.05, 5, least);
    for (int step = 0; step < 150; ++step)
      world.step();
    const auto total = std::accumulate(world.in_force().begin(), world.in_force().end(), 0.0);
    if (least == 0) {
      EXPECT_LT(total, 60) << "so little noise makes more samples worth little";
    } else {
      EXPECT_NEAR(total, least, 0.03 * least);
      EXPECT_GT(world.seconds(1, world.in_force()[1]), 0.9 * world.slowest(world.in_force())) << "level";
    }
  }
}

TEST(HandRule, TakesWorkFromASlowedWorkerInTheNextStep) {
  small_world world({0.01, 0.01, 0.01, 0.01}, {0.002, 0.002, 0.002, 0.002}, 0.05, 500);
  for (int step = 0; step < 60; ++step)
    world.step();
  const auto before = world.in_force();
  world.per_sample_[2] *= 4;
  world.step();
  EXPECT_LT(world.in_force()[2], before[2] / 3);
  world.step();
  const auto& split = world.in_force();
  for (const std::size_t other : {0, 1, 3})
    EXPECT_GT(world.seconds(other, split[other]), 0.8 * world.slowest(split)) << "waits for less than a fifth";
}

trace_view random_view(storage::splitmix64& numbers) {
  trace_view seen{};
  for (auto& each : seen)
    each = static_cast<float>(numbers.below(2001)) / 1000 - 1;
  return seen;
}

trace_network random_network(storage::splitmix64& numbers) {
  trace_network network(numbers);
  for (auto& each : network.weights())
    each += 0.3F * (static_cast<float>(numbers.below(2001)) / 1000 - 1);
  return network;
}

TEST(CentralWish, IsAFactorOnTheAimThatCountsFromWhatTheWorkersWouldDoWithoutIt) {
  central_wish wish;
  wish.close(4, 1000);
  wish.decide(4, 2000);
  const auto doubled = wish.correction();
  EXPECT_GT(doubled, 0);
  EXPECT_LT(doubled, std::log(2.0)) << "a wish among the workers'";
  wish.close(5, static_cast<std::uint64_t>(std::llround(1000 * std::exp(doubled))));
  wish.decide(5, 2000);
  EXPECT_NEAR(wish.correction(), doubled, 1e-3) << "the same wish says the same: it does not add up";
  wish.decide(17, 5);
  EXPECT_NEAR(wish.correction(), doubled, 1e-3) << "a window that nobody remembers";
  for (int window = 6; window < 30; ++window) {
    wish.close(window, 1);
    wish.decide(window, 1U << 31U);
  }
  EXPECT_LT(std::exp(wish.correction()), 2.1) << "bounded";
}

TEST(TraceNetwork, GradientIsThatOfFiniteDifferences) {
  storage::splitmix64 numbers(5);
  auto network = random_network(numbers);
  const auto seen = random_view(numbers);
  constexpr trace_network::values slopes{0, 0.25F, 0, 1, 0, 0, -0.5F};
  const auto weighted = [&] {
    const auto all = network.evaluate(seen);
    return std::inner_product(all.begin(), all.end(), slopes.begin(), 0.0F);
  };
  trace_network::parameters gradient{};
  network.differentiate(seen, slopes, gradient);
  constexpr float step = 1e-2F; // piecewise linear in every weight
  for (std::size_t i = 0; i < gradient.size(); i += 7) {
    const float before = network.weights()[i];
    network.weights()[i] = before + step;
    const float above = weighted();
    network.weights()[i] = before - step;
    const float below = weighted();
    network.weights()[i] = before;
    EXPECT_NEAR(gradient[i], (above - below) / (2 * step), 2e-2) << i;
  }
}

TEST(TraceNetwork, WithoutParametersIsTheHandRule) {
  storage::splitmix64 numbers(1);
  EXPECT_EQ(trace_network().best(random_view(numbers)), hand_action);
  EXPECT_EQ(trace_network(numbers).best(random_view(numbers)), hand_action) << "a fresh one too";
  trace_policy none;
  EXPECT_EQ(read_trace_policy({}, none), "");
  EXPECT_EQ(none.choose(4, random_view(numbers)), hand_action);
}

TEST(TraceLearner, LearnsWhichActionIsWorthMost) {
  storage::splitmix64 numbers(test_seed(7));
  trace_learner learner(trace_network(numbers), test_seed(11), {.learning_rate = 0.002, .discount = 0.5});
  const auto best = [](const trace_view& seen) { return seen[4] > 0 ? std::size_t{2} : std::size_t{5}; };
  for (int i = 0; i < 6000; ++i) {
    const auto seen = random_view(numbers);
    const auto action = numbers.below(trace_actions.size());
    learner.remember(
        {.seen = seen, .action = action, .reward = action == best(seen) ? 0.5F : -0.5F, .next = random_view(numbers)});
    learner.learn();
  }
  int right = 0;
  for (int i = 0; i < 500; ++i) {
    const auto seen = random_view(numbers);
    right += learner.network().best(seen) == best(seen) ? 1 : 0;
  }
  EXPECT_GT(right, 430) << "of 500";
}

TEST(TraceLearner, GoesOnFromWhatItSaved) {
  storage::splitmix64 numbers(9);
  trace_learner learner(trace_network(numbers), 3, {});
  const auto teach = [&](trace_learner& one) {
    storage::splitmix64 own(21);
    for (int i = 0; i < 200; ++i) {
      one.remember({.seen = random_view(own), .action = own.below(7), .reward = 0.3F, .next = random_view(own)});
      one.learn();
    }
  };
  teach(learner);
  const auto saved = learner.save();
  ASSERT_EQ(saved.size(), trace_learner::saved_numbers);
  trace_learner first(trace_network(), 4, {});
  trace_learner second(trace_network(numbers), 4, {});
  first.restore(saved);
  second.restore(saved);
  EXPECT_EQ(first.network().weights(), learner.network().weights());
  teach(first);
  teach(second);
  EXPECT_EQ(first.network().weights(), second.network().weights());
  EXPECT_NE(first.network().weights(), learner.network().weights());
}

TEST(TracePpo, LearnsWhichActionIsWorthMostAndBeginsWithTheHandRule) {
  storage::splitmix64 numbers(test_seed(7));
  const auto place = [&numbers] { return numbers.below(10'000) / 10'000.0; };
  const trace_ppo_learning how{.learning_rate = 0.003};
  trace_ppo_learner learner(trace_ppo_learner::fresh(numbers, how), test_seed(11), how);
  int by_hand = 0;
  for (int i = 0; i < 1000; ++i)
    by_hand += learner.draw(random_view(numbers), place()) == hand_action ? 1 : 0;
  EXPECT_NEAR(by_hand, 700, 60) << "of 1,000: as often as its options say";
  const auto best = [](const trace_view& seen) { return seen[4] > 0 ? std::size_t{2} : std::size_t{5}; };
  for (int round = 0; round < 60; ++round) {
    std::vector<trace_transition> lived;
    for (int i = 0; i < 256; ++i) {
      trace_transition one{.seen = random_view(numbers), .next = random_view(numbers)};
      one.action = learner.draw(one.seen, place());
      one.reward = one.action == best(one.seen) ? 0.5F : -0.5F;
      lived.push_back(one);
    }
    learner.learn_from(lived);
  }
  int right = 0;
  for (int i = 0; i < 500; ++i) {
    const auto seen = random_view(numbers);
    right += learner.network().best(seen) == best(seen) ? 1 : 0;
  }
  EXPECT_GT(right, 430) << "of 500";
}

TEST(TracePpo, GoesOnFromWhatItSaved) {
  storage::splitmix64 numbers(9);
  const auto lived = [&numbers](const trace_ppo_learner& by) {
    std::vector<trace_transition> all;
    for (int i = 0; i < 64; ++i) { // one minibatch, whose order says nothing
      trace_transition one{.seen = random_view(numbers), .reward = 0.1F * static_cast<float>(i % 3)};
      one.action = by.draw(one.seen, i / 64.0);
      all.push_back(one);
    }
    return all;
  };
  trace_ppo_learner learner(random_network(numbers), 3, {.passes = 1});
  learner.learn_from(lived(learner));
  const auto saved = learner.save();
  ASSERT_EQ(saved.size(), trace_ppo_learner::saved_numbers);
  EXPECT_GE(*std::min_element(saved.begin() + trace_ppo_learner::saved_squares, saved.end()), 0);
  trace_ppo_learner other(trace_network(), 4, {.passes = 1});
  other.restore(saved);
  EXPECT_EQ(other.network().weights(), learner.network().weights());
  const auto lesson = lived(learner);
  learner.learn_from(lesson);
  other.learn_from(lesson);
  for (std::size_t i = 0; i < trace_network::parameter_count; i += 11)
    EXPECT_NEAR(other.network().weights()[i], learner.network().weights()[i], 1e-4) << i;
  EXPECT_NE(other.network().weights(), trace_ppo_learner(trace_network(), 4, {}).network().weights());
}

TEST(TracePolicy, ComesBackFromItsFileAndRefusesAnothers) {
  storage::splitmix64 numbers(2);
  trace_policy policy{.networks = {random_network(numbers), random_network(numbers)}, .masked = true, .version = 12};
  const auto bytes = storage::encode(to_file(policy));
  trace_policy read;
  ASSERT_EQ(read_trace_policy(bytes, read), "");
  ASSERT_EQ(read.networks.size(), 2U);
  EXPECT_EQ(read.networks[1].weights(), policy.networks[1].weights());
  EXPECT_TRUE(read.masked);
  EXPECT_EQ(read.version, 12U);
  const auto seen = random_view(numbers);
  EXPECT_EQ(read.choose(3, seen), policy.networks[1].best(seen)) << "the third worker goes by the first's neighbour";

  const auto refused = [&](auto change) {
    auto file = to_file(policy);
    change(file);
    return from_file(file, read);
  };
  EXPECT_THAT(refused([](auto& file) { file.metadata["kind"] = "ppo"; }), testing::HasSubstr("its kind is \"ppo\""));
  EXPECT_THAT(refused([](auto& file) { file.metadata["version"] = "x"; }), testing::HasSubstr("not a number"));
  EXPECT_THAT(refused([](auto& file) { file.tensors.clear(); }), testing::HasSubstr("missing"));
  EXPECT_THAT(refused([](auto& file) { std::ranges::fill(file.tensors[0].data, std::uint8_t{0xff}); }),
              testing::HasSubstr("not finite"));
  EXPECT_EQ(read.version, 12U) << "nothing has changed";
}

TEST(ReflexAccount, CountsWhatWasMovedAndWhatTheWorkerFoundInItsWindow) {
  pace_tracker tracker;
  reflex_account account;
  for (int i = 0; i < 20; ++i)
    tracker.measure(64, 0.1);
  account.add(64, 64, false);
  tracker.measure(64, 0.4);
  account.add(20, 64, true);
  const auto window = account.take(tracker);
  EXPECT_EQ(window.moves, 1U);
  EXPECT_EQ(window.moved_samples, -44);
  EXPECT_EQ(window.changes, 1U);
  EXPECT_NEAR(window.newest_change, 4, 0.01);
  EXPECT_EQ(window.pace_change, 0) << "there is no window before";
  for (int i = 0; i < 5; ++i)
    tracker.measure(64, 0.1);
  EXPECT_NEAR(account.take(tracker).pace_change, 0.25, 0.01);
  const auto quiet = account.take(tracker);
  EXPECT_EQ(quiet.moves, 0U) << "each is told once";
  EXPECT_EQ(quiet.changes, 0U);
  EXPECT_EQ(quiet.moved_samples, 0);
  EXPECT_EQ(quiet.pace_change, 1);
}

} // namespace
} // namespace dynamix::policy
