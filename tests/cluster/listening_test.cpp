/// Where the sockets of a cluster's processes are bound, as the kernel says.

#include "tests/cluster/trial.hpp"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

namespace dynamix::cluster_test {
namespace {

/// The inodes of a process's sockets.
std::set<std::string> sockets_of(int process_id) {
  std::set<std::string> inodes;
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/" + std::to_string(process_id) + "/fd", gone)) {
    const auto target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (target.starts_with("socket:["))
      inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

struct bound_socket {
  std::string address; ///< hexadecimal
  int port = 0;
  bool listens = false;
};

/// These sockets, in any state, by the kernel's table at `path`.
std::vector<bound_socket> sockets_in(const std::string& path, const std::set<std::string>& inodes) {
  std::vector<bound_socket> found;
  std::ifstream table(path);
  std::string line;
  std::getline(table, line); // the heading
  while (std::getline(table, line)) {
    std::istringstream columns(line);
    std::string slot, local, remote, state, queues, timer, retransmissions, user, timeout, inode;
    columns >> slot >> local >> remote >> state >> queues >> timer >> retransmissions >> user >> timeout >> inode;
    const auto colon = local.find(':');
    if (inodes.contains(inode))
      found.push_back({local.substr(0, colon), std::stoi(local.substr(colon + 1), nullptr, 16), state == "0A"});
  }
  return found;
}

std::vector<bound_socket> tcp_sockets_of(int process_id) {
  const auto inodes = sockets_of(process_id);
  auto found = sockets_in("/proc/net/tcp", inodes);
  for (auto& each : sockets_in("/proc/net/tcp6", inodes))
    found.push_back(std::move(each));
  return found;
}

/// 127.0.0.0/8, the same mapped into IPv6, or ::1. The kernel writes an address in words of the machine's byte order.
bool is_loopback(const std::string& address) {
  const bool four = address.size() == 8 || address.starts_with("0000000000000000FFFF0000");
  return (four && address.ends_with("7F")) || address == "00000000000000000000000001000000";
}

class Listening : public trial {};

TEST_F(Listening, IsOnLoopbackOnlyForActorsAndGradients) {
  write_file({.epochs = 1000});
  std::vector<program> started;
  for (const auto* host : {"hub", "w0", "w1"})
    started.push_back(start_host(host));
  ASSERT_TRUE(wait_for_windows(1)) << "they train";
  for (const auto& each : started) {
    const auto sockets = tcp_sockets_of(each.process_id());
    EXPECT_GE(sockets.size(), 3U) << "the gateway's listener, and connections to two hosts";
    for (const auto& one : sockets)
      EXPECT_TRUE(is_loopback(one.address)) << one.address;
  }
  started.front().signal(SIGTERM); // the only arbitrator's host: training ends, before its end
  for (auto& each : started)
    EXPECT_EQ(each.wait().code, &each == &started.front() ? 130 : 3) << each.said();
}

TEST_F(Listening, IsAtOnePortAHostWithKeysForAllKindsOfLinks) {
  write_file({.epochs = 1000, .more = "[security]\nkeys = \"keys\"\n", .replicas = 3, .cluster = patient_cluster});
  const auto made = end_of({"keys", "init", "--cluster", file()});
  ASSERT_EQ(made.code, 0) << made.output;
  const std::vector<std::pair<const char*, int>> hosts = {
      {"hub", port(0)}, {"w0", port(1)}, {"w1", port(2)}, {"hub2", port(4)}, {"hub3", port(5)}};
  std::vector<program> started;
  for (const auto& [host, port] : hosts)
    started.push_back(start_host(host));
  ASSERT_TRUE(wait_for_windows(1)) << "they vote and train";
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    std::vector<int> listening;
    std::size_t connected = 0;
    for (const auto& one : tcp_sockets_of(started[i].process_id()))
      if (one.listens)
        listening.push_back(one.port);
      else
        ++connected;
    EXPECT_EQ(listening, std::vector<int>{hosts[i].second}) << hosts[i].first;
    EXPECT_GE(connected, 2U) << hosts[i].first << ": to the leader and a worker, or to two voters";
  }
  ASSERT_TRUE(wait_for_windows(4));
  const auto judged = windows().at(3);
  for (const auto& worker : judged.workers) {
    const auto& network = worker.report.network;
    ASSERT_TRUE(network.valid) << worker.report.rank;
    EXPECT_GT(network.gradient_bytes_per_second, 10 * network.control_bytes_per_second)
        << "rank " << worker.report.rank << ": telemetry tells them apart at that port";
    EXPECT_GT(network.control_bytes_per_second, 0);
  }
  for (auto& each : started)
    each.signal(SIGINT);
  for (auto& each : started)
    each.wait();
}

} // namespace
} // namespace dynamix::cluster_test
