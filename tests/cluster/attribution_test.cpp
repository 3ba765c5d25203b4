// Faults that are made on one host of a real cluster in network namespaces: the part of the step that grows most, apart
// from waiting for peers, is the one that the fault hits, on the host that it hits. Needs root, iproute2 and nftables;
// skipped elsewhere.

#include "faults/namespaces.hpp"
#include "ledger/file.hpp"
#include "node/launch/child_process.hpp"
#include "telemetry/cgroup.hpp"
#include "tests/cluster/trial.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace dynamix::cluster_test {
namespace {

constexpr double fault_seconds = 6; ///< of training
constexpr double after_seconds = 8;
constexpr double settle_seconds = 2;

struct part {
  const char* name;
  double policy::time_split::*seconds;
};
constexpr part causes[] = {{"compute", &policy::time_split::compute_seconds},
                           {"cpu_wait", &policy::time_split::cpu_wait_seconds},
                           {"network", &policy::time_split::network_seconds},
                           {"data", &policy::time_split::data_seconds},
                           {"other", &policy::time_split::other_seconds}};

bool run_shell(const std::string& command) {
  return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
}

class Attribution : public ::testing::Test {
protected:
  static constexpr const char* hosts[] = {"hub", "w0", "w1", "w2"};

  void SetUp() override {
    if (const auto reason = network_.create({std::begin(hosts), std::end(hosts)}); !reason.empty())
      GTEST_SKIP() << reason;
    for (const char* tool : {"nsenter", "tc", "nft"})
      if (!run_shell(std::string("command -v ") + tool))
        GTEST_SKIP() << "needs the program " << tool;
  }

  std::string namespace_of(const std::string& host) const { return network_.command(host).back(); }
  std::string inside(const std::string& host) const { return "nsenter --net=/run/netns/" + namespace_of(host) + " "; }

  /// Trains in the namespaces; `w1_lines` go to its section of the cluster file.
  void start(const std::string& w1_lines = "") {
    std::ofstream file(directory_.path() + "/cluster.toml");
    file << "[cluster]\nname = \"attribution\"\nseed = 1\n[training]\nepochs = 50\nevaluate_every_epochs = 1000\n"
            "[batch]\ninitial = 32\n[arbitrator]\npolicy = \"static\"\nwindow_steps = 10\n";
    for (const std::string host : hosts)
      file << "[[host]]\nname = \"" << host << "\"\naddress = \"" << network_.address(host) << "\"\nport = 7000\n"
           << (host == "hub"  ? "roles = [\"arbitrator\"]\n"
               : host == "w1" ? w1_lines
                              : "");
    file.close();
    for (const std::string host : hosts)
      ASSERT_EQ(processes_[host].start({.program = "/usr/bin/nsenter",
                                        .arguments = {"--net=/run/netns/" + namespace_of(host), DYNAMIX_NODE_PROGRAM,
                                                      "run", "--cluster", directory_.path() + "/cluster.toml", "--name",
                                                      host, "--out", run_.path(), "--insecure"},
                                        .environment = {{"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}},
                                        .output = directory_.path() + "/output"}),
                "");
  }

  std::vector<ledger::window> windows() const {
    std::string error;
    std::vector<ledger::window> found;
    for (auto& row : ledger::read_file(run_.ledger(), error))
      if (auto* window = std::get_if<ledger::window>(&row.entry))
        found.push_back(std::move(*window));
    return found;
  }

  static double elapsed_seconds(const ledger::window& window) {
    return window.workers.empty() ? 0 : window.workers[0].report.elapsed_seconds;
  }

  bool wait_for_training(double seconds) const {
    return wait_until([&] {
      const auto all = windows();
      return !all.empty() && elapsed_seconds(all.back()) >= seconds;
    });
  }

  void stop() {
    for (auto& [host, process] : processes_)
      process.signal(SIGTERM);
    for (auto& [host, process] : processes_)
      wait_until([&process = process] { return !process.running(); });
  }

  /// Mean splits of each worker over windows that closed between these times.
  static std::map<std::string, policy::time_split> means(const std::vector<ledger::window>& all, double from,
                                                         double to) {
    std::map<std::string, policy::time_split> sums;
    double count = 0;
    for (const auto& window : all) {
      if (elapsed_seconds(window) <= from || elapsed_seconds(window) > to || !window.decided)
        continue;
      ++count;
      for (const auto& worker : window.workers)
        for (const auto& each : causes)
          sums[worker.report.host].*each.seconds += worker.time.*each.seconds;
    }
    EXPECT_GE(count, 3) << "windows between " << from << " and " << to << " s";
    for (auto& [host, sum] : sums)
      for (const auto& each : causes)
        sum.*each.seconds /= count;
    return sums;
  }

  /// "w1 network": where the step grew most from before the fault to after it.
  std::string largest_change(const std::function<void()>& fault) {
    EXPECT_TRUE(wait_for_training(fault_seconds)) << contents_of(directory_.path() + "/output");
    fault();
    const double at = elapsed_seconds(windows().back());
    EXPECT_TRUE(wait_for_training(at + after_seconds));
    stop();
    const auto all = windows();
    auto before = means(all, settle_seconds, fault_seconds);
    std::string largest;
    double most = 0;
    for (const auto& [host, after] : means(all, at + settle_seconds, at + 1000))
      for (const auto& each : causes)
        if (const double growth = after.*each.seconds - before[host].*each.seconds; growth > most) {
          most = growth;
          largest = host + " " + each.name;
        }
    EXPECT_GT(most, 0.005) << "the fault did not bite";
    return largest;
  }

  faults::namespaces network_;
  const temporary_directory directory_;
  const node::run_directory run_{directory_.path() + "/run"};
  std::map<std::string, node::child_process> processes_;
};

TEST_F(Attribution, OfAUsedUpCpuQuotaIsWaitingForACpu) {
  const auto group = telemetry::find_own_cgroups().cpu + "/attribution-" + std::to_string(::getpid());
  start();
  std::filesystem::create_directory(group);
  if (!std::filesystem::exists(group + "/cpu.cfs_quota_us")) {
    stop();
    std::filesystem::remove(group);
    GTEST_SKIP() << "needs the cpu controller of cgroup version 1";
  }
  EXPECT_EQ(largest_change([&] {
              std::ofstream(group + "/cpu.cfs_period_us") << 50'000;
              std::ofstream(group + "/cpu.cfs_quota_us") << 10'000;
              std::ofstream(group + "/cgroup.procs") << processes_["w1"].id();
            }),
            "w1 cpu_wait");
  processes_.clear();
  ::rmdir(group.c_str());
}

TEST_F(Attribution, OfAThrottledLinkIsItsHostsNetwork) {
  start();
  EXPECT_EQ(largest_change([&] {
              EXPECT_TRUE(
                  run_shell(inside("w1") + "tc qdisc add dev eth0 root tbf rate 30mbit burst 32kb latency 50ms"));
            }),
            "w1 network");
}

TEST_F(Attribution, OfALinkThatLosesPacketsIsItsSendersNetwork) {
  start();
  // Behind the host's own stack: what it sends is lost on the way, without its knowing.
  EXPECT_EQ(largest_change([&] {
              EXPECT_TRUE(run_shell(inside("w0") +
                                    "nft 'add table ip lossy; add chain ip lossy in { type filter hook prerouting "
                                    "priority 0; }; add rule ip lossy in ip saddr " +
                                    network_.address("w1") + " meta l4proto tcp numgen random mod 100 < 5 drop'"));
              EXPECT_TRUE(run_shell(inside("w2") +
                                    "nft 'add table ip lossy; add chain ip lossy in { type filter hook prerouting "
                                    "priority 0; }; add rule ip lossy in ip saddr " +
                                    network_.address("w1") + " meta l4proto tcp numgen random mod 100 < 5 drop'"));
            }),
            "w1 network");
}

TEST_F(Attribution, OfASlowedPeerIsItsOwnComputing) {
  start("emulate = [{ at_seconds = " + std::to_string(fault_seconds) + ", compute_slowdown = 4.0 }]\n");
  EXPECT_EQ(largest_change([] {}), "w1 compute");
}

} // namespace
} // namespace dynamix::cluster_test
