#include "actors/aggregator/layout_decision.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <sstream>
#include <utility>

namespace dynamix::actors {
namespace {

using loads = std::map<std::uint32_t, std::uint32_t>;

/// Ranks of workers, by their host: these share a connection, and so a shard.
using machines = std::map<std::string, std::vector<std::uint32_t>>;

/// A worker's shard; 0: it has none of its own, and is at none that takes workers.
std::uint32_t shard_of(const tree_view& view, std::uint32_t rank) {
  if (view.layout.homes[rank] != 0)
    return view.layout.homes[rank];
  return serves(view.layout, view.at[rank]) ? view.at[rank] : 0;
}

/// Whether a worker would come through the same child of the root at both shards. The root knows a worker by that child
/// alone: it would take it to be in its new place already, and send it nowhere.
bool come_one_way(const tree_view& view, std::uint32_t one, std::uint32_t other) {
  return one != other && one != 0 && child_above(view.plan, one) == child_above(view.plan, other);
}

bool may_all_go(const tree_view& view, const std::vector<std::uint32_t>& ranks, std::uint32_t shard) {
  return std::ranges::all_of(ranks, [&](auto rank) {
    return view.plan.may_go(rank, shard) && !come_one_way(view, shard_of(view, rank), shard);
  });
}

machines machines_of(const tree_view& view, std::uint32_t shard) {
  machines found;
  for (std::uint32_t rank = 0; rank < view.machines.size(); ++rank)
    if (!view.machines[rank].empty() && shard_of(view, rank) == shard)
      found[view.machines[rank]].push_back(rank);
  return found;
}

bool is_here(const tree_view& view, std::uint32_t node) {
  return view.here.contains(child_above(view.plan, node));
}

void set_serving(shard_layout& layout, std::uint32_t node, bool takes) {
  std::erase(layout.serving, node);
  if (takes)
    layout.serving.insert(std::ranges::lower_bound(layout.serving, node), node);
}

std::string workers(std::size_t count) {
  return fmt::format("{} worker{}", count, count == 1 ? "" : "s");
}

/// Why no command can be about that host's; empty: one can.
std::string refuse_node(const tree_view& view, const std::string& host) {
  const auto node = view.plan.find(host);
  if (node == 0)
    return fmt::format("host {} holds the root, or may", host);
  if (node < view.plan.nodes.size() && view.plan.nodes[node].is_shard())
    return "";
  return node < view.plan.nodes.size() ? fmt::format("host {} holds an arbitrator above shards", host)
                                       : fmt::format("host {} holds no shard, and none that stands by", host);
}

std::string refuse_to_begin(const tree_view& view, const std::string& host) {
  if (auto reason = refuse_node(view, host); !reason.empty())
    return reason;
  const auto node = static_cast<std::uint32_t>(view.plan.find(host));
  if (serves(view.layout, node))
    return fmt::format("the shard of host {} takes workers already", host);
  return is_here(view, node) ? "" : fmt::format("the shard of host {} is not there", host);
}

std::string refuse_to_end(const tree_view& view, const std::string& host) {
  if (auto reason = refuse_node(view, host); !reason.empty())
    return reason;
  return serves(view.layout, static_cast<std::uint32_t>(view.plan.find(host)))
             ? ""
             : fmt::format("the shard of host {} stands by already", host);
}

layout_change add(const tree_view& view, const std::string& host) {
  if (auto reason = refuse_to_begin(view, host); !reason.empty())
    return {{}, std::move(reason)};
  const auto node = static_cast<std::uint32_t>(view.plan.find(host));
  auto layout = view.layout;
  set_serving(layout, node, true);
  auto counts = count_workers(view);
  std::map<std::uint32_t, machines> of;
  for (const auto& [shard, count] : counts)
    of[shard] = machines_of(view, shard);
  std::uint32_t mine = 0;
  while (!counts.empty()) {
    const auto largest = std::ranges::max_element(counts, {}, [](const auto& one) { return one.second; });
    auto& there = of[largest->first];
    auto chosen = there.find(host);
    if (chosen != there.end() && !may_all_go(view, chosen->second, node))
      chosen = there.end();
    if (chosen == there.end()) // not that of the host which holds the shard
      for (auto one = there.begin(); one != there.end(); ++one)
        if (one->first != view.plan.nodes[largest->first].host && may_all_go(view, one->second, node))
          chosen = one;
    const auto size = chosen == there.end() ? 0 : static_cast<std::uint32_t>(chosen->second.size());
    if (size == 0 || mine + 2 * size > largest->second) // then this one would be larger than that
      break;
    for (const auto rank : chosen->second)
      layout.homes[rank] = node;
    there.erase(chosen);
    largest->second -= size;
    mine += size;
  }
  return {std::move(layout), fmt::format("the shard of host {} takes {} from the others", host, workers(mine))};
}

layout_change drain(const tree_view& view, const std::string& host) {
  if (auto reason = refuse_to_end(view, host); !reason.empty())
    return {{}, std::move(reason)};
  const auto node = static_cast<std::uint32_t>(view.plan.find(host));
  auto layout = view.layout;
  set_serving(layout, node, false);
  auto counts = count_workers(view);
  counts.erase(node);
  std::erase_if(counts, [&](const auto& one) { return !is_here(view, one.first); });
  if (counts.empty())
    return {{}, fmt::format("the shard of host {} is the only one that is there: add another first", host)};
  std::replace(layout.homes.begin(), layout.homes.end(), node, std::uint32_t{0}); // also of who is gone
  std::size_t moved = 0;
  std::set<std::string> takers;
  for (const auto& [machine, ranks] : machines_of(view, node)) {
    auto least = counts.end();
    for (auto one = counts.begin(); one != counts.end(); ++one)
      if (may_all_go(view, ranks, one->first) && (least == counts.end() || one->second < least->second))
        least = one;
    if (least == counts.end())
      return {{},
              fmt::format("no other shard is there that host {} may go to{}: add another first", machine,
                          view.plan.nodes[node].parent == 0
                              ? ""
                              : ", since those below the same arbitrator cannot take its workers")};
    for (const auto rank : ranks)
      layout.homes[rank] = least->first;
    least->second += static_cast<std::uint32_t>(ranks.size());
    moved += ranks.size();
    takers.insert(view.plan.nodes[least->first].host);
  }
  return {std::move(layout), moved == 0 ? fmt::format("the shard of host {} had no workers, and stands by", host)
                                        : fmt::format("{} of the shard of host {} go to {}", workers(moved), host,
                                                      fmt::join(takers, ", "))};
}

layout_change move(const tree_view& view, const std::string& host, const std::string& to) {
  auto reason = refuse_to_end(view, host);
  if (reason.empty())
    reason = refuse_to_begin(view, to);
  if (!reason.empty())
    return {{}, std::move(reason)};
  const auto from = static_cast<std::uint32_t>(view.plan.find(host));
  const auto node = static_cast<std::uint32_t>(view.plan.find(to));
  if (come_one_way(view, from, node))
    return {{},
            fmt::format("the shards of hosts {} and {} are both below host {}'s arbitrator, where workers cannot "
                        "be sent from one to the other; move them to a shard right below the root",
                        host, to, view.plan.nodes[child_above(view.plan, node)].host)};
  auto layout = view.layout;
  std::size_t moved = 0;
  for (const auto& [machine, ranks] : machines_of(view, from)) {
    if (!may_all_go(view, ranks, node))
      return {{}, fmt::format("host {} may not go to the shard of host {}, in another part of the tree", machine, to)};
    for (const auto rank : ranks)
      layout.homes[rank] = node;
    moved += ranks.size();
  }
  std::replace(layout.homes.begin(), layout.homes.end(), from, node);
  set_serving(layout, from, false);
  set_serving(layout, node, true);
  return {std::move(layout), fmt::format("{} of the shard of host {} go to that of host {}", workers(moved), host, to)};
}

} // namespace

shard_layout plan_layout(const cluster::tree_plan& plan, std::size_t workers, std::uint64_t cluster_digest) {
  shard_layout layout{.cluster_digest = cluster_digest, .serving = {}, .homes = {}};
  for (std::uint32_t node = 1; node < plan.nodes.size(); ++node)
    if (plan.nodes[node].is_shard() && !plan.nodes[node].stands_by)
      layout.serving.push_back(node);
  for (std::uint32_t rank = 0; rank < workers; ++rank)
    layout.homes.push_back(static_cast<std::uint32_t>(plan.shard_of(rank)));
  return layout;
}

bool is_layout_of(const shard_layout& layout, const cluster::tree_plan& plan, std::size_t workers,
                  std::uint64_t cluster_digest) {
  const auto is_shard = [&](std::uint32_t node) { return node < plan.nodes.size() && plan.nodes[node].is_shard(); };
  const auto unsorted = std::ranges::adjacent_find(layout.serving, std::greater_equal()); // it is searched by halves
  return layout.cluster_digest == cluster_digest && layout.homes.size() == workers &&
         std::ranges::all_of(layout.serving, is_shard) && unsorted == layout.serving.end() &&
         std::ranges::all_of(layout.homes, [&](auto node) { return node == 0 || is_shard(node); });
}

bool serves(const shard_layout& layout, std::uint32_t node) {
  return std::ranges::binary_search(layout.serving, node);
}

std::uint32_t child_above(const cluster::tree_plan& plan, std::uint32_t node) {
  while (node != 0 && plan.nodes[node].parent != 0)
    node = static_cast<std::uint32_t>(plan.nodes[node].parent);
  return node;
}

std::optional<shard_command> read_command(const std::string& line) {
  static constexpr std::pair<std::string_view, shard_verb> verbs[] = {
      {"add", shard_verb::add}, {"drain", shard_verb::drain}, {"move", shard_verb::move}};
  std::istringstream words(line);
  std::string word;
  std::string beyond;
  shard_command command;
  words >> word >> command.host;
  const auto* found = std::ranges::find(verbs, word, [](const auto& one) { return one.first; });
  if (found == std::end(verbs) || command.host.empty())
    return std::nullopt;
  command.verb = found->second;
  if (command.verb == shard_verb::move && !(words >> command.to))
    return std::nullopt;
  return words >> beyond ? std::nullopt : std::optional(command);
}

loads count_workers(const tree_view& view) {
  loads counts;
  for (const auto node : view.layout.serving)
    counts[node] = 0;
  for (std::uint32_t rank = 0; rank < view.machines.size(); ++rank)
    if (!view.machines[rank].empty())
      if (const auto found = counts.find(shard_of(view, rank)); found != counts.end())
        ++found->second;
  return counts;
}

layout_change decide_layout(const shard_command& command, const tree_view& view) {
  switch (command.verb) {
  case shard_verb::add:
    return add(view, command.host);
  case shard_verb::drain:
    return drain(view, command.host);
  case shard_verb::move:
    return move(view, command.host, command.to);
  }
  return {{}, "no such command"};
}

layout_change replace_shard(std::uint32_t lost, const tree_view& view) {
  const auto& nodes = view.plan.nodes;
  std::uint32_t all = 0;
  std::uint32_t others = 0;
  for (const auto& [node, count] : count_workers(view)) {
    all += count;
    others += node != lost && is_here(view, node) ? 1 : 0;
  }
  if (all <= others * view.fanout)
    return {{}, fmt::format("the others have room for the workers of host {}'s", nodes[lost].host)};
  for (std::uint32_t node = 1; node < nodes.size(); ++node)
    if (nodes[node].is_shard() && !serves(view.layout, node) && is_here(view, node)) {
      auto change = move(view, nodes[lost].host, nodes[node].host);
      change.reason = fmt::format("the shard of host {} is away: {}", nodes[lost].host, change.reason);
      return change;
    }
  return {{}, "no shard stands by"};
}

} // namespace dynamix::actors
