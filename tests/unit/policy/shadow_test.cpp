#include "policy/shadow.hpp"
#include "samples.hpp"
#include "scripted_controller.hpp"

#include <gtest/gtest.h>

namespace dynamix::policy {
namespace {

using testing::choices_of;
using testing::measured_controller;
using testing::scripted_controller;

std::unique_ptr<controller> make_watcher() {
  return make_shadow(std::make_unique<scripted_controller>([](const observation& seen) {
    return choices_of(seen, {128, 32});
  }));
}

TEST(Shadow, DecidesAndChangesNothing) {
  measured_controller watcher(make_watcher(), cluster::batch{});
  const auto choices = watcher.decide(testing::make_shard(2), {64, 65});
  ASSERT_EQ(choices.size(), 2U);
  EXPECT_EQ(choices[0].batch, 64U);
  EXPECT_EQ(choices[1].batch, 65U);
  EXPECT_EQ(choices[0].proposed, 128U);
  EXPECT_EQ(choices[1].proposed, 32U);
  EXPECT_EQ(choices[0].action, -1) << "there is nothing to learn from what was not done";
  EXPECT_EQ(choices[0].reason, "shadow: would set 128: as scripted");
  EXPECT_EQ(choices[0].probabilities, (std::vector<float>{0.25F, 0.75F})) << "what the policy thought stays visible";
  EXPECT_FALSE(watcher->learns());
}

TEST(Shadow, PassesTheRestThrough) {
  const auto watcher = make_watcher();
  EXPECT_EQ(watcher->name(), "scripted");
  EXPECT_EQ(watcher->adopt({.version = 4}), "");
  EXPECT_EQ(watcher->version(), 4U);
  EXPECT_EQ(watcher->adopt({.version = 13}), "unlucky");
}

TEST(Shadow, ShowsWhatTheGuardWouldHaveDone) {
  measured_controller watcher(make_shadow(std::make_unique<scripted_controller>([](const observation& seen) {
                                auto choices = choices_of(seen, {100});
                                choices[0].proposed = 900;
                                choices[0].intervention = "slower than goodput";
                                return choices;
                              })),
                              cluster::batch{});
  const auto made = watcher.decide(testing::make_shard(1)).front();
  EXPECT_EQ(made.proposed, 100U);
  EXPECT_EQ(made.intervention, "slower than goodput");
}

} // namespace
} // namespace dynamix::policy
