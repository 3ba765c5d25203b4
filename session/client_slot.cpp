#include "session/client_slot.hpp"

#include "cluster/cluster_file.hpp"
#include "storage/json_text.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace dynamix::session {

namespace {

using messages::client_verdict;

constexpr std::size_t connections_max = 16;
constexpr double hello_patience_seconds = 5;
constexpr double tell_interval_seconds = 30;
constexpr std::uint32_t messages_a_second_max = 2000;

} // namespace

client_slot::client_slot(client_slot_options options) : options_(std::move(options)) {}

client_slot::connection* client_slot::find(connection_number number) {
  const auto found = connections_.find(number);
  return found == connections_.end() || found->second.closing ? nullptr : &found->second;
}

/// Whose connection a message came by; null where it is not to be taken.
client_slot::connection* client_slot::sender(connection_number number) {
  auto* one = find(number);
  if (one == nullptr || ++one->messages <= messages_a_second_max)
    return one;
  violated(number, fmt::format("it sends more than {} messages per second", messages_a_second_max));
  return nullptr;
}

std::string client_slot::name_of(const connection& one) const {
  return one.peer.process == 0 ? "the training process" : fmt::format("training process {}", one.peer.process);
}

/// In the log of a host with several workers each says whose its lines are.
void client_slot::log(bool warning, std::string text) {
  if (cluster::is_slot(options_.welcome.host))
    text += " worker=" + options_.welcome.host;
  effects_.push_back(client_effects::log{warning, std::move(text)});
}

void client_slot::end(connection_number number) {
  if (auto* one = find(number))
    one->closing = true;
  effects_.push_back(client_effects::close{number});
}

void client_slot::refuse(connection_number number, client_verdict verdict, std::string detail) {
  log(true, fmt::format("client_refused process={} reason={}", connections_.at(number).peer.process,
                        storage::quoted(detail)));
  send(number, messages::client_welcome{.verdict = verdict, .detail = std::move(detail), .host = {}});
  end(number);
}

// Connections.

void client_slot::connected(double now_seconds, connection_number number, const client_peer& peer) {
  connections_[number] = {.peer = peer, .since_seconds = now_seconds};
  if (peer.allowed && connections_.size() <= connections_max)
    return;
  log(true, fmt::format("client_refused process={} reason={}", peer.process,
                        storage::quoted(peer.allowed ? "too many connections" : "it is another user's")));
  end(number);
}

void client_slot::received(connection_number number, const messages::client_hello& said) {
  auto* one = sender(number);
  if (one == nullptr)
    return;
  if (std::exchange(one->said_hello, true))
    return regrouped(number, *one, said.members);
  const auto& welcome = options_.welcome;
  const auto protocol = messages::common_protocol(messages::protocols_of(said));
  if (protocol == 0)
    return refuse(number, client_verdict::protocol_mismatch,
                  fmt::format("the training process speaks {}, the agent of host {} {}; install the same release, "
                              "or two with a protocol in common",
                              to_text(messages::protocols_of(said)), welcome.host,
                              to_text(messages::protocol_range{})));
  if (closed_because_)
    return refuse(number, client_verdict::not_served,
                  fmt::format("host {} takes no training process any more: {}", welcome.host, *closed_because_));
  if (options_.open && said.members > welcome.workers)
    return refuse(number, client_verdict::not_served,
                  fmt::format("this training has {} processes, and the cluster at most {} workers "
                              "(cluster.workers_max)",
                              said.members, welcome.workers));
  if (!options_.open && said.members != welcome.workers)
    return refuse(number, client_verdict::not_served,
                  fmt::format("this training has {} processes, and the cluster file has {} workers; start as many "
                              "processes, or give the agents a cluster file with as many workers",
                              said.members, welcome.workers));
  // It took this agent for one that hangs, and what it had sent before is still being read.
  if (served_ != 0 && connections_.at(served_).incarnation == said.incarnation) {
    const auto before = served_;
    vacate("it has connected anew");
    end(before);
  }
  if (served_ != 0)
    return refuse(
        number, client_verdict::slot_taken,
        fmt::format(
            "{} has the slot of host {} already ({}); each training process needs a socket of its own: give a host "
            "with several of them workers = N in the cluster file",
            name_of(connections_.at(served_)), welcome.host, options_.socket));
  served_ = number;
  ready_ = false;
  steps_ = 0;
  one->incarnation = said.incarnation;
  one->members = one->present = said.members;
  auto answer = welcome;
  answer.verdict = client_verdict::accepted;
  answer.protocol = protocol;
  answer.generation = place_ ? place_->generation : 0;
  send(number, std::move(answer));
  if (stop_reason_)
    send(number, messages::client_notice{.reason = *stop_reason_});
  effects_.push_back(client_effects::follow{one->peer.process});
  log(false, fmt::format("client_joined process={} position={} members={} protocol={}", one->peer.process,
                         said.position, said.members, protocol));
}

/// Without this, a generation would wait for members that the group goes on without.
void client_slot::regrouped(connection_number number, connection& one, std::uint32_t present) {
  if (!serves(number))
    return violated(number, "it says hello again and is not served");
  if (present > one.members)
    return violated(number, fmt::format("its group has {} members now, and had {} at first", present, one.members));
  if (std::exchange(one.present, present) == present)
    return;
  log(false, fmt::format("client_regrouped process={} members={} present={}", one.peer.process, one.members, present));
  if (ready_)
    effects_.push_back(client_effects::ready{present});
}

void client_slot::received(connection_number number, const messages::heartbeat& said) {
  auto* one = sender(number);
  if (one == nullptr)
    return;
  if (!serves(number))
    return violated(number, "it sends a heartbeat before its hello");
  const bool first = !std::exchange(ready_, true);
  steps_ = first ? said.steps : std::max(steps_, said.steps);
  effects_.push_back(client_effects::progress{steps_});
  if (!first)
    return;
  log(false, fmt::format("client_ready process={} steps={}", one->peer.process, steps_));
  effects_.push_back(client_effects::ready{one->present});
}

void client_slot::received(connection_number number, const messages::window_report& said) {
  if (sender(number) == nullptr)
    return;
  if (!serves(number))
    return violated(number, "it sends a report before its hello");
  if (!ready_ || !place_)
    return; // of a time between two agents or two generations, in which nobody gathers it
  auto report = said;
  report.host = options_.welcome.host;
  report.rank = options_.welcome.rank;
  report.generation = place_->generation;
  report.network = {};
  report.system = {};
  report.gpu = {};
  report.telemetry_seconds = report.program_seconds = 0;
  report.telemetry_choice.clear();
  report.exchange_choice.clear();
  report.warning.clear();
  effects_.push_back(client_effects::report{std::move(report)});
}

void client_slot::received(connection_number number, const messages::evaluation_report& said) {
  if (sender(number) == nullptr)
    return;
  if (!serves(number))
    return violated(number, "it sends an evaluation before its hello");
  effects_.push_back(client_effects::evaluated{said});
}

void client_slot::received(connection_number number, const messages::farewell& said) {
  if (sender(number) == nullptr)
    return;
  if (!serves(number))
    return violated(number, "it says farewell before its hello");
  if (!said.succeeded || !ready_) {
    vacate(fmt::format("its training ended early{}{}", said.reason.empty() ? "" : ": ", said.reason));
    return end(number);
  }
  auto farewell = said;
  farewell.host = options_.welcome.host;
  farewell.rank = options_.welcome.rank;
  steps_ = std::max(steps_, said.steps);
  closed_because_ = "its training has ended";
  served_ = 0;
  ready_ = false;
  place_.reset();
  effects_.push_back(client_effects::progress{steps_});
  effects_.push_back(client_effects::follow{});
  effects_.push_back(client_effects::finished{std::move(farewell)});
  end(number);
}

void client_slot::violated(connection_number number, const std::string& what) {
  const auto* one = find(number);
  if (one == nullptr)
    return;
  log(true, fmt::format("client_refused process={} reason={}", one->peer.process, storage::quoted(what)));
  if (serves(number))
    vacate(what);
  end(number);
}

void client_slot::disconnected(connection_number number, const std::string& reason) {
  if (serves(number))
    vacate(reason);
  connections_.erase(number);
}

/// The client that was served is gone.
void client_slot::vacate(const std::string& reason) {
  const auto name = name_of(connections_.at(served_));
  served_ = 0;
  log(true, fmt::format("client_lost reason={} steps={}", storage::quoted(name + ": " + reason), steps_));
  effects_.push_back(client_effects::follow{});
  if (!std::exchange(ready_, false))
    return;
  effects_.push_back(client_effects::lost{fmt::format("{}: {}", name, reason)});
  leave(fmt::format("{}: {}", name, reason));
  told_seconds_.reset();
}

void client_slot::tick(double now_seconds) {
  if (now_seconds - counted_seconds_ >= 1) {
    counted_seconds_ = now_seconds;
    for (auto& [number, one] : connections_)
      one.messages = 0;
  }
  std::vector<connection_number> silent;
  for (const auto& [number, one] : connections_)
    if (!one.said_hello && !one.closing && now_seconds - one.since_seconds > hello_patience_seconds)
      silent.push_back(number);
  for (const auto number : silent)
    violated(number, "it connected and said nothing");
  if (ready_ || closed_because_)
    return;
  if (told_seconds_ && now_seconds - *told_seconds_ < tell_interval_seconds)
    return;
  told_seconds_ = now_seconds;
  if (served_ != 0)
    log(false,
        fmt::format("client_awaited {} has joined, and has not begun to train", name_of(connections_.at(served_))));
  else
    log(false, fmt::format("client_awaited waiting for the training process at {}", options_.socket));
}

// The worker.

void client_slot::placed(const messages::placement& place) {
  place_ = place;
  if (!ready_)
    return leave("the training process has gone");
  send(served_, place);
}

void client_slot::leave(const std::string& reason) {
  if (!place_)
    return;
  place_.reset();
  effects_.push_back(client_effects::left{reason});
}

void client_slot::decided(const messages::decision& decision) {
  if (ready_ && place_ && decision.generation == place_->generation)
    send(served_, decision);
}

void client_slot::stop(const std::string& reason) {
  if (stop_reason_)
    return;
  stop_reason_ = reason;
  if (served_ != 0)
    send(served_, messages::client_notice{.reason = reason});
}

void client_slot::close(const std::string& reason) {
  closed_because_ = reason;
  place_.reset();
  ready_ = false;
  served_ = 0;
  effects_.push_back(client_effects::follow{});
  for (auto& [number, one] : connections_)
    if (!one.closing)
      end(number);
}

} // namespace dynamix::session
