#include "telemetry/window_meter.hpp"
#include "tests/unit/telemetry/loopback.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <utility>

namespace dynamix::telemetry {
namespace {

signal_chain chain(signal of, std::unique_ptr<probe> one) {
  signal_chain made{.of = of};
  made.best_first.push_back(std::move(one));
  return made;
}

std::vector<signal_chain> only(signal of, std::unique_ptr<probe> one) {
  std::vector<signal_chain> chains;
  chains.push_back(chain(of, std::move(one)));
  return chains;
}

std::vector<signal_chain> real_probes() {
  auto chains = only(signal::network, make_tcp_info_probe());
  chains.push_back(chain(signal::system, make_procfs_probe()));
  return chains;
}

/// A network probe that works so many times.
class failing_probe final : public probe {
public:
  failing_probe(std::string name, int samples) : name_(std::move(name)), samples_(samples) {}
  std::string name() const override { return name_; }
  std::string problem() const override { return name_ + " has stopped"; }
  void sample(counters& into) override {
    into.network_valid = samples_-- > 0;
    into.network_source = name_ == "eBPF" ? messages::signal_source::ebpf : messages::signal_source::unprivileged;
    into.bytes_sent = 1000;
  }

private:
  std::string name_;
  int samples_;
};

TEST(WindowMeter, AttributesEachTransferToItsOwnWindow) {
  const loopback_connection connection;
  window_meter meter(real_probes());
  connection.transfer(5'000'000);
  const window_measurement first = meter.close_window();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const window_measurement second = meter.close_window();
  ASSERT_TRUE(first.network.valid);
  ASSERT_TRUE(second.network.valid);
  EXPECT_GT(first.network.throughput_bytes_per_second, 0);
  EXPECT_EQ(second.network.throughput_bytes_per_second, 0);
}

/// Of this process, now.
struct clocks {
  double wall_seconds = 0;
  double cpu_seconds = 0;
};

clocks read_clocks() {
  timespec cpu{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  return {std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(),
          static_cast<double>(cpu.tv_sec) + 1e-9 * static_cast<double>(cpu.tv_nsec)};
}

TEST(WindowMeter, ReadsABusyThreadAsItsShareOfTheWindow) {
  // The window begins between the first two readings and ends between the last two, which may lie far apart.
  const auto before_begin = read_clocks();
  window_meter meter(real_probes());
  const auto after_begin = read_clocks();
  while (read_clocks().wall_seconds - after_begin.wall_seconds < 0.3) {
  }
  const auto before_end = read_clocks();
  const window_measurement measured = meter.close_window();
  const auto after_end = read_clocks();
  ASSERT_TRUE(measured.system.valid);
  // The kernel's own clock of the process says what share it had; on a crowded machine that is less than 1.
  const double least =
      (before_end.cpu_seconds - after_begin.cpu_seconds) / (after_end.wall_seconds - before_begin.wall_seconds);
  const double most =
      (after_end.cpu_seconds - before_begin.cpu_seconds) / (before_end.wall_seconds - after_begin.wall_seconds);
  EXPECT_GT(least, 0);
  EXPECT_GE(measured.system.cpu_time_ratio, least - 0.05);
  EXPECT_LE(measured.system.cpu_time_ratio, most + 0.05);
}

TEST(WindowMeter, StatesWhatSamplingCost) {
  window_meter meter(real_probes());
  const double seconds = meter.close_window().sampling_seconds;
  EXPECT_GT(seconds, 0);
  EXPECT_LT(seconds, 1);
}

TEST(WindowMeter, MasksEverySignalWithoutAProbe) {
  window_meter none(only(signal::network, make_null_probe()));
  const window_measurement nothing = none.close_window();
  EXPECT_FALSE(nothing.network.valid);
  EXPECT_FALSE(nothing.system.valid);

  window_meter network_only(only(signal::network, make_tcp_info_probe()));
  const window_measurement network = network_only.close_window();
  EXPECT_TRUE(network.network.valid);
  EXPECT_FALSE(network.system.valid);

  window_meter system_only(only(signal::system, make_procfs_probe()));
  const window_measurement system = system_only.close_window();
  EXPECT_FALSE(system.network.valid);
  EXPECT_TRUE(system.system.valid);
}

TEST(WindowMeter, TellsItsChoiceOnce) {
  window_meter meter(real_probes());
  EXPECT_EQ(meter.close_window().choice, "network: TCP_INFO\nsystem: procfs");
  EXPECT_EQ(meter.close_window().choice, "");
}

TEST(WindowMeter, GoesOnWithTheNextBestWhenAProbeFails) {
  auto chains = only(signal::network, std::make_unique<failing_probe>("eBPF", 2));
  chains[0].best_first.push_back(std::make_unique<failing_probe>("TCP_INFO", 100));
  window_meter meter(std::move(chains));
  const auto works = meter.close_window();
  EXPECT_EQ(works.network.source, messages::signal_source::ebpf);
  EXPECT_EQ(works.choice, "network: eBPF");
  const auto fails = meter.close_window();
  EXPECT_FALSE(fails.network.valid) << "the window has an end of one source and a beginning of another";
  EXPECT_EQ(fails.network.source, messages::signal_source::none);
  EXPECT_EQ(fails.choice, "network: TCP_INFO, since eBPF has stopped");
  const auto after = meter.close_window();
  EXPECT_TRUE(after.network.valid);
  EXPECT_EQ(after.network.source, messages::signal_source::unprivileged);
  EXPECT_EQ(after.choice, "");
}

TEST(WindowMeter, MasksASignalWhoseLastProbeHasFailed) {
  window_meter meter(only(signal::network, std::make_unique<failing_probe>("TCP_INFO", 1)));
  EXPECT_EQ(meter.close_window().choice, "network: none, since TCP_INFO has stopped");
  EXPECT_FALSE(meter.close_window().network.valid);
}

} // namespace
} // namespace dynamix::telemetry
