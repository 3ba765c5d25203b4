/// What AdaptDL's GoodputFunction gives for the parameters that its tests draw (adaptdl/adaptdl/goodput.py and
/// goodput_test.py at 542e123; numpy's RandomState(0).gamma(2, 2)), asked of the formulas that simulations go by. No
/// code is theirs. docs/peers.md has the table.
///
/// Their variance is that of the gradient at B0, so the noise scale in samples is var B0/sqr. Their network time is a
/// line in the number of replicas, which the tests here take as it is: ours follows from links.

#include "simulator/learning.hpp"
#include "simulator/step_model.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace dynamix::simulator {
namespace {

struct drawn {
  double fixed; ///< alpha_c
  double per_sample;
  double network; ///< of these replicas
  double gamma;
  double sqr;
  double var;
  double replicas;
  double batch; ///< of a replica
  double throughput;
  double efficiency;
};

constexpr double initial_batch = 16;

constexpr drawn goldens[] = {
    {10.277659152680489, 4.476961823585069, 1.00000001e-08, 5.709733910861179, 2.331282857048392, 10.75082206800458,
     1.0, 16.0, 0.19533861430705596, 1.0},
    {3.657470106586067, 4.61574384153809, 2.8311814571665574, 5.321802740439978, 1.7144129128299535, 4.92852581369213,
     2.0, 24.0, 0.41945090911068783, 0.6595605657881397},
    {13.299270730357025, 0.8117896722735619, 26.56098587588002, 7.625854655232109, 1.9463691107910757,
     5.402676855336671, 4.0, 12.0, 1.7394330283659445, 0.6537259427344376},
    {7.501415726942548, 1.2928093362554973, 13.944778777113765, 2.8136601287944982, 4.4639290893685635,
     1.2326495231674628, 8.0, 20.0, 4.657988238659533, 0.12418438288786962},
};

double throughput(const drawn& of, double batch) {
  return of.replicas * batch / step_seconds(of.fixed + of.per_sample * batch, of.network, of.gamma);
}

double efficiency(const drawn& of, double global_batch) {
  return learning{.initial_batch = initial_batch, .reference_batch = initial_batch}.efficiency(
      of.var * initial_batch / of.sqr, global_batch);
}

TEST(AdaptdlsGoodput, IsWhatAStepHereTakesAndASampleIsWorth) {
  for (const auto& golden : goldens) {
    EXPECT_NEAR(throughput(golden, golden.batch), golden.throughput, 1e-9 * golden.throughput);
    EXPECT_NEAR(efficiency(golden, golden.replicas * golden.batch), golden.efficiency, 1e-9);
  }
}

/// test_evaluate: a larger batch is worth less a sample, and faster, by less and less.
TEST(AdaptdlsGoodput, FallsAndRisesWithTheBatchAsTheirsDoes) {
  for (const auto& golden : goldens)
    for (double batch = 8; batch <= 24; batch += 4) {
      EXPECT_LE(efficiency(golden, 2 * batch + 4), efficiency(golden, 2 * batch));
      EXPECT_LE(efficiency(golden, 2 * batch), 1);
      const double gained = throughput(golden, batch + 4) - throughput(golden, batch);
      EXPECT_GE(gained, 0);
      EXPECT_LE(throughput(golden, batch + 8) - throughput(golden, batch + 4), gained);
    }
}

/// scaling_rules_test: the factors of AdaScale for a variance of 2 and a squared gradient of 1, and for noise alone.
TEST(AdaptdlsGoodput, HasItsFactorsOfAdascale) {
  const learning ours{.initial_batch = 10, .reference_batch = 10};
  constexpr std::pair<double, double> factors[] = {{0.5, 0.6}, {1, 1}, {2, 1.5}, {4, 2}, {10, 2.5}};
  for (const auto& [scale, expected] : factors) {
    EXPECT_NEAR(ours.rate_factor(20, 10 * scale), expected, 1e-12);
    EXPECT_NEAR(ours.rate_factor(1e12, 10 * scale), scale, 1e-9);
  }
}

} // namespace
} // namespace dynamix::simulator
