/// Where the sockets of a cluster's processes are bound, as the kernel says.

#include "tests/cluster/trial.hpp"

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

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

/// The hexadecimal local addresses, without ports, of these sockets in any state, by the kernel's table at `path`.
std::vector<std::string> local_addresses_in(const std::string& path, const std::set<std::string>& inodes) {
  std::vector<std::string> addresses;
  std::ifstream table(path);
  std::string line;
  std::getline(table, line); // the heading
  while (std::getline(table, line)) {
    std::istringstream columns(line);
    std::string slot, local, remote, state, queues, timer, retransmissions, user, timeout, inode;
    columns >> slot >> local >> remote >> state >> queues >> timer >> retransmissions >> user >> timeout >> inode;
    if (inodes.contains(inode))
      addresses.push_back(local.substr(0, local.find(':')));
  }
  return addresses;
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
    const auto inodes = sockets_of(each.process_id());
    auto addresses = local_addresses_in("/proc/net/tcp", inodes);
    for (auto& address : local_addresses_in("/proc/net/tcp6", inodes))
      addresses.push_back(std::move(address));
    EXPECT_GE(addresses.size(), 3U) << "the gateway's listener, and connections to two hosts";
    for (const auto& address : addresses)
      EXPECT_TRUE(is_loopback(address)) << address;
  }
  started.front().signal(SIGTERM); // the only arbitrator's host: training ends
  for (auto& each : started)
    EXPECT_EQ(each.wait().code, 0) << each.said();
}

} // namespace
} // namespace dynamix::cluster_test
