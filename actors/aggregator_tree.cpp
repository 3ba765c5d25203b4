#include "actors/aggregator_tree.hpp"

#include "actors/aggregator_members.hpp"
#include "actors/handlers.hpp"
#include "actors/packing.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>

namespace dynamix::actors::aggregating {

namespace {

constexpr double home_again_seconds = 10; ///< a worker that comes back within that cannot reach its own shard

const tree_child* find_child(pointer self, const std::string& host) {
  const auto& children = self->state.children;
  const auto found = std::ranges::find(children, host, &tree_child::host);
  return found == children.end() ? nullptr : &*found;
}

/// Through whom a worker should be reached: the root's child above its shard, its shard's host; empty: there is none.
std::pair<std::string, std::string> home_of(pointer self, std::uint32_t rank) {
  const auto& plan = self->state.options.plan;
  const auto shard = plan.shard_of(rank);
  auto child = shard;
  while (child != 0 && plan.nodes[child].parent != 0)
    child = plan.nodes[child].parent;
  return shard == 0 ? std::pair<std::string, std::string>{} : std::pair(plan.nodes[child].host, plan.nodes[shard].host);
}

void write_shard(pointer self, const std::string& host, const std::string& what) {
  const auto& plan = self->state.options.plan;
  const auto index = plan.find(host);
  ledger::shard row{.name = host, .parent = plan.nodes[0].host, .level = 1, .state = what};
  if (index < plan.nodes.size()) {
    const auto& node = plan.nodes[index];
    row.parent = index == 0 ? "" : plan.nodes[node.parent].host;
    row.level = node.level;
    row.workers = node.workers;
  }
  write_row(self, std::move(row));
}

/// Workers that another child took in while this one was away.
void call_home(pointer self, const std::string& host) {
  std::map<std::string, std::vector<std::uint32_t>> elsewhere;
  for (const auto& [rank, route] : self->state.routes)
    if (route != host && home_of(self, rank).first == host)
      elsewhere[route].push_back(rank);
  for (auto& [route, ranks] : elsewhere)
    if (const auto* child = find_child(self, route)) {
      spdlog::info("moving workers={} from={} to={}", ranks.size(), route, host);
      send_order(self, child->actor, {.leaving = std::move(ranks), .reason = {}});
    }
}

/// A worker that has come elsewhere while its own shard is there is sent to it, unless it just was.
bool is_to_go_home(pointer self, const std::string& worker, const std::string& through, std::string& home) {
  auto& state = self->state;
  const auto& members = state.members->state().members;
  const auto found = std::ranges::find(members, worker, &member::host);
  if (found == members.end())
    return false;
  const auto rank = static_cast<std::uint32_t>(found - members.begin());
  const auto [child, shard] = home_of(self, rank);
  const auto* at_home = find_child(self, child);
  if (child == through || at_home == nullptr || at_home->late)
    return false;
  const auto now = seconds_now(self);
  const auto last = state.sent_home.find(rank);
  if (last != state.sent_home.end() && now - last->second < home_again_seconds)
    return false;
  state.sent_home[rank] = now;
  home = shard;
  return true;
}

std::map<std::string, std::vector<std::uint32_t>> by_route(pointer self, const std::vector<std::uint32_t>& ranks) {
  std::map<std::string, std::vector<std::uint32_t>> routed;
  for (const auto rank : ranks)
    if (const auto found = self->state.routes.find(rank); found != self->state.routes.end())
      routed[found->second].push_back(rank);
  return routed;
}

} // namespace

cluster::timeouts membership_timeouts(const aggregator_options& options) {
  auto timeouts = options.timeouts;
  if (options.tree())
    timeouts.silence_ms = 2 * timeouts.silence_ms + timeouts.beat_interval_ms;
  return timeouts;
}

caf::result<message<messages::welcome>, parent_actor>
take_child(pointer self, const message<messages::shard_hello>& said, const child_actor& child) {
  auto& state = self->state;
  const auto hello = unpack<messages::shard_hello>(said, "aggregator");
  if (!hello || !child || !state.options.tree())
    return caf::sec::invalid_argument;
  auto answer = judge_child(*hello, state.options.file, state.options.timeouts);
  if (answer.verdict != messages::welcome_verdict::accepted)
    return {pack(answer), parent_actor{}};
  adopt(self, child, hello->node);
  // What it decides must not be taken for what it decided before.
  ++state.terms;
  raise_term(self);
  answer.term = state.term;
  spdlog::info("shard_attached host={}", hello->node);
  write_shard(self, hello->node, "up");
  call_home(self, hello->node);
  return {pack(answer), parent_actor{aggregator_local{self}}};
}

caf::result<message<messages::welcome>> take_relayed(pointer self, const message<messages::hello>& said,
                                                     const child_actor& child) {
  auto& state = self->state;
  const auto hello = unpack<messages::hello>(said, "aggregator");
  const auto through = std::ranges::find(state.children, child, &tree_child::actor);
  if (!hello || through == state.children.end())
    return caf::sec::invalid_argument;
  std::string home;
  if (is_to_go_home(self, hello->host, through->host, home)) {
    messages::welcome answer;
    answer.verdict = messages::welcome_verdict::not_leader;
    answer.detail = "the shard of host " + hello->host + " is there";
    answer.leader = home;
    return pack(answer);
  }
  const auto route = through->host;
  const auto welcome = take_in(self, *hello);
  if (welcome.verdict == messages::welcome_verdict::accepted)
    state.routes[welcome.rank] = route;
  return pack(welcome);
}

void take_absence(pointer self, const message<messages::absence>& received) {
  auto& state = self->state;
  const auto gone = unpack<messages::absence>(received, "aggregator");
  if (!gone || gone->rank >= state.members->state().members.size() ||
      state.members->state().members[gone->rank].incarnation != gone->incarnation)
    return;
  state.routes.erase(gone->rank);
  lose_worker(self, gone->rank, gone->detail);
}

void take_summary(pointer self, const message<messages::beat_summary>& received) {
  const auto summary = unpack<messages::beat_summary>(received, "aggregator");
  if (!summary)
    return;
  const auto child = std::ranges::find(self->state.children, summary->node, &tree_child::host);
  if (child != self->state.children.end()) {
    child->seen_seconds = seconds_now(self);
    if (std::exchange(child->late, false))
      write_shard(self, child->host, "up");
  }
  for (const auto& sign : summary->beats)
    take_sign(self, sign);
}

void look_after_children(pointer self) {
  for (auto& child : self->state.children)
    if (!child.late && 1000 * (seconds_now(self) - child.seen_seconds) > self->state.options.timeouts.silence_ms) {
      child.late = true;
      spdlog::warn("shard_late host={}", child.host);
      write_shard(self, child.host, "late");
    }
}

/// Its workers look for another; only the one on its own host goes with it.
void child_down(pointer self, const caf::down_msg& down) {
  auto& state = self->state;
  const auto found =
      std::ranges::find_if(state.children, [&](const auto& one) { return one.actor.address() == down.source; });
  if (found == state.children.end())
    return;
  const auto host = found->host;
  state.children.erase(found);
  std::erase_if(state.routes, [&](const auto& entry) { return entry.second == host; });
  if (state.ended)
    return;
  spdlog::warn("shard_lost host={}", host);
  write_shard(self, host, "lost");
  const auto& members = state.members->state().members;
  const auto worker = std::ranges::find(members, host, &member::host);
  if (down.reason == caf::exit_reason::remote_link_unreachable && worker != members.end())
    lose_worker(self, static_cast<std::uint32_t>(worker - members.begin()), "the connection to its host broke");
}

void place_through_children(pointer self, const std::vector<std::uint32_t>& ranks) {
  const auto& state = self->state;
  const auto placement = pack(state.newest);
  for (const auto& [route, some] : by_route(self, ranks))
    if (const auto* child = find_child(self, route))
      self->send(child->actor, atom::place_v, pack(messages::recipients{some}), placement, state.store);
}

void notify_through_children(pointer self,
                             const std::vector<std::pair<std::uint32_t, messages::generation_notice>>& notices) {
  // One message for all that are told the same.
  std::vector<std::pair<messages::generation_notice, std::vector<std::uint32_t>>> told;
  for (const auto& [rank, notice] : notices) {
    const auto same = std::ranges::find(told, notice, [](const auto& entry) { return entry.first; });
    if (same == told.end())
      told.push_back({notice, {rank}});
    else
      same->second.push_back(rank);
  }
  for (const auto& [notice, ranks] : told)
    for (const auto& [route, some] : by_route(self, ranks))
      if (const auto* child = find_child(self, route))
        self->send(child->actor, atom::closed_v, pack(messages::recipients{some}), pack(notice));
}

void guide(pointer self, const message<messages::guidance>& received) {
  const auto known = unpack<messages::guidance>(received, "aggregator");
  if (!known)
    return;
  guide_children(self, *known, self->state.routes, [](const tree_child& child) { return child.host; });
}

void publish_to_children(pointer self, const message<messages::policy_version>& version) {
  self->state.policy = version;
  for (const auto& child : self->state.children)
    self->send(child.actor, atom::policy_v, version);
}

void tell_term(pointer self) {
  for (const auto& child : self->state.children)
    send_order(self, child.actor, {.leaving = {}, .reason = {}});
}

void stop_children(pointer self) {
  for (const auto& child : self->state.children)
    self->send(child.actor, atom::stop_v);
}

void finish_children(pointer self, const part_outcome& outcome) {
  for (const auto& child : self->state.children) {
    write_shard(self, child.host, "ended");
    send_order(self, child.actor,
               {.leaving = {}, .finished = true, .succeeded = outcome.succeeded, .reason = outcome.reason});
  }
}

} // namespace dynamix::actors::aggregating
