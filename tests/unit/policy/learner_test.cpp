#include "policy/learner.hpp"
#include "policy/policy_file.hpp"
#include "policy/state_range.hpp"
#include "samples.hpp"
#include "storage/tensor_file.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace dynamix::policy {
namespace {

class EveryLearner : public ::testing::TestWithParam<cluster::policy_kind> {};

INSTANTIATE_TEST_SUITE_P(Kinds, EveryLearner,
                         ::testing::Values(cluster::policy_kind::ppo_add, cluster::policy_kind::ppo_simple));

TEST_P(EveryLearner, GoesOnBitForBitAfterSaveAndRestore) {
  const auto file = testing::make_file(GetParam());
  auto unbroken = make_learner(file, {});
  for (std::uint64_t update = 1; update <= 3; ++update)
    unbroken->update(testing::random_rollout(4, 16, update));
  const auto saved = unbroken->save();
  auto restored = make_learner(file, saved);
  EXPECT_EQ(restored->save(), saved);
  EXPECT_EQ(restored->current().policy_loss, unbroken->current().policy_loss);
  EXPECT_EQ(restored->current().entropy, unbroken->current().entropy);
  for (std::uint64_t update = 4; update <= 6; ++update) {
    const auto rollout = testing::random_rollout(4, 16, update);
    const auto expected = unbroken->update(rollout);
    const auto actual = restored->update(rollout);
    EXPECT_EQ(actual.version, update);
    EXPECT_EQ(actual.parameters, expected.parameters) << "update " << update;
    EXPECT_EQ(actual.value_loss, expected.value_loss);
    EXPECT_EQ(actual.approximate_kl, expected.approximate_kl);
  }
  EXPECT_EQ(restored->save(), unbroken->save());
}

TEST_P(EveryLearner, StartsFromAPolicysParametersWithFreshMoments) {
  const auto file = testing::make_file(GetParam());
  auto first = make_learner(file, {});
  const auto version = first->update(testing::random_rollout(2, 8, 1));
  auto second = make_learner(file, version.parameters);
  EXPECT_EQ(second->current().version, 1U);
  EXPECT_EQ(second->current().parameters, version.parameters);
  const auto rollout = testing::random_rollout(2, 8, 2);
  EXPECT_NE(second->update(rollout).parameters, first->update(rollout).parameters);
}

TEST_P(EveryLearner, IsTheSameForTheSameSeedAndAnotherForAnother) {
  auto file = testing::make_file(GetParam());
  const auto rollout = testing::random_rollout(2, 8, 1);
  const auto first = make_learner(file, {})->update(rollout).parameters;
  EXPECT_EQ(make_learner(file, {})->update(rollout).parameters, first);
  file.seed = 8;
  EXPECT_NE(make_learner(file, {})->update(rollout).parameters, first);
}

TEST_P(EveryLearner, LeavesOutTrajectoriesThatDoNotFit) {
  const auto file = testing::make_file(GetParam());
  const auto good = testing::random_rollout(2, 8, 1);
  const auto expected = make_learner(file, {})->update(good);
  std::vector<messages::trajectory> bad(7, good[0]);
  bad[0].transitions[3].state.pop_back();
  bad[1].transitions[3].action = 5;
  bad[2].transitions[3].reward = std::numeric_limits<float>::quiet_NaN();
  bad[3].bootstrap_value = std::numeric_limits<float>::infinity();
  bad[4].transitions[3].state[2] = std::numeric_limits<float>::infinity();
  bad[5].transitions[3].log_probability = -std::numeric_limits<float>::infinity();
  bad[6].transitions.clear();
  auto mixed = bad;
  mixed.insert(mixed.begin() + 3, good[0]);
  mixed.push_back(good[1]);
  EXPECT_EQ(make_learner(file, {})->update(mixed).parameters, expected.parameters);

  auto learner = make_learner(file, {});
  const auto before = learner->save();
  EXPECT_EQ(learner->update(bad).version, 0U);
  EXPECT_EQ(learner->update({}).version, 0U);
  EXPECT_EQ(learner->save(), before);
}

TEST_P(EveryLearner, KeepsFiniteParametersUnderAbsurdRewards) {
  const auto file = testing::make_file(GetParam());
  auto learner = make_learner(file, {});
  auto rollout = testing::random_rollout(2, 8, 1);
  for (auto& trajectory : rollout)
    for (auto& step : trajectory.transitions)
      step.reward = step.reward > 0 ? 3e38F : -3e38F;
  const auto version = learner->update(rollout);
  auto network = make_network(shape_of(file), 1);
  std::uint64_t number = 0;
  EXPECT_EQ(from_bytes(version.parameters, shape_of(file), network, number), "") << "it refuses what is not finite";
}

TEST_P(EveryLearner, RefusesWhatDoesNotFit) {
  const auto file = testing::make_file(GetParam());
  auto learner = make_learner(file, {});
  learner->update(testing::random_rollout(2, 8, 1));
  auto saved = learner->save();
  EXPECT_THROW(make_learner(file, {1, 2, 3}), std::invalid_argument);
  auto other = file;
  other.ppo.hidden = 32;
  EXPECT_THROW(make_learner(other, saved), std::invalid_argument);

  storage::tensor_file contents;
  ASSERT_EQ(storage::decode(saved, contents), "");
  auto without_moment = contents;
  std::erase_if(without_moment.tensors, [](const auto& record) { return record.name == "learner.policy.1.bias.mean"; });
  EXPECT_THROW(make_learner(file, storage::encode(without_moment)), std::invalid_argument);
  const auto with_last_byte = [&](const std::string& name, std::uint8_t byte) {
    auto changed = contents;
    const auto record = std::ranges::find(changed.tensors, name, &storage::tensor_record::name);
    if (record == changed.tensors.end() || record->data.empty())
      ADD_FAILURE() << name;
    else
      record->data.back() = byte;
    return storage::encode(changed);
  };
  for (const auto* name : {"learner.policy.1.bias.square", "learner.policy.1.bias.step", "learner.begun_at"}) // negative
    EXPECT_THROW(make_learner(file, with_last_byte(name, 0xbf)), std::invalid_argument) << name;
  const auto of_no_state = with_last_byte("range.low", 0x7e); // 8e37
  EXPECT_THROW(make_learner(file, of_no_state), std::invalid_argument);
  EXPECT_FALSE(trained_range(saved).low.empty());
  EXPECT_TRUE(trained_range(of_no_state).low.empty());
  auto bad_generator = contents;
  bad_generator.metadata["learner.generator"] = "1 2 3";
  EXPECT_THROW(make_learner(file, storage::encode(bad_generator)), std::invalid_argument);
  saved[saved.size() / 2] ^= 1;
  EXPECT_THROW(make_learner(file, saved), std::invalid_argument);
}

TEST(MakeLearner, GivesNoneWhereNothingIsLearned) {
  using cluster::policy_kind;
  for (const auto kind : {policy_kind::static_batch, policy_kind::lb_bsp, policy_kind::omnilearn, policy_kind::goodput})
    EXPECT_EQ(make_learner(testing::make_file(kind), {}), nullptr) << cluster::to_string(kind);
  auto frozen = testing::make_file();
  frozen.arbitrator.mode = cluster::policy_mode::infer;
  EXPECT_EQ(make_learner(frozen, {}), nullptr);
}

} // namespace
} // namespace dynamix::policy
