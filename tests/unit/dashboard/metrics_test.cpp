#include "dashboard/metrics.hpp"
#include "tests/unit/documented.hpp"
#include "tests/unit/ledger/rows.hpp"

#include <gmock/gmock.h>

namespace dynamix::dashboard {
namespace {

using namespace ledger::testing;
using ::testing::HasSubstr;

TEST(Metrics, TellOfTheNewestWindow) {
  ledger::run run(small_cluster());
  run.add(start_row());
  run.add(window_row(1));
  run.add(window_row(2));
  const auto text = metrics_text(run, 12);
  EXPECT_THAT(text, HasSubstr("dynamix_worker_batch_size{worker=\"w1\"} 65\n"));
  EXPECT_THAT(text, HasSubstr("dynamix_windows_total 2\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE dynamix_windows_total counter\n"));
  EXPECT_THAT(text, HasSubstr("dynamix_worker_retransmissions_total{worker=\"w0\"} 4\n"));
  EXPECT_THAT(text, HasSubstr("dynamix_worker_step_part_seconds{worker=\"w0\",part=\"compute\"} 0.06"));
  EXPECT_THAT(text, HasSubstr("dynamix_window_gather_seconds_bucket{le=\"0.005\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("dynamix_window_gather_seconds_bucket{le=\"0.0025\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("dynamix_window_decide_seconds_count 2\n"));
  EXPECT_THAT(text, HasSubstr("dynamix_workers{state=\"training\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("dynamix_newest_row_timestamp_seconds 1767323047.5"));
  EXPECT_THAT(text, HasSubstr("dynamix_ledger_unread_bytes 12\n"));
  EXPECT_EQ(text.find("Nan"), std::string::npos);
}

TEST(Metrics, BeforeTheFirstWindowThereAreNoMadeUpValues) {
  const ledger::run run(small_cluster());
  const auto text = metrics_text(run, 0);
  EXPECT_EQ(text.find("\ndynamix_loss "), std::string::npos);
  EXPECT_EQ(text.find("dynamix_worker_batch_size{"), std::string::npos);
  EXPECT_THAT(text, HasSubstr("dynamix_workers{state=\"waiting\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("dynamix_events_total{event=\"lost\"} 0\n"));
}

/// docs/metrics.md has a row for every family.
TEST(Metrics, AreDocumented) {
  std::string rows;
  const char* types[] = {"counter", "gauge", "summary", "untyped", "histogram"};
  for (const auto& family : metrics_of(ledger::run(small_cluster()), 0)) {
    std::string labels;
    if (family.name.starts_with("dynamix_worker_"))
      labels = family.name == "dynamix_worker_step_part_seconds" ? "worker, part" : "worker";
    else if (family.name.starts_with("dynamix_shard_"))
      labels = family.name == "dynamix_shard_up" ? "shard, parent, level" : "shard";
    else if (!family.metric.empty() && !family.metric.front().label.empty())
      for (const auto& label : family.metric.front().label)
        labels += (labels.empty() ? "" : ", ") + label.name;
    rows += "| `" + family.name + "` | " + types[static_cast<std::size_t>(family.type)] + " | " + labels + " | " +
            family.help + " |\n";
  }
  expect_documented("metrics.md", "metrics", "| name | type | labels | meaning |\n|---|---|---|---|\n" + rows);
}

} // namespace
} // namespace dynamix::dashboard
