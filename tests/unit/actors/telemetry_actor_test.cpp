#include "actors/worker/telemetry.hpp"
#include "tests/unit/actors/simulated_cluster.hpp"

#include <gtest/gtest.h>

namespace dynamix::actors::testing {
namespace {

TEST(Telemetry, CompletesReportsInTheirOrderAndSaysOnceWhatItMeasuresWith) {
  simulation_config config;
  caf::actor_system system(config);
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  scheduler.clock().current_time += std::chrono::hours(1);
  const auto completing = system.spawn(
      telemetry, telemetry_options{.sources = {cluster::telemetry_source::procfs}, .control_ports = {}, .kernel = {}});
  std::vector<messages::window_report> completed;
  bool settled = false;
  const auto asking = system.spawn([&](caf::event_based_actor* self) {
    for (std::uint64_t window = 1; window <= 3; ++window) {
      messages::window_report report{.host = "w0", .generation = 1, .window = window, .batch = 64};
      report.training.steps = 5;
      self->request(completing, std::chrono::seconds(1), atom::report_v, pack(report))
          .then([&](const message<messages::window_report>& answer) {
            completed.push_back(*unpack<messages::window_report>(answer, "test"));
          });
    }
    self->request(completing, std::chrono::seconds(1), atom::settle_v).then([&](atom::settle) {
      settled = completed.size() == 3;
    });
  });
  scheduler.run();
  ASSERT_EQ(completed.size(), 3U);
  EXPECT_TRUE(settled) << "behind all of them";
  for (std::uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(completed[i].window, i + 1);
    EXPECT_EQ(completed[i].training.steps, 5U);
    EXPECT_EQ(completed[i].telemetry_choice.empty(), i > 0);
  }
}

} // namespace
} // namespace dynamix::actors::testing
