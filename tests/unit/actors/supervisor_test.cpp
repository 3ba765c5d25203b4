#include "actors/host/supervisor.hpp"
#include "tests/unit/actors/simulation_config.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <gtest/gtest.h>

#include <mutex>

namespace dynamix::actors {
namespace {

/// One child under a supervisor in virtual time.
class Supervisor : public ::testing::Test {
protected:
  Supervisor() {
    scheduler().clock().current_time += std::chrono::hours(1); // CAF's simulated clock must not start at zero
    std::vector<child_specification> children;
    children.push_back({"child", [this] {
                          ++starts;
                          child = system.spawn([](caf::event_based_actor* self) {
                            return caf::behavior{[self](int) { self->quit(); }};
                          });
                          return caf::actor_cast<caf::strong_actor_ptr>(child);
                        }});
    tree = system.spawn(supervisor, supervision_options{.max_restarts = 2}, std::move(children), events,
                        [this](const std::string& reason) { told.push_back(reason); });
    run();
  }
  ~Supervisor() override {
    caf::anon_send_exit(tree, caf::exit_reason::user_shutdown);
    run();
  }

  caf::scheduler::test_coordinator& scheduler() {
    return dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  }
  void run() {
    scheduler().run();
    scheduler().advance_time(std::chrono::seconds(1));
    scheduler().run();
  }
  void end_child(caf::exit_reason reason) {
    caf::anon_send_exit(child, reason);
    run();
  }

  testing::simulation_config config;
  caf::actor_system system{config};
  std::shared_ptr<host_events> events = std::make_shared<host_events>();
  caf::actor child;
  caf::actor tree;
  int starts = 0;
  std::vector<std::string> told;
};

TEST_F(Supervisor, RestartsAChildThatWasShutDownByAnother) {
  end_child(caf::exit_reason::user_shutdown);
  EXPECT_EQ(starts, 2);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("user_shutdown"), std::string::npos) << told[0];
}

TEST_F(Supervisor, RestartsAChildThatEndedNormally) {
  caf::anon_send(child, 1);
  run();
  EXPECT_EQ(starts, 2);
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NE(told[0].find("it ended without being asked to"), std::string::npos) << told[0];
}

TEST_F(Supervisor, DoesNotRestartWhatItStopsItself) {
  caf::anon_send_exit(tree, caf::exit_reason::user_shutdown);
  run();
  EXPECT_EQ(starts, 1);
  EXPECT_TRUE(told.empty());
  EXPECT_FALSE(events->take().failure);
}

TEST_F(Supervisor, GivesUpOnAChildThatKeepsEndingInOrder) {
  for (int end = 0; end < 3; ++end)
    end_child(caf::exit_reason::user_shutdown);
  EXPECT_EQ(starts, 3);
  EXPECT_TRUE(events->take().failure);
}

/// Of a real scheduler, since whoever asks waits.
TEST(SupervisorAnswer, ComesUnlessOneHangs) {
  caf::actor_system_config config;
  caf::actor_system system{config};
  auto events = std::make_shared<host_events>();
  std::mutex held;
  std::unique_lock holding(held);
  const auto child = [&](bool hangs) {
    return std::vector<child_specification>{{"child", [&system, &held, hangs] {
                                               if (hangs)
                                                 const std::scoped_lock waits(held);
                                               return caf::actor_cast<caf::strong_actor_ptr>(system.spawn(
                                                   [](caf::event_based_actor*) { return caf::behavior{[](int) {}}; }));
                                             }}};
  };
  std::vector<caf::actor> supervisors = {
      system.spawn(supervisor, supervision_options{}, child(false), events, nullptr)};
  EXPECT_TRUE(all_answer(system, supervisors, std::chrono::minutes(1)));
  supervisors.push_back(
      system.spawn<caf::detached>(supervisor, supervision_options{}, child(true), events, nullptr)); // in its start
  EXPECT_FALSE(all_answer(system, supervisors, std::chrono::milliseconds(100)));
  holding.unlock();
  EXPECT_TRUE(all_answer(system, supervisors, std::chrono::minutes(1)));
  for (const auto& each : supervisors)
    caf::anon_send_exit(each, caf::exit_reason::user_shutdown);
}

} // namespace
} // namespace dynamix::actors
