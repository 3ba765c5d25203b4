#include "tests/unit/session/tested_worker.hpp"

#include <cstdint>

namespace dynamix::session {
namespace {

using testing::Worker;

TEST_F(Worker, KeepsTheNewestReportThatNobodyHeardForTheNextAggregator) {
  train();
  report(1);
  happen(events::aggregator_down{});
  report(2, "measured with eBPF", "of window 2");
  report(3);
  auto sent = look<effects::send_report>();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].report.window, 1U);
  answer({.rank = 1});
  sent = look<effects::send_report>();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].report.window, 3U);
  EXPECT_EQ(sent[0].report.telemetry_choice, "measured with eBPF") << "said once, whichever report is dropped";
  EXPECT_EQ(sent[0].report.warning, "of window 2") << "likewise";
  report(4);
  sent = look<effects::send_report>();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].report.window, 4U);
  EXPECT_EQ(sent[0].report.telemetry_choice, "");
}

TEST_F(Worker, SendsAReportToTheNextAggregatorAgainUntilItIsDecidedOn) {
  train();
  report(1);
  EXPECT_EQ(look<effects::send_report>().size(), 1U);
  happen(events::aggregator_down{});
  answer({.rank = 1});
  const auto sent = look<effects::send_report>();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].report.window, 1U);
  decide(1);
  happen(events::aggregator_down{});
  answer({.term = 1, .rank = 1});
  EXPECT_FALSE(did<effects::send_report>());
}

TEST_F(Worker, SendsNoMoreReportsThanAreAnswered) {
  train();
  for (std::uint64_t window = 1; window <= 70; ++window)
    report(window);
  EXPECT_EQ(look<effects::send_report>().size(), 64U);
  happen(events::tick{});
  const auto beats = look<effects::send_heartbeat>();
  ASSERT_EQ(beats.size(), 1U);
  happen(events::heartbeat_answered{.heard = true, .reports = beats[0].reports});
  const auto sent = look<effects::send_report>();
  ASSERT_EQ(sent.size(), 1U);
  EXPECT_EQ(sent[0].report.window, 70U) << "the newest takes the place of those before it";
}

} // namespace
} // namespace dynamix::session
