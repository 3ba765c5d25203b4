#include "policy/actions.hpp"
#include "policy/deliberation.hpp"
#include "policy/guard.hpp"
#include "policy/rivals.hpp"
#include "samples.hpp"
#include "scripted_controller.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <limits>
#include <numeric>
#include <random>

/// Bad policies under guard against the best heuristic alone, on toy hosts whose decisions come into force two windows
/// after the one decided on.
namespace dynamix::policy {
namespace {

using batches = std::vector<std::uint32_t>;

constexpr cluster::batch limits{.initial = 64, .lowest = 8, .highest = 1024};
constexpr double exchange_seconds = 0.01;
constexpr double noise_scale = 2000;
constexpr double jitter = 0.02;

class toy_loop {
public:
  explicit toy_loop(std::unique_ptr<controller> decider) : judge_(make_file(), std::move(decider)) {}

  static cluster::cluster_file make_file() {
    cluster::cluster_file file;
    file.batch = limits;
    file.arbitrator.balance = cluster::balance_kind::off; // what is decided is in force, share by share
    return file;
  }

  /// Runs one window and decides on it. Returns what was in force: samples per second, each as good as a first one.
  double run() {
    const auto in_force = pipeline_.front();
    const auto total = std::accumulate(in_force.begin(), in_force.end(), std::uint64_t{0});
    auto shard = testing::make_shard(static_cast<std::uint32_t>(in_force.size()), ++window_);
    std::uniform_real_distribution<double> factor(1 - jitter, 1 + jitter);
    double slowest = 0;
    double longest = 0;
    for (std::size_t i = 0; i < in_force.size(); ++i) {
      auto& training = shard.reports[i].training;
      const double seconds = (0.002 + 0.0002 * in_force[i]) / speeds[i];
      shard.reports[i].batch = in_force[i];
      shard.reports[i].global_batch = total;
      training.compute_seconds = seconds * factor(generator_);
      training.gradient_valid = true;
      training.noise_scale = noise_scale * factor(generator_);
      slowest = std::max(slowest, seconds);
      longest = std::max(longest, training.compute_seconds);
    }
    for (auto& report : shard.reports) {
      report.training.exchange_seconds = exchange_seconds + longest - report.training.compute_seconds;
      report.training.iteration_seconds = exchange_seconds + longest;
    }
    auto& next = pipeline_.emplace_back();
    const auto verdict = judge_.consider(shard);
    for (const auto& decision : verdict.decisions)
      next.push_back(decision.batch);
    interventions += verdict.window.workers.front().intervention.empty() ? 0 : 1;
    pipeline_.pop_front();
    const auto samples = static_cast<double>(total);
    return samples / (slowest + exchange_seconds) * (noise_scale + 256) / (noise_scale + samples);
  }

  std::vector<double> speeds = {1, 1, 0.5, 0.25};
  int interventions = 0;

private:
  deliberation judge_;
  std::mt19937_64 generator_{17};
  std::uint64_t window_ = 0;
  std::deque<batches> pipeline_ = std::deque<batches>(2, batches(4, limits.initial)); ///< in force, and next
};

struct bad_policy {
  const char* name;
  testing::scripted_controller::script script;
};
void PrintTo(const bad_policy& policy, std::ostream* out) {
  *out << policy.name;
}

batches add(const observation& seen, std::int32_t change) {
  batches wanted;
  for (const auto assigned : seen.assigned)
    wanted.push_back(apply_action(assigned, change, limits).batch);
  return wanted;
}

batches draw(std::mt19937_64& generator) {
  batches wanted;
  for (int i = 0; i < 4; ++i)
    wanted.push_back(limits.lowest + static_cast<std::uint32_t>(generator() % (limits.highest - limits.lowest + 1)));
  return wanted;
}

const bad_policy bad_policies[] = {
    {"always_more", [](const observation& seen) { return testing::choices_of(seen, add(seen, 100)); }},
    {"always_less", [](const observation& seen) { return testing::choices_of(seen, add(seen, -100)); }},
    {"random", [generator = std::mt19937_64(3)](
                   const observation& seen) mutable { return testing::choices_of(seen, draw(generator)); }},
    {"not_a_number",
     [generator = std::mt19937_64(5)](const observation& seen) mutable {
       auto choices = testing::choices_of(seen, draw(generator));
       choices[2].probabilities[0] = std::numeric_limits<float>::quiet_NaN();
       return choices;
     }},
    {"zero",
     [](const observation& seen) {
       return testing::choices_of(seen, {0, 0, 0, 0});
     }},
    {"from_bound_to_bound",
     [high = false](const observation& seen) mutable {
       high = !high;
       return testing::choices_of(seen, batches(4, high ? limits.highest : limits.lowest));
     }},
    {"a_little_too_much_to_the_slowest",
     [](const observation& seen) {
       auto wanted = seen.measured->best().batches;
       wanted[3] = wanted[3] * 6 / 5;
       return testing::choices_of(seen, wanted);
     }},
    {"most_to_the_slowest",
     [](const observation& seen) {
       return testing::choices_of(seen, {32, 32, 128, 512});
     }},
};

class GuardInTheLoop : public ::testing::TestWithParam<bad_policy> {};
INSTANTIATE_TEST_SUITE_P(Policies, GuardInTheLoop, ::testing::ValuesIn(bad_policies),
                         [](const auto& test) { return test.param.name; });

TEST_P(GuardInTheLoop, IsNeverSlowerThanTheHeuristicByMoreThanTheMargin) {
  const auto file = toy_loop::make_file();
  toy_loop alone(make_goodput());
  toy_loop guarded(make_guarded(std::make_unique<testing::scripted_controller>(GetParam().script), file, {}));
  toy_loop unguarded(std::make_unique<testing::scripted_controller>(GetParam().script));
  double worst_unguarded = 1;
  for (int window = 0; window < 210; ++window) {
    if (window == 110)
      alone.speeds = guarded.speeds = unguarded.speeds = {0.3, 1, 0.5, 1};
    const double best = alone.run();
    const double kept = guarded.run() / best;
    worst_unguarded = std::min(worst_unguarded, unguarded.run() / best);
    if (window < 10 || (window >= 110 && window < 120))
      continue; // what is not known yet cannot be predicted
    ASSERT_GE(kept, 1 - file.arbitrator.guard_margin - jitter) << "window " << window;
  }
  EXPECT_LT(worst_unguarded, 1 - file.arbitrator.guard_margin - jitter) << "it has something to guard against";
  EXPECT_GT(guarded.interventions, 20);
}

} // namespace
} // namespace dynamix::policy
