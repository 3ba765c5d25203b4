/// The tree of arbitrators for people and programs.

#include "cluster/tree_plan.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <fmt/core.h>

namespace dynamix::cluster {
namespace {

// Measured with 4 and 32 workers on 2 cores that they share with the arbitrator
// (benchmarks/results/2026-11-22-speed.md; 2026-11-22-scale.md, "Tree of arbitrators", for the last).
constexpr double exchange_seconds = 0.00043;        ///< report there, decision back
constexpr double worker_seconds = 0.000065;         ///< and a worker's part in gathering and deciding
constexpr double joined_worker_seconds = 0.0000085; ///< a worker in the root's account of a window
constexpr std::size_t nodes_drawn = 64;

std::string milliseconds(double seconds) {
  return fmt::format("{:.1f} ms", 1e3 * seconds);
}

std::string counted(std::size_t count, const std::string& what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string ranks(const tree_node& node) {
  const auto first = std::to_string(node.first_rank);
  return node.workers == 1 ? "rank " + first : fmt::format("ranks {} to {}", first, node.first_rank + node.workers - 1);
}

void draw(const tree_plan& plan, std::size_t index, const std::string& indent, std::string& text) {
  const auto& node = plan.nodes[index];
  text += node.host + (index == 0 ? ": root of " + counted(node.children.size(), "arbitrator") : "");
  if (index != 0)
    text += node.is_shard() ? ": shard of " + counted(node.workers, "worker") + ", " + ranks(node)
                            : ": above " + counted(node.children.size(), "shard") + ", " + ranks(node);
  text += "\n";
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const bool last = i + 1 == node.children.size();
    text += indent + (last ? "└─ " : "├─ ");
    draw(plan, node.children[i], indent + (last ? "   " : "│  "), text);
  }
}

std::size_t largest(const tree_plan& plan, bool of_shards) {
  std::size_t most = 0;
  for (const auto& node : plan.nodes)
    if (node.is_shard() == of_shards)
      most = std::max<std::size_t>(most, of_shards ? node.workers : node.children.size());
  return most;
}

} // namespace

tree_latency predict_latency(const tree_plan& plan) {
  const auto shard = static_cast<double>(plan.central() ? plan.nodes[0].workers : largest(plan, true));
  tree_latency predicted;
  predicted.decision_seconds = exchange_seconds + shard * worker_seconds;
  if (!plan.central())
    predicted.guidance_seconds = (plan.depth - 1) * exchange_seconds + joined_worker_seconds * plan.nodes[0].workers;
  return predicted;
}

std::string describe_tree(const tree_plan& plan) {
  if (!plan.error.empty())
    return "  " + plan.error + "\n";
  const auto predicted = predict_latency(plan);
  const auto workers = counted(plan.nodes[0].workers, "worker");
  const auto decision = "a decision takes about " + milliseconds(predicted.decision_seconds);
  if (plan.central())
    return "  one arbitrator, on " + plan.nodes[0].host + ", for " + workers + "; " + decision + "\n";
  const auto stand_by = static_cast<std::size_t>(std::ranges::count(plan.nodes, true, &tree_node::stands_by));
  const auto shards = static_cast<std::size_t>(std::ranges::count_if(plan.nodes, &tree_node::is_shard)) - stand_by;
  std::string text =
      fmt::format("  a tree of {}: {} in {} of at most {}; {}, what the root knows of a window is {} old\n  ",
                  counted(plan.depth, "level"), workers, counted(shards, "shard"), largest(plan, true), decision,
                  milliseconds(predicted.guidance_seconds));
  if (plan.nodes.size() <= nodes_drawn)
    draw(plan, 0, "  ", text);
  else
    text += plan.nodes[0].host + ": root, above " + counted(plan.nodes.size() - 1 - stand_by, "arbitrator") +
            "; --json names them all\n";
  for (const auto& node : plan.nodes)
    if (node.stands_by && plan.nodes.size() <= nodes_drawn)
      text += "  " + node.host + ": a shard that stands by\n";
  return text;
}

std::string describe_tree_json(const tree_plan& plan) {
  const auto predicted = predict_latency(plan);
  nlohmann::ordered_json tree = {{"depth", plan.depth},
                                 {"decision_seconds", predicted.decision_seconds},
                                 {"guidance_seconds", predicted.guidance_seconds},
                                 {"nodes", nlohmann::ordered_json::array()}};
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    const auto& node = plan.nodes[i];
    tree["nodes"].push_back({{"host", node.host},
                             {"parent", i == 0 ? "" : plan.nodes[node.parent].host},
                             {"level", node.level},
                             {"children", node.children.empty() ? node.workers : node.children.size()},
                             {"first_rank", node.first_rank},
                             {"workers", node.workers},
                             {"stands_by", node.stands_by}});
  }
  return tree.dump();
}

} // namespace dynamix::cluster
