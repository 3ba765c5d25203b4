// One life of libraft: from its directory to its first election, and the journal underneath.

#include "replication/replica_core.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <uv.h>

namespace dynamix::replication {
namespace {

constexpr unsigned move_aside_max = 3;

/// Whether libraft's text says that the system gave it nothing to read.
bool tells_refusal(std::string_view text) {
  return std::ranges::any_of(std::initializer_list<int>{UV_EACCES, UV_EPERM, UV_EMFILE, UV_ENFILE, UV_ENOMEM},
                             [&](int code) { return text.find(::uv_strerror(code)) != std::string_view::npos; });
}

} // namespace

std::uint32_t standing_delay_ms(const std::vector<voter>& voters, std::uint64_t id, std::uint64_t lost,
                                const time_outs& from) {
  constexpr std::uint32_t heartbeats = 3; // libraft looks at its timers once a heartbeat
  const auto before =
      std::count_if(voters.begin(), voters.end(), [&](const auto& one) { return one.id < id && one.id != lost; });
  return static_cast<std::uint32_t>(before) * heartbeats * from.heartbeat_ms;
}

void lose_leader(raft& follower, std::uint32_t wait_ms) {
  follower.follower_state.current_leader.id = 0;
  const auto drawn_ms = follower.follower_state.randomized_election_timeout;
  if (wait_ms < drawn_ms)
    follower.election_timer_start =
        std::min(follower.election_timer_start, follower.io->time(follower.io) + wait_ms - drawn_ms);
}

void replica_core::try_open() {
  auto found = prepare_directory(options_.directory, options_.voters.size() == 1);
  if (found.error.empty() && found.damage.empty() && disk_failed_)
    found.error = check_room(options_.directory);
  if (!found.error.empty())
    return open_failed({found.error});
  if (!found.damage.empty())
    return open_failed({found.damage, true});
  make_instance(found);
  initialised_ = false;
  const auto code = begin_raft(found);
  const auto mismatch = code == 0 ? check_voters() : std::string();
  if (code == 0 && mismatch.empty()) {
    running_ = true;
    disk_failed_ = false;
    moved_aside_ = 0;
    last_report_.clear();
    if (instance_->trial)
      report("joins without memory: it neither votes nor stands until it has caught up with the others");
    first_result("");
    return observe(look());
  }
  failure_ = code == 0 ? failure{mismatch} : explain(code);
  if (initialised_)
    return begin_close();
  drop_instance();
  open_failed(*std::exchange(failure_, std::nullopt));
}

void replica_core::open_failed(failure why) {
  if (why.damaged && moved_aside_ < move_aside_max) {
    ++moved_aside_;
    std::string moved_to;
    const auto error = move_aside(options_.directory, moved_to);
    if (error.empty()) {
      report("cannot start from " + options_.directory + " (" + why.text + "): moved it to " + moved_to +
             " and begins anew; the other replicas have what it held");
      return schedule(0);
    }
    why.text += "; " + error;
  }
  first_result(why.text);
  bool started = false;
  {
    const std::scoped_lock lock(mutex_);
    started = accepts_;
  }
  if (!started)
    return end_handles();
  report(fmt::format("{}; tries again every {} ms, while the other replicas go on without it", why.text,
                     time_outs_.retry_ms));
  observe({.now = role::waiting});
  schedule(time_outs_.retry_ms);
}

void replica_core::make_instance(const directory_state& found) {
  transport_options connections{
      .id = options_.id,
      .voters = options_.voters,
      .links = options_.links,
      .handshake_ms = time_outs_.handshake_ms,
      .silent_peer_ms = time_outs_.silent_peer_ms,
      .report = [this](const std::string& text) { report(text); },
      .hung_up = [this](std::uint64_t peer) { hung_up(peer); },
  };
  instance_ = std::make_unique<raft_instance>(loop_, std::move(connections));
  if (found.probation)
    instance_->trial.emplace(options_.voters.size());
  instance_->machine.applied = options_.applied;
}

/// libraft's code, 0 once it runs.
int replica_core::begin_raft(const directory_state& found) {
  auto& instance = *instance_;
  auto* raft = &instance.consensus;
  if (const auto code = instance.io.init(loop_, options_.directory, *instance.connections.interface()); code != 0)
    return code;
  if (instance.trial)
    instance.io.watch(&*instance.trial);
  ::raft_uv_set_connect_retry_delay(instance.io.interface(), time_outs_.reconnect_ms);
  if (const auto code = ::raft_init(raft, instance.io.interface(), instance.machine.interface(), options_.id,
                                    raft_name(options_.id).c_str());
      code != 0)
    return code;
  initialised_ = true;
  raft->data = this;
  ::raft_set_election_timeout(raft, time_outs_.election_ms);
  ::raft_set_heartbeat_timeout(raft, time_outs_.heartbeat_ms);
  ::raft_set_install_snapshot_timeout(raft, time_outs_.snapshot_ms);
  ::raft_set_pre_vote(raft, true);
  take_entries_to_the_last(*raft);
  ::raft_set_snapshot_threshold(raft, options_.snapshot_entries);
  ::raft_set_snapshot_trailing(raft, options_.snapshot_entries / 4);
  if (found.empty) {
    raft_configuration voters{};
    ::raft_configuration_init(&voters);
    int code = 0;
    for (const auto& one : options_.voters)
      code = code != 0 ? code : ::raft_configuration_add(&voters, one.id, raft_name(one.id).c_str(), RAFT_VOTER);
    code = code != 0 ? code : ::raft_bootstrap(raft, &voters);
    ::raft_configuration_close(&voters);
    if (code != 0)
      return code;
  }
  if (found.promised_term > 0) {
    auto* io = instance.io.interface();
    auto code = io->set_term(io, found.promised_term);
    code = code != 0 ? code : io->set_vote(io, options_.id);
    if (code != 0)
      return code;
    if (const auto error = forget_promise(options_.directory); !error.empty())
      return RAFT_IOERR;
  }
  return ::raft_start(raft);
}

replica_core::failure replica_core::explain(int code) const {
  const auto& instance = *instance_;
  if (!instance.connections.listen_error().empty())
    return {instance.connections.listen_error()};
  auto refused = check_room(options_.directory);
  if (refused.empty())
    refused = check_access(options_.directory);
  if (!refused.empty())
    return {std::move(refused)};
  const auto* text = initialised_ ? instance.consensus.errmsg : "";
  const bool damaged = code == RAFT_CORRUPT || code == RAFT_MALFORMED || (code == RAFT_IOERR && !tells_refusal(text));
  return {std::string(::raft_strerror(code)) + (*text != '\0' ? std::string(", ") + text : ""), damaged};
}

/// The log knows the voters that it was begun with.
std::string replica_core::check_voters() const {
  const auto& known = instance_->consensus.configuration;
  bool same = known.n == options_.voters.size();
  std::string ids;
  for (unsigned index = 0; index < known.n; ++index) {
    const auto id = known.servers[index].id;
    ids += (index > 0 ? ", " : "") + std::to_string(id);
    bool found = false;
    for (const auto& one : options_.voters)
      found = found || one.id == id;
    same = same && found;
  }
  return same ? "" : options_.directory + " belongs to a cluster of the voters " + ids + ", not to this one's";
}

void replica_core::drop_instance() {
  instance_->io.close();
  instance_.reset();
}

observation replica_core::look() const {
  if (!running_)
    return {.now = role::waiting};
  auto* raft = &instance_->consensus;
  observation seen{.now = role::follower, .raft_term = raft->current_term};
  const auto state = ::raft_state(raft);
  if (state == RAFT_LEADER)
    seen.now = role::leader;
  else if (instance_->trial)
    seen.now = role::joining;
  else if (state == RAFT_CANDIDATE)
    seen.now = role::candidate;
  raft_id leader = 0;
  const char* address = nullptr;
  ::raft_leader(raft, &leader, &address);
  seen.leader = leader;
  return seen;
}

/// The system closes a dead leader's connections at once, long before its heartbeats are missed. A follower that hears
/// of it has no leader any more, so it grants others its vote, and stands itself when its turn comes. Where the leader
/// lives after all, it is followed again as soon as it is heard of, and who still hears it elects nobody else.
void replica_core::hung_up(std::uint64_t peer) {
  if (!running_)
    return;
  instance_->io.reconnect(peer);
  auto* raft = &instance_->consensus;
  if (instance_->trial || ::raft_state(raft) != RAFT_FOLLOWER || raft->follower_state.current_leader.id != peer)
    return;
  // One after the other, or they would split the votes. The first has asked and won by the time that the second stands.
  lose_leader(*raft, standing_delay_ms(options_.voters, options_.id, peer, time_outs_));
}

} // namespace dynamix::replication
