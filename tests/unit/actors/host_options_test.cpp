#include "actors/host/host.hpp"
#include "links/free_port.hpp"
#include "tests/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace dynamix::actors {
namespace {

host_options options_of(std::vector<cluster::role> roles, cluster::trainer_kind trainer, cluster::policy_kind policy,
                        cluster::policy_mode mode) {
  auto file = std::make_shared<cluster::cluster_file>();
  file->training.trainer = trainer;
  file->arbitrator.policy = policy;
  file->arbitrator.mode = mode;
  file->hosts.push_back({.name = "ada", .port = 1, .roles = std::move(roles)});
  return {.file = std::move(file), .host = "ada", .run_directory = {}, .resume_from = {}, .policy_from = {}};
}

TEST(HostOptions, NeedWhatTrainsOnlyWhereSomebodyTrainsOrLearns) {
  using cluster::policy_kind;
  using cluster::policy_mode;
  using cluster::role;
  using cluster::trainer_kind;
  auto worker = options_of({role::worker}, trainer_kind::built_in, policy_kind::ppo, policy_mode::train);
  EXPECT_TRUE(worker.trains());
  EXPECT_FALSE(worker.learns());
  worker.without_worker = true;
  EXPECT_FALSE(worker.trains());
  EXPECT_TRUE(options_of({role::server}, trainer_kind::built_in, policy_kind::ppo, policy_mode::train).trains());

  const auto agent = options_of({role::worker}, trainer_kind::client, policy_kind::ppo, policy_mode::train);
  EXPECT_FALSE(agent.trains() || agent.learns());

  const auto arbitrator = [](policy_kind policy, policy_mode mode) {
    return options_of({role::arbitrator}, trainer_kind::built_in, policy, mode);
  };
  EXPECT_TRUE(arbitrator(policy_kind::ppo, policy_mode::train).learns());
  EXPECT_FALSE(arbitrator(policy_kind::ppo, policy_mode::infer).learns());
  EXPECT_FALSE(arbitrator(policy_kind::goodput, policy_mode::train).learns());
  EXPECT_FALSE(arbitrator(policy_kind::ppo, policy_mode::train).trains());
}

TEST(HostOptions, AreRefusedWhereWhatTrainsIsNotLoaded) {
  const auto options = options_of({cluster::role::worker}, cluster::trainer_kind::built_in, cluster::policy_kind::ppo,
                                  cluster::policy_mode::train);
  EXPECT_EQ(run_host(options, {}).reason, "host ada would train, and nothing that trains is loaded");
}

/// Its actors run by then, and the actor system waits for them.
TEST(Host, SaysWhatWentWrongWhereItsStartIsBrokenOff) {
  auto file = std::make_shared<cluster::cluster_file>();
  file->training.trainer = cluster::trainer_kind::client;
  file->arbitrator.policy = cluster::policy_kind::goodput; // which learns nothing
  file->hosts.push_back(
      {.name = "ada", .address = "127.0.0.1", .port = links::take_free_port(), .roles = {cluster::role::arbitrator}});
  const temporary_directory directory;
  const host_options options{.file = std::move(file),
                             .host = "ada",
                             .run_directory = directory.path(),
                             .resume_from = {},
                             .policy_from = {},
                             .watch = {.started = [] { throw std::runtime_error("no thread can be made"); }}};
  EXPECT_EQ(run_host(options, {}).reason, "no thread can be made");
}

} // namespace
} // namespace dynamix::actors
