#include "replication/replica.hpp"

#include "replication/replica_core.hpp"

#include <algorithm>
#include <array>

namespace dynamix::replication {

std::string_view to_string(role value) {
  static constexpr std::array<std::string_view, 7> names = {"",         "stopped",   "waiting", "joining",
                                                            "follower", "candidate", "leader"};
  return names[static_cast<std::size_t>(value)];
}

std::string_view to_string(proposal_status value) {
  static constexpr std::array<std::string_view, 5> names = {"", "committed", "not leader", "unknown", "refused"};
  return names[static_cast<std::size_t>(value)];
}

time_outs time_outs_of(std::uint32_t detect_ms) {
  constexpr std::uint32_t least_election_ms = 100;
  constexpr std::uint32_t least_handshake_ms = 500;
  constexpr std::uint32_t least_snapshot_ms = 2000;
  time_outs derived;
  derived.election_ms = std::max(least_election_ms, detect_ms / 5);
  derived.heartbeat_ms = derived.election_ms / 10;
  derived.reconnect_ms = derived.election_ms / 2;
  derived.handshake_ms = std::max(least_handshake_ms, detect_ms);
  derived.silent_peer_ms = std::max(2 * derived.election_ms, 2 * detect_ms);
  derived.retry_ms = std::max(derived.election_ms, detect_ms);
  derived.snapshot_ms = std::max(least_snapshot_ms, 5 * detect_ms);
  return derived;
}

replica::replica() : core_(std::make_shared<replica_core>()) {}

replica::~replica() {
  stop();
}

std::string replica::start(replica_options options) {
  return core_->start(std::move(options));
}

void replica::propose(const journal_entry& entry, proposal_callback done) {
  core_->propose(entry, std::move(done));
}

void replica::read(read_callback done) {
  core_->read(std::move(done), false);
}

void replica::read_local(read_callback done) {
  core_->read(std::move(done), true);
}

observation replica::now() const {
  return core_->now();
}

bool replica::stop(std::uint32_t bound_ms) {
  return core_->stop(bound_ms);
}

} // namespace dynamix::replication
