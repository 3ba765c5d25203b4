#include "actors/telemetry.hpp"
#include "tests/unit/actors/simulated_cluster.hpp"

#include <gtest/gtest.h>

namespace dynamix::actors::testing {
namespace {

aggregator_actor::behavior_type recording_aggregator(aggregator_actor::pointer,
                                                     std::shared_ptr<std::vector<std::uint64_t>> windows) {
  return {
      [windows](atom::report, const frame& report) {
        windows->push_back(unpack<messages::window_report>(report, "test")->window);
      },
      [](atom::evaluation, const frame&) {},
      [](atom::beat, const frame&) { return atom::beat_v; },
      [](atom::settle) { return atom::settle_v; },
      [](atom::farewell, const frame&) { return atom::farewell_v; },
  };
}

frame report_of(std::uint64_t window) {
  messages::window_report report{.host = "w0", .generation = 1, .window = window, .batch = 64};
  report.training.steps = 5;
  return pack(report);
}

TEST(Telemetry, TellsANewArbitratorTheNewestReportThatNobodyHeardOnce) {
  simulation_config config;
  caf::actor_system system(config);
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  scheduler.clock().current_time += std::chrono::hours(1);
  const auto heard = std::make_shared<std::vector<std::uint64_t>>();
  const aggregator_actor upstream = system.spawn(recording_aggregator, heard);
  const auto completing = system.spawn(telemetry, telemetry_options{.sources = {}, .control_ports = {}, .kernel = {}});
  const auto send = [&](auto&&... said) {
    caf::anon_send(completing, said...);
    scheduler.run();
  };
  send(atom::upstream_v, upstream);
  EXPECT_TRUE(heard->empty()) << "there is nothing to tell";
  send(atom::report_v, report_of(1));
  send(atom::orphan_v);
  send(atom::report_v, report_of(2));
  send(atom::report_v, report_of(3));
  EXPECT_EQ(*heard, (std::vector<std::uint64_t>{1}));
  send(atom::upstream_v, upstream);
  send(atom::upstream_v, upstream);
  EXPECT_EQ(*heard, (std::vector<std::uint64_t>{1, 3}));
  send(atom::report_v, report_of(4));
  EXPECT_EQ(*heard, (std::vector<std::uint64_t>{1, 3, 4}));
}

} // namespace
} // namespace dynamix::actors::testing
