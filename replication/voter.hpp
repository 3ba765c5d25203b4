#pragma once

#include <cstdint>
#include <string>

namespace dynamix::replication {

/// One of the replicas that elect a leader. The set is fixed for the cluster's life and the same on all of them.
struct voter {
  std::uint64_t id = 0;  ///< > 0
  std::string address;   ///< host:port at which the others reach it; IPv6 as [host]:port
  std::string host = {}; ///< the name that its certificate proves
  friend bool operator==(const voter&, const voter&) = default;
};

/// How libraft knows it. Hosts and ports may change from run to run; what its log remembers may not.
inline std::string raft_name(std::uint64_t id) {
  return "voter-" + std::to_string(id);
}

/// The parts of host:port. False if it is not that.
bool split_address(const std::string& address, std::string& host, std::string& port);

} // namespace dynamix::replication
