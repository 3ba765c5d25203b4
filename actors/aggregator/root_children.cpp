/// The root of a tree: the aggregators below it, and through which of them each worker is to come.

#include "actors/aggregator/root_role.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace dynamix::actors {
namespace {

constexpr double home_again_seconds = 10; ///< a worker that comes back within that cannot reach its own shard

} // namespace

void root_role::take_child(const messages::shard_hello& hello, std::function<void(const messages::welcome&)> answer) {
  adopt_child(hello.node);
  // What it decides must not be taken for what it decided before.
  ++terms_;
  raise_term();
  write_shard(hello.node, ledger::shard_state::up);
  call_home(hello.node);
  once_in_force([this, answer = std::move(answer)] {
    messages::welcome welcome;
    welcome.term = term_;
    answer(welcome);
  });
}

void root_role::take_absence(const messages::absence& gone, const route& way) {
  const auto& members = members_.state().members;
  if (gone.rank >= members.size() || members[gone.rank].incarnation != gone.incarnation)
    return;
  if (const auto known = routes_.find(gone.rank); known != routes_.end() && known->second != way)
    return;
  routes_.erase(gone.rank);
  if (way.empty())
    links_.disconnect(gone.rank);
  lose(gone.rank, gone.detail);
}

void root_role::take_beats(const messages::beat_summary& summary) {
  if (const auto found = children_.find(summary.node); found != children_.end()) {
    found->second.seen_seconds = links_.now_seconds();
    if (std::exchange(found->second.late, false))
      write_shard(found->first, ledger::shard_state::up);
  }
  for (const auto& sign : summary.beats) {
    follow_route(sign, summary.node);
    take_beat(sign);
  }
}

/// A sign of life shows the way to its worker. A hello shows it too, but may be overtaken by the next one, or its way
/// be forgotten with an aggregator in between; what was sent meanwhile went elsewhere.
void root_role::follow_route(const messages::heartbeat& sign, const std::string& child) {
  const auto& members = members_.state().members;
  if (sign.rank >= members.size() || members[sign.rank].incarnation != sign.incarnation || !children_.contains(child))
    return;
  const auto& one = members[sign.rank];
  if (!one.present() && one.state != member_state::lost)
    return;
  const bool came_through_another = std::exchange(routes_[sign.rank], child) != child;
  const bool late = 1000 * (links_.now_seconds() - members_.state().phase_seconds) > timeouts_.silence_ms;
  if ((came_through_another || late) && newest_.generation > 0 && members_.is_placed(sign.rank) &&
      sign.generation != newest_.generation)
    unsure_.insert(sign.rank);
}

/// Nobody is sent to a child that is silent.
void root_role::find_late_children() {
  for (auto& [host, one] : children_)
    if (!one.late && 1000 * (links_.now_seconds() - one.seen_seconds) > timeouts_.silence_ms) {
      one.late = true;
      spdlog::warn("shard_late host={}", host);
      write_shard(host, ledger::shard_state::late);
    }
}

void root_role::lost_child(const std::string& host, bool broken) {
  children_.erase(host);
  std::erase_if(routes_, [&](const auto& entry) { return entry.second == host; });
  if (ended_)
    return;
  spdlog::warn("shard_lost host={}", host);
  write_shard(host, ledger::shard_state::lost);
  const auto& members = members_.state().members;
  for (std::uint32_t rank = 0; broken && rank < members.size(); ++rank)
    if (!members[rank].unused() && cluster::host_of(members[rank].host) == host)
      lose(rank, "the connection to its host broke");
}

/// Through whom a worker should be reached: the root's child above its shard, its shard's host; empty: there is none.
std::pair<std::string, std::string> root_role::home_of(std::uint32_t rank) const {
  const auto& nodes = options_.plan.nodes;
  const auto shard = shard_of(rank);
  return shard == 0 ? std::pair<std::string, std::string>{}
                    : std::pair(nodes[child_above(options_.plan, shard)].host, nodes[shard].host);
}

bool root_role::is_there(const std::string& child) const {
  const auto found = children_.find(child);
  return found != children_.end() && !found->second.late;
}

/// Whether the child through which a worker comes is its own shard or above that. A shard whose parent was away for
/// long is the root's own child.
bool root_role::comes_from_home(std::uint32_t rank, const route& way) const {
  const auto& nodes = options_.plan.nodes;
  for (std::size_t node = shard_of(rank); node != 0; node = nodes[node].parent)
    if (nodes[node].host == way)
      return true;
  return false;
}

/// Whether a worker is where it is to be: it comes from home or, where it has none, or that is away, through any child
/// that takes workers.
bool root_role::is_in_place(std::uint32_t rank, const route& way) const {
  return comes_from_home(rank, way) || (!is_there(home_of(rank).first) && takes_workers(way));
}

/// Where a worker is to say hello in place of `way`: at its own shard, when that is there, or, where it has none and
/// comes through no other, at the one with room. Empty: it stays, as one that was just sent does, since it cannot get
/// there.
std::string root_role::find_home(const std::string& worker, const route& way) {
  const auto& members = members_.state().members;
  const auto found = std::ranges::find(members, worker, &member::host);
  const auto rank = static_cast<std::uint32_t>(found - members.begin());
  const bool serves = found != members.end() && found->serves;
  auto [child, shard] = home_of(rank);
  const bool away = !child.empty() && !is_there(child) && !comes_from_home(rank, way);
  if (!is_there(child))
    std::tie(child, shard) = find_room(rank);
  const bool at_home = is_in_place(rank, way) && !(away && is_crowded(way, child, worker));
  const auto now = links_.now_seconds();
  std::erase_if(sent_home_, [&](const auto& one) { return now - one.second.at_seconds >= home_again_seconds; });
  if (at_home)
    sent_home_.erase(worker);
  if (at_home || serves || child.empty() || sent_home_.contains(worker) || sent_home_.size() > members.size())
    return {};
  sent_home_[worker] = {now, child};
  return shard;
}

/// Workers that come through each child, with those that are on their way there; not those of a host.
std::map<std::string, std::size_t> root_role::count_loads(const std::string& without) const {
  std::map<std::string, std::size_t> loads;
  for (const auto& [rank, way] : routes_)
    loads[way] += without.empty() || cluster::host_of(host_of(rank)) != without ? 1 : 0;
  for (const auto& [worker, departed] : sent_home_)
    loads[departed.child] += without.empty() || cluster::host_of(worker) != without ? 1 : 0;
  return loads;
}

/// Whether a child would have fewer workers than `way` has, also with all of that worker's host.
bool root_role::is_crowded(const route& way, const std::string& child, const std::string& worker) const {
  const auto host = cluster::host_of(worker);
  const auto& members = members_.state().members;
  const auto size = static_cast<std::size_t>(
      std::ranges::count(members, host, [](const auto& one) { return cluster::host_of(one.host); }));
  auto loads = count_loads(host);
  return !child.empty() && child != way && loads[child] + size <= loads[way];
}

/// The root's child with the fewest workers to a shard, and one of its shards that a worker may go to; empty: no shard
/// is there.
std::pair<std::string, std::string> root_role::find_room(std::uint32_t rank) const {
  const auto& plan = options_.plan;
  auto loads = count_loads();
  std::pair<std::string, std::string> found;
  double least = 0;
  for (const auto& [host, one] : children_) {
    const auto node = plan.find(host);
    if (one.late || node == 0 || node >= plan.nodes.size())
      continue;
    auto shards = plan.shards_below(node);
    std::erase_if(shards, [&](auto shard) {
      return !serves(layout_, static_cast<std::uint32_t>(shard)) || !plan.may_go(rank, shard);
    });
    if (shards.empty())
      continue;
    const auto load = static_cast<double>(loads[host]) / static_cast<double>(shards.size());
    if (found.first.empty() || load < least) {
      found = {host, plan.nodes[shards[loads[host] % shards.size()]].host};
      least = load;
    }
  }
  return found;
}

/// Workers that are not in place and can be: another child took them in while theirs was away, or theirs is another
/// now. `host`: the child that is there since; empty: whichever.
void root_role::call_home(const std::string& host) {
  std::map<route, std::vector<std::uint32_t>> elsewhere;
  for (const auto& [rank, way] : routes_) {
    if (is_in_place(rank, way) || !members_.trains(rank))
      continue;
    const auto own = home_of(rank).first;
    const bool goes_home = is_there(own) && (host.empty() || own == host);
    const bool finds_room = !is_there(own) && (host.empty() ? !find_room(rank).first.empty() : takes_workers(host));
    if (goes_home || finds_room)
      elsewhere[way].push_back(rank);
  }
  for (auto& [way, ranks] : elsewhere)
    if (children_.contains(way)) {
      spdlog::info("moving workers={} from={} to={}", ranks.size(), way, host.empty() ? "their shards" : host);
      order(way, {.leaving = std::move(ranks), .reason = {}});
    }
}

void root_role::write_shard(const std::string& host, ledger::shard_state state) {
  const auto& plan = options_.plan;
  const auto index = plan.find(host);
  ledger::shard row{.name = host, .parent = plan.nodes[0].host, .level = 1, .state = state};
  if (index < plan.nodes.size() && plan.nodes[index].stands_by && !serves(layout_, static_cast<std::uint32_t>(index)) &&
      state != ledger::shard_state::standby)
    return; // it has no part in the run
  if (index < plan.nodes.size()) {
    const auto& node = plan.nodes[index];
    row.parent = index == 0 ? "" : plan.nodes[node.parent].host;
    row.level = node.level;
    row.workers = node.is_shard() ? static_cast<std::uint32_t>(std::ranges::count(layout_.homes, index)) : node.workers;
  }
  write_row(std::move(row));
}

} // namespace dynamix::actors
