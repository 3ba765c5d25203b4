// What the programs count against what the kernel and a transfer of known size say. Needs root and BTF; skipped
// elsewhere.

#include "telemetry/ebpf_probes.hpp"
#include "telemetry/training_thread.hpp"
#include "tests/unit/telemetry/burning.hpp"
#include "tests/unit/telemetry/loopback.hpp"
#include "tests/unit/telemetry/needs_bpf.hpp"

#include <cstdlib>
#include <linux/tcp.h>
#include <sched.h>
#include <sstream>
#include <thread>

namespace dynamix::telemetry {
namespace {

constexpr std::size_t megabyte = 1'000'000;

class KernelCounts : public needs_bpf {};

counters sample(probe& of) {
  counters into;
  into.monotonic_seconds = monotonic_seconds();
  of.sample(into);
  return into;
}

/// What was sent again, and counted again, at most: on a crowded machine a tail may be probed for before it is read.
double repeated(const counters& of) {
  constexpr double segment_bytes_max = 65536;
  return 2 * segment_bytes_max * static_cast<double>(of.retransmissions);
}

/// The shortest RTT of the client's end, as the kernel keeps it.
double shortest_rtt_seconds(const loopback_connection& connection) {
  tcp_info info{};
  socklen_t length = sizeof(info);
  EXPECT_EQ(::getsockopt(connection.client(), IPPROTO_TCP, TCP_INFO, &info, &length), 0);
  return 1e-6 * info.tcpi_min_rtt;
}

TEST_F(KernelCounts, BytesOfATransferOfKnownSizeAtBothEnds) {
  const auto session = open_kernel_session({});
  ASSERT_TRUE(session->network) << session->network_problem;
  const auto kernel = make_ebpf_network_probe(session->network, make_null_probe());
  const auto tcp_info = make_tcp_info_probe();
  const loopback_connection connection;
  const auto before = sample(*kernel);
  const auto told_before = sample(*tcp_info);
  connection.transfer(50 * megabyte);
  const auto after = sample(*kernel);
  const auto told_after = sample(*tcp_info);
  const double expected = 50 * megabyte;
  const auto sent = static_cast<double>(after.bytes_sent - before.bytes_sent);
  const auto received = static_cast<double>(after.bytes_received - before.bytes_received);
  EXPECT_NEAR(sent, expected, 0.01 * expected + repeated(after));
  EXPECT_NEAR(received, expected, 0.01 * expected + repeated(after));
  EXPECT_EQ(after.control_bytes, before.control_bytes);
  EXPECT_GT(after.rtt_samples, before.rtt_samples);
  const auto told = static_cast<double>(told_after.bytes_received - told_before.bytes_received);
  EXPECT_NEAR(received, told, 0.01 * told + repeated(after)) << "the two sources disagree";
  const auto network = network_between(before, after);
  EXPECT_GE(network.rtt_seconds, shortest_rtt_seconds(connection));
  EXPECT_LE(network.rtt_seconds, after.monotonic_seconds - before.monotonic_seconds);
  EXPECT_LE(network.rtt_p50_seconds, network.rtt_p99_seconds);
}

TEST_F(KernelCounts, BytesByPurpose) {
  const reserved_port reserved;
  const auto port = reserved.number();
  const auto session = open_kernel_session({port});
  ASSERT_TRUE(session->network) << session->network_problem;
  const auto kernel = make_ebpf_network_probe(session->network, make_null_probe());
  const auto tcp_info = make_tcp_info_probe({port});
  const loopback_connection gradients;
  const loopback_connection control(port);
  sample(*tcp_info);
  gradients.transfer(2 * megabyte);
  control.transfer(megabyte);
  for (const auto& after : {sample(*kernel), sample(*tcp_info)}) {
    EXPECT_NEAR(static_cast<double>(after.control_bytes), 2.0 * megabyte, 0.01 * megabyte + repeated(after))
        << "sent and received";
    EXPECT_NEAR(static_cast<double>(after.bytes_sent + after.bytes_received), 6.0 * megabyte,
                0.01 * megabyte + repeated(after));
  }
}

TEST_F(KernelCounts, BytesByPurposeAtOnePort) {
  const reserved_port reserved;
  const auto port = reserved.number();
  const auto session = open_kernel_session({port});
  ASSERT_TRUE(session->network) << session->network_problem;
  const auto kernel = make_ebpf_network_probe(session->network, make_gradient_tcp_info_probe({port}));
  const auto tcp_info = make_tcp_info_probe({port});
  const loopback_connection control(port);
  const loopback_connection gradients(port);
  gradients.transfer(megabyte / 10); // before anybody knows what it is for
  sample(*tcp_info);
  gradients.carry_gradients();
  gradients.transfer(2 * megabyte);
  control.transfer(megabyte);
  for (const auto& after : {sample(*kernel), sample(*tcp_info)}) {
    EXPECT_NEAR(static_cast<double>(after.control_bytes), 2.2 * megabyte, 0.02 * megabyte + repeated(after))
        << "sent and received";
    EXPECT_NEAR(static_cast<double>(after.bytes_sent + after.bytes_received), 6.2 * megabyte,
                0.02 * megabyte + repeated(after));
    EXPECT_EQ(after.connections, 2U) << "both ends of one";
  }
  EXPECT_GT(sample(*kernel).rtt_samples, 0U);
}

TEST_F(KernelCounts, AnAbortAsAResetAndAnOrderlyEndAsNone) {
  const auto session = open_kernel_session({});
  ASSERT_TRUE(session->network) << session->network_problem;
  const auto kernel = make_ebpf_network_probe(session->network, make_null_probe());
  {
    const loopback_connection orderly;
    orderly.transfer(megabyte);
  }
  EXPECT_EQ(sample(*kernel).resets, 0U);
  {
    loopback_connection aborted;
    aborted.abort();
  }
  EXPECT_EQ(sample(*kernel).resets, 2U) << "one at each end";
}

TEST_F(KernelCounts, EventsThatNobodyWasToldOf) {
  const auto session = open_kernel_session({});
  ASSERT_TRUE(session->network) << session->network_problem;
  constexpr std::size_t aborts = 900; // with two ends each more than the ring buffer holds
  for (std::size_t i = 0; i < aborts; ++i) {
    loopback_connection aborted;
    aborted.abort();
  }
  const auto told = session->network->take_events().size();
  EXPECT_GT(told, 100U);
  EXPECT_EQ(told + session->network->events_dropped(), 2 * aborts);
  EXPECT_TRUE(session->network->take_events().empty());
}

/// RetransSegs of the calling process's network (what nstat calls TcpRetransSegs).
std::uint64_t kernels_retransmissions() {
  std::ifstream file("/proc/self/net/snmp");
  std::string names;
  std::string values;
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("Tcp:"))
      (names.empty() ? names : values) = line;
  std::istringstream name_words(names);
  std::istringstream value_words(values);
  for (std::string name, value; name_words >> name && value_words >> value;)
    if (name == "RetransSegs")
      return std::stoull(value);
  return 0;
}

TEST_F(KernelCounts, RetransmissionsAsTheKernelCountsThemUnderLoss) {
  const auto told = in_child([]() -> std::string {
    if (::unshare(CLONE_NEWNET) != 0 || std::system("ip link set lo up") != 0)
      return "skip: no network namespace";
    const auto session = open_kernel_session({});
    if (!session->network)
      return session->network_problem;
    const auto kernel = make_ebpf_network_probe(session->network, make_null_probe());
    const loopback_connection connection; // whole: a SYN-ACK is sent again by the kernel before there is a connection
    if (std::system("nft 'add table ip t; add chain ip t c { type filter hook input priority 0; }; "
                    "add rule ip t c meta l4proto tcp numgen random mod 100 < 3 drop' 2>&1") != 0)
      return "skip: no nft";
    const auto before = kernels_retransmissions();
    connection.transfer(20 * megabyte);
    const auto theirs = kernels_retransmissions() - before;
    const auto ours = sample(*kernel).retransmissions;
    if (theirs == 0)
      return "nothing was lost";
    return ours == theirs ? "" : std::to_string(ours) + " instead of " + std::to_string(theirs);
  });
  if (told.starts_with("skip"))
    GTEST_SKIP() << told;
  EXPECT_EQ(told, "");
}

TEST_F(KernelCounts, WaitsForACpuAsSchedstatDoes) {
  const auto session = open_kernel_session({});
  ASSERT_TRUE(session->scheduler) << session->scheduler_problem;
  const auto kernel = make_ebpf_scheduler_probe(session->scheduler, make_usage_probe());
  const auto procfs = make_procfs_probe();
  std::atomic<int> ready = 0;
  std::atomic<int> done = 0;
  std::atomic<bool> go = false;
  std::atomic<bool> end = false;
  // Two threads share a core, so each waits for about as long as the other runs. One of them trains.
  const auto burn_half_a_second = [&](bool trains) {
    stay_on_one_core();
    if (trains)
      mark_training_thread();
    ++ready;
    while (!go)
      std::this_thread::sleep_for(std::chrono::milliseconds(1)); // switches, and hardly waits for a core
    burn(0.5);
    ++done;
    while (!end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  std::thread first(burn_half_a_second, true);
  std::thread second(burn_half_a_second, false);
  while (ready < 2)
    std::this_thread::yield();
  sample(*kernel); // follows the training thread from here
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // Around the kernel's account and within it: this thread may be kept waiting between two readings.
  const auto outer_before = sample(*kernel);
  const auto told_before = sample(*procfs);
  const auto inner_before = sample(*kernel);
  go = true;
  while (done < 2)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto inner_after = sample(*kernel);
  const auto told_after = sample(*procfs);
  const auto outer_after = sample(*kernel);
  end = true;
  first.join();
  second.join();
  const auto agree = [&](auto counter, double slack_seconds) {
    const double told = told_after.*counter - told_before.*counter;
    EXPECT_GE(outer_after.*counter - outer_before.*counter, 0.95 * told - slack_seconds);
    EXPECT_LE(inner_after.*counter - inner_before.*counter, 1.05 * told + slack_seconds);
    return told;
  };
  EXPECT_GT(agree(&counters::run_queue_wait_seconds, 0), 0.4);
  agree(&counters::training_wait_seconds, 0.01);
  agree(&counters::training_cpu_seconds, 0.01);
  EXPECT_GT(outer_after.involuntary_switches, outer_before.involuntary_switches);
  training_thread = 0;
}

} // namespace
} // namespace dynamix::telemetry
