/// The learners at work in small worlds whose best policy is known.

#include "policy/actions.hpp"
#include "policy/controller.hpp"
#include "policy/learner.hpp"
#include "policy/policy_file.hpp"
#include "policy/rollout.hpp"
#include "samples.hpp"
#include "tests/unit/seeds.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace dynamix::policy {
namespace {

/// The current policy of a learner, acting on states that need not come from reports.
class player {
public:
  explicit player(const cluster::cluster_file& file)
      : shape_(shape_of(file)), network_(make_network(shape_, file.seed)), generator_(file.seed) {}

  void adopt(const messages::policy_version& version) {
    std::uint64_t number = 0;
    ASSERT_EQ(from_bytes(version.parameters, shape_, network_, number), "");
  }

  /// One step for each state: drawn, without its reward.
  std::vector<messages::transition> play(const std::vector<std::vector<float>>& states) {
    std::vector<messages::transition> steps;
    for (const auto& state : states) {
      const auto probabilities = network_.probabilities(state);
      const auto action = draw_action(probabilities, generator_);
      steps.push_back({.state = state,
                       .action = static_cast<std::uint32_t>(action),
                       .log_probability = std::log(probabilities[action]),
                       .value = network_.value(state)});
    }
    return steps;
  }

  std::size_t best(const std::vector<float>& state) const { return best_action(network_.logits(state)); }

private:
  policy_shape shape_;
  policy_network network_;
  std::mt19937_64 generator_;
};

std::vector<float> one_hot(std::size_t index) {
  std::vector<float> state(state_size());
  state[index] = 1;
  return state;
}

/// Four contexts, each with one of five actions worth 1 and the others 0.
class contextual_bandit {
public:
  static constexpr std::size_t contexts = 4;
  static std::size_t best(std::size_t context) { return (2 * context + 1) % 5; }

  /// Mean reward of the updates' rollouts, in order.
  static std::vector<double> train(learner& trained, player& acting, std::uint64_t seed, int updates) {
    std::mt19937_64 generator(seed);
    std::vector<double> means;
    for (int update = 0; update < updates; ++update) {
      std::vector<messages::trajectory> rollout(8);
      double sum = 0;
      for (int step = 0; step < 16; ++step) {
        std::vector<std::size_t> drawn(rollout.size());
        std::vector<std::vector<float>> states;
        for (auto& context : drawn)
          states.push_back(one_hot(context = generator() % contexts));
        auto steps = acting.play(states);
        for (std::size_t i = 0; i < rollout.size(); ++i) {
          steps[i].reward = steps[i].action == best(drawn[i]) ? 1 : 0;
          sum += steps[i].reward;
          rollout[i].rank = static_cast<std::uint32_t>(i);
          rollout[i].transitions.push_back(steps[i]);
        }
      }
      means.push_back(sum / (16.0 * static_cast<double>(rollout.size())));
      acting.adopt(trained.update(rollout));
    }
    return means;
  }
};

struct bandit_result {
  double first = 0;  ///< mean reward of the first rollout
  double last = 0;   ///< and of the last
  bool right = true; ///< the best action of every context is the most probable one
};

bandit_result train_on_bandit(cluster::policy_kind kind, std::uint64_t seed, int updates) {
  auto file = testing::make_file(kind);
  file.seed = seed;
  file.ppo.learning_rate = 0.003;
  file.ppo.discount = 0; // rewards do not hang together
  const auto trained = make_learner(file, {});
  player acting(file);
  const auto means = contextual_bandit::train(*trained, acting, seed, updates);
  bandit_result result{.first = means.front(), .last = means.back()};
  for (std::size_t context = 0; context < contextual_bandit::contexts; ++context)
    result.right &= acting.best(one_hot(context)) == contextual_bandit::best(context);
  return result;
}

TEST(Ppo, SolvesAContextualBandit) {
  const auto solves = [](std::uint64_t seed) {
    const auto found = train_on_bandit(cluster::policy_kind::ppo_add, seed, 40);
    EXPECT_LT(found.first, 0.4);
    return found.last > 0.9 && found.right;
  };
  EXPECT_GE(count_seeds(5, solves), 4) << "of 5 seeds";
}

TEST(PpoSimple, ImprovesOnAContextualBandit) {
  const auto improves = [](std::uint64_t seed) {
    const auto found = train_on_bandit(cluster::policy_kind::ppo_simple, seed, 150);
    EXPECT_LT(found.first, 0.4);
    return found.last > 0.6;
  };
  EXPECT_GE(count_seeds(3, improves), 2) << "of 3 seeds";
}

TEST(Ppo, SolvesAChainThatTemptsToStay) {
  // Six states in a row. Going left pays 0.05 at once in the first state; going right pays 1 in the last one alone, and
  // leads back to the first. With a discount of 0.95 going right is best everywhere.
  constexpr std::size_t length = 6;
  const auto solves = [](std::uint64_t seed) {
    auto file = testing::make_file();
    file.seed = seed;
    file.arbitrator.actions = {-1, 0};
    file.ppo.learning_rate = 0.003;
    const auto trained = make_learner(file, {});
    player acting(file);
    std::vector<std::size_t> places(8, 0);
    for (int update = 0; update < 40; ++update) {
      std::vector<messages::trajectory> rollout(places.size());
      const auto states_now = [&places] {
        std::vector<std::vector<float>> states;
        std::ranges::transform(places, std::back_inserter(states), one_hot);
        return states;
      };
      for (int step = 0; step < 32; ++step) {
        auto steps = acting.play(states_now());
        for (std::size_t i = 0; i < places.size(); ++i) {
          const bool right = steps[i].action == 1;
          steps[i].reward = right ? (places[i] + 1 == length ? 1.0F : 0.0F) : (places[i] == 0 ? 0.05F : 0.0F);
          places[i] = right ? (places[i] + 1) % length : (places[i] == 0 ? 0 : places[i] - 1);
          rollout[i].rank = static_cast<std::uint32_t>(i);
          rollout[i].transitions.push_back(steps[i]);
        }
      }
      const auto following = acting.play(states_now());
      for (std::size_t i = 0; i < places.size(); ++i)
        rollout[i].bootstrap_value = following[i].value;
      acting.adopt(trained->update(rollout));
    }
    bool right = true;
    for (std::size_t place = 0; place < length; ++place)
      right &= acting.best(one_hot(place)) == 1;
    return right;
  };
  EXPECT_GE(count_seeds(5, solves), 3) << "of 5 seeds; by chance one in 64 would";
}

/// Two workers, the second three times as fast, who wait for each other every step. The reward is the negative step
/// time (1 where the slow one has 64) less a pressure to keep 256 samples in all: at its best, -1, at batches 64 and
/// 192.
class two_workers {
public:
  static constexpr double speeds[] = {1, 3};

  explicit two_workers(std::array<std::uint32_t, 2> batches) : batches_(batches) {}

  double reward() const { return -time(longest()) - 2 * std::abs(batches_[0] + batches_[1] - 256.0) / 256; }

  messages::shard_report report(std::uint64_t window, messages::decision_key in_force) const {
    messages::shard_report shard{.window = window, .generation = 1, .reports = {}, .expected = 2};
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      auto one = testing::make_report(rank, window, batches_[rank]);
      one.decision = in_force;
      one.training.compute_seconds = 0.1 * time(rank);
      one.training.iteration_seconds = 0.1 * time(longest());
      one.training.exchange_seconds = one.training.iteration_seconds - one.training.compute_seconds;
      shard.reports.push_back(one);
    }
    return shard;
  }

  /// Decides on a window and puts it in force for the next one.
  std::vector<choice> step(testing::measured_controller& decider, std::uint64_t window,
                           messages::decision_key in_force) {
    const auto shard = report(window, in_force);
    auto choices = decider.decide(shard, {batches_[0], batches_[1]});
    batches_ = {choices[0].batch, choices[1].batch};
    return choices;
  }

private:
  double time(std::uint32_t rank) const { return batches_[rank] / speeds[rank] / 64; }
  std::uint32_t longest() const { return time(0) > time(1) ? 0 : 1; }

  std::array<std::uint32_t, 2> batches_;
};

/// Mean reward of the last 10 of 40 windows from `start`, choosing the best action each time.
double greedy_reward(cluster::cluster_file file, const messages::policy_version& version,
                     std::array<std::uint32_t, 2> start) {
  file.arbitrator.mode = cluster::policy_mode::infer;
  auto decider = testing::make_measured(file, version.parameters);
  two_workers world(start);
  double sum = 0;
  for (std::uint64_t window = 1; window <= 40; ++window) {
    world.step(decider, window, {});
    if (window > 30)
      sum += world.reward() / 10;
  }
  return sum;
}

TEST(Ppo, BalancesTwoUnequalWorkers) {
  EXPECT_NEAR(two_workers({128, 128}).reward(), -2, 1e-9);
  EXPECT_NEAR(two_workers({64, 192}).reward(), -1, 1e-9);
  const auto balances = [](std::uint64_t seed) {
    auto file = testing::make_file();
    file.seed = seed;
    file.batch = {.initial = 128, .lowest = 16, .highest = 512};
    file.arbitrator.actions = {-32, -8, 0, 8, 32};
    file.ppo.learning_rate = 0.001;
    file.ppo.horizon = 128;
    auto decider = testing::make_measured(file, {});
    const auto trained = make_learner(file, {});
    std::mt19937_64 generator(seed);
    std::uint64_t window = 0;
    for (int update = 0; update < 120; ++update) {
      rollout_builder builder(file.ppo.horizon);
      std::vector<messages::trajectory> rollout;
      two_workers world({128, 128});
      for (int episode_window = 0; rollout.empty(); ++episode_window) {
        ++window;
        const messages::decision_key in_force{1, window - 1};
        for (std::uint32_t rank = 0; rank < 2; ++rank)
          builder.rewarded(rank, in_force, world.reward());
        for (const auto& one : world.step(decider, window, in_force))
          builder.decided({1, window}, one, decider->version());
        rollout = builder.take(2);
      }
      EXPECT_EQ(decider->adopt(trained->update(rollout)), "");
    }
    const auto version = trained->current();
    const double worst = std::min(greedy_reward(file, version, {128, 128}), greedy_reward(file, version, {192, 64}));
    return worst > -1.15;
  };
  EXPECT_GE(count_seeds(3, balances), 2) << "of 3 seeds";
}

} // namespace
} // namespace dynamix::policy
