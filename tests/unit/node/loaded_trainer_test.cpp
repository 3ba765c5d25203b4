#include "node/reports/commit.hpp"
#include "node/training/loaded_trainer.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::node {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(LoadedTrainer, IsSoughtBesideTheProgramAndWhereItIsInstalled) {
  EXPECT_THAT(trainer_places("/usr/bin", ""),
              ElementsAre("/usr/bin/libdynamix-trainer.so", "/usr/lib/dynamix/libdynamix-trainer.so"));
  EXPECT_THAT(trainer_places("/usr/bin", "/opt/own.so"), ElementsAre("/opt/own.so")) << "$DYNAMIX_TRAINER";
}

TEST(LoadedTrainer, SaysWhatToInstallWhereItIsMissing) {
  const auto loaded = load_trainer({"/nowhere/one.so", "/nowhere/two.so"}, program_version());
  EXPECT_EQ(loaded.module, nullptr);
  EXPECT_THAT(loaded.problem, HasSubstr("there is no /nowhere/one.so and no /nowhere/two.so"));
  EXPECT_THAT(loaded.problem, HasSubstr("install the package dynamix-trainer"));
}

TEST(LoadedTrainer, SaysWhyItCannotBeLoaded) {
  const temporary_directory directory;
  const auto path = directory.path() + "/libdynamix-trainer.so";
  ASSERT_EQ(storage::write_file_atomically(path, "no library"), "");
  const auto loaded = load_trainer({path}, program_version());
  EXPECT_EQ(loaded.module, nullptr);
  EXPECT_THAT(loaded.problem, MatchesRegex("what trains cannot be loaded: .*libdynamix-trainer.so.*; install .*"));
}

TEST(LoadedTrainer, RefusesThatOfAnotherVersionAndAnotherLibrary) {
  const auto older = load_trainer({DYNAMIX_TRAINER_MODULE}, "dynamix-node 0.0.9 (0123)");
  EXPECT_EQ(older.module, nullptr);
  EXPECT_THAT(older.problem, HasSubstr("is of " + program_version() +
                                       ", not of dynamix-node 0.0.9 (0123); install the "
                                       "package dynamix-trainer of the same version"));
  EXPECT_THAT(load_trainer({DYNAMIX_ANOTHER_LIBRARY}, program_version()).problem, HasSubstr("is of another program"));
}

TEST(LoadedTrainer, TakesTheFirstThatExistsAndLearnsWithIt) {
  const auto loaded = load_trainer({"/nowhere/one.so", DYNAMIX_TRAINER_MODULE}, program_version());
  ASSERT_NE(loaded.module, nullptr) << loaded.problem;
  EXPECT_THAT(loaded.module->torch_version(), MatchesRegex("[0-9]+\\.[0-9]+.*"));
  cluster::cluster_file file;
  file.arbitrator.policy = cluster::policy_kind::ppo;
  file.arbitrator.mode = cluster::policy_mode::train;
  const auto learner = loaded.module->make_learner(file, {});
  ASSERT_NE(learner, nullptr);
  EXPECT_EQ(learner->current().version, 0U);
  EXPECT_THROW(loaded.module->make_learner(file, {1, 2, 3}), std::invalid_argument) << "caught across the border";
}

TEST(LoadedTrainer, IsAskedForALearnerOnlyWhereSomethingIsLearned) {
  cluster::cluster_file file;
  file.arbitrator.policy = cluster::policy_kind::goodput;
  EXPECT_EQ(make_learner(file, {}), nullptr);
}

} // namespace
} // namespace dynamix::node
