#include "actors/membership.hpp"

#include "messages/validation.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

namespace dynamix::actors {

using messages::welcome_verdict;

membership::membership(const cluster::cluster_file& file, std::uint32_t heartbeat_interval_ms, std::uint64_t generation)
    : cluster_(file.name), digest_(file.digest()), heartbeat_interval_ms_(heartbeat_interval_ms),
      generation_(generation) {
  for (const auto* host : file.workers())
    members_.push_back({.host = host->name});
}

messages::welcome membership::refuse(welcome_verdict verdict, std::string detail) const {
  messages::welcome answer;
  answer.verdict = verdict;
  answer.detail = messages::fit_text(detail); // the names of thousands of hosts would not fit
  return answer;
}

messages::welcome membership::admit(const messages::hello& hello) {
  if (hello.protocol != messages::protocol_version)
    return refuse(welcome_verdict::protocol_mismatch,
                  fmt::format("host {} speaks protocol {}, this arbitrator {}; run the same release on every host",
                              hello.host, hello.protocol, messages::protocol_version));
  if (hello.cluster != cluster_)
    return refuse(welcome_verdict::cluster_mismatch,
                  fmt::format("host {} belongs to cluster {}, this is {}", hello.host, hello.cluster, cluster_));
  if (hello.cluster_digest != digest_)
    return refuse(
        welcome_verdict::cluster_mismatch,
        fmt::format("host {} read another version of the cluster file; copy the same one to every host", hello.host));
  auto found = std::ranges::find(members_, hello.host, &member::host);
  if (found == members_.end())
    return refuse(welcome_verdict::unknown_host, fmt::format("host {} has no worker in the cluster file", hello.host));
  if (hello.heartbeat_interval_ms != heartbeat_interval_ms_)
    return refuse(welcome_verdict::heartbeat_mismatch,
                  fmt::format("host {} sends a heartbeat every {} ms, this arbitrator every {} ms", hello.host,
                              hello.heartbeat_interval_ms, heartbeat_interval_ms_));
  if (found->state == member_state::present && found->incarnation != hello.incarnation)
    return refuse(welcome_verdict::duplicate_host,
                  fmt::format("host {} is already connected from another process", hello.host));
  if (found->incarnation != hello.incarnation && (closed() || found->state == member_state::departed))
    return refuse(welcome_verdict::generation_closed,
                  fmt::format("generation {} has ended (finished: {}; failed: {}; lost: {})", generation_,
                              names(member_state::departed), names(member_state::failed), names(member_state::lost)));
  // A worker in mid-training meets a new arbitrator: its generation goes on, and new terms lie above its last.
  if (hello.generation > generation_)
    generation_ = hello.generation;
  highest_term_ = std::max(highest_term_, hello.last_decision.term);
  found->state = member_state::present;
  found->incarnation = hello.incarnation;
  return {.verdict = welcome_verdict::accepted,
          .detail = "welcome",
          .term = highest_term_,
          .generation = generation_,
          .rank = static_cast<std::uint32_t>(found - members_.begin()),
          .world_size = static_cast<std::uint32_t>(members_.size()),
          .store_prefix = fmt::format("generation-{}", generation_)};
}

bool membership::departed(std::uint32_t rank, bool succeeded) {
  if (rank >= members_.size() || members_[rank].state != member_state::present)
    return false;
  members_[rank].state = succeeded ? member_state::departed : member_state::failed;
  return true;
}

bool membership::lost(std::uint32_t rank) {
  if (rank >= members_.size() || members_[rank].state != member_state::present)
    return false;
  members_[rank].state = member_state::lost;
  return true;
}

bool membership::closed() const {
  return std::ranges::any_of(
      members_, [](const member& one) { return one.state == member_state::lost || one.state == member_state::failed; });
}

bool membership::over() const {
  const auto count = [this](member_state state) { return std::ranges::count(members_, state, &member::state); };
  // Nobody trains with less than all workers, so whoever has not come by the time another has ended comes too late.
  const bool too_late = closed() || count(member_state::departed) > 0;
  return count(member_state::present) == 0 && (count(member_state::awaited) == 0 || too_late);
}

std::size_t membership::awaited() const {
  return static_cast<std::size_t>(std::ranges::count(members_, member_state::awaited, &member::state));
}

std::string membership::names(member_state state) const {
  std::vector<std::string_view> chosen;
  for (const auto& one : members_)
    if (one.state == state)
      chosen.push_back(one.host);
  if (chosen.empty())
    return "nobody";
  auto last = chosen.back();
  chosen.pop_back();
  return chosen.empty() ? std::string{last} : fmt::format("{} and {}", fmt::join(chosen, ", "), last);
}

} // namespace dynamix::actors
