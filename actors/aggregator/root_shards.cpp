/// The root of a tree: which of its shards take workers, as its user says and as shards are lost.

#include "actors/aggregator/root_role.hpp"
#include "storage/json_text.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

namespace dynamix::actors {
namespace {

std::string answer_text(bool done, const std::string& reason) {
  storage::json_text json;
  json.open_object().member("done", done).member("reason", reason).close_object();
  return json.take();
}

/// Whether its shard waits for it.
bool is_expected(const member& one) {
  return !one.unused() && !one.serves &&
         (one.present() || one.state == member_state::lost || (one.state == member_state::awaited && !one.guest));
}

} // namespace

bool root_role::takes_workers(const std::string& child) const {
  const auto& plan = options_.plan;
  const auto node = plan.find(child);
  if (node == 0 || node >= plan.nodes.size())
    return false;
  return std::ranges::any_of(plan.shards_below(node),
                             [this](auto shard) { return serves(layout_, static_cast<std::uint32_t>(shard)); });
}

tree_view root_role::view() const {
  const auto& plan = options_.plan;
  const auto& members = members_.state().members;
  tree_view seen{.plan = plan,
                 .layout = layout_,
                 .machines = std::vector<std::string>(layout_.homes.size()),
                 .at = std::vector<std::uint32_t>(layout_.homes.size()),
                 .here = {},
                 .fanout = file_->arbitrator.fanout};
  for (std::uint32_t rank = 0; rank < layout_.homes.size() && rank < members.size(); ++rank)
    if (is_expected(members[rank]))
      seen.machines[rank] = cluster::host_of(members[rank].host);
  for (const auto& [rank, way] : routes_)
    if (const auto node = plan.find(way); rank < seen.at.size() && node < plan.nodes.size())
      seen.at[rank] = static_cast<std::uint32_t>(node);
  for (const auto& [host, one] : children_)
    if (const auto node = plan.find(host); !one.late && node > 0 && node < plan.nodes.size())
      seen.here.insert(static_cast<std::uint32_t>(node));
  return seen;
}

void root_role::take_command(const std::string& line, std::function<void(std::string)> answer) {
  if (line == "list")
    return answer(describe_arbitrators());
  const auto command = read_command(line);
  if (!command)
    return answer(answer_text(false, "it is not a command: add HOST, drain HOST or move HOST HOST"));
  if (!options_.tree())
    return answer(answer_text(false, "one arbitrator decides for all workers: there are no shards"));
  if (ended_ || stop_requested_ || proposed_term_ == 0 || laying_out_)
    return answer(answer_text(false, ended_ || stop_requested_ ? "training ends"
                                     : laying_out_             ? "another change is being made; ask again"
                                                               : "the root has only begun; ask again"));
  auto change = decide_layout(*command, view());
  if (!change.layout)
    return answer(answer_text(false, change.reason));
  lay_out(std::move(change), std::move(answer));
}

/// Another leader must know before anybody moves.
void root_role::lay_out(layout_change change, std::function<void(std::string)> answer) {
  laying_out_ = true;
  const auto layout = *change.layout;
  keep(layout, [this, layout, reason = std::move(change.reason), answer = std::move(answer)] {
    laying_out_ = false;
    const auto before = std::exchange(layout_, layout);
    spdlog::info("shards_laid_out reason={}", storage::quoted(reason));
    if (options_.write_layout)
      if (const auto problem = options_.write_layout(layout_); !problem.empty())
        spdlog::warn("layout_not_kept error={}", storage::quoted(problem));
    for (std::uint32_t node = 1; node < options_.plan.nodes.size(); ++node) {
      const bool takes = serves(layout_, node);
      const auto& host = options_.plan.nodes[node].host;
      if (takes != serves(before, node) || (takes && before.homes != layout_.homes))
        write_shard(host, takes ? is_there(host) ? ledger::shard_state::up : ledger::shard_state::lost
                                : ledger::shard_state::standby);
    }
    sent_home_.clear(); // their homes may be others
    away_since_.clear();
    call_home({});
    answer(answer_text(true, reason));
  });
}

/// A shard that is away for as long as its workers wait for it is not waited for. Before training begins hosts come in
/// any order, and some of them late.
void root_role::replace_lost_shards() {
  if (!options_.tree() || ended_ || stop_requested_ || members_.generation() == 0)
    return;
  const auto now = links_.now_seconds();
  for (const auto node : layout_.serving) {
    if (options_.plan.nodes[node].parent != 0 || children_.contains(options_.plan.nodes[node].host)) {
      away_since_.erase(node);
      continue;
    }
    const auto since = away_since_.emplace(node, now).first->second;
    if (1000 * (now - since) < timeouts_.rejoin_timeout_ms || laying_out_)
      continue;
    if (auto change = replace_shard(node, view()); change.layout) {
      away_since_.erase(node);
      return lay_out(std::move(change), [](const std::string&) {}); // of others at the next look
    }
  }
}

/// The shard that a worker comes through, the root's child where that is all that is known; 0: none.
std::uint32_t root_role::shard_reached(const route& way, std::uint32_t rank) const {
  const auto& plan = options_.plan;
  const auto child = plan.find(way);
  if (!options_.tree() || child >= plan.nodes.size())
    return 0;
  const auto own = shard_of(rank); // what is below a child, only that child knows
  return static_cast<std::uint32_t>(child_above(plan, own) == child ? own : child);
}

std::string root_role::describe_arbitrators() const {
  const auto& plan = options_.plan;
  const auto& members = members_.state().members;
  const auto& root = options_.host.empty() ? file_->arbitrator_host().name : options_.host;
  std::map<std::uint32_t, std::vector<std::string>> workers;
  for (const auto& [rank, way] : routes_)
    if (members[rank].present())
      workers[shard_reached(way, rank)].push_back(members[rank].host);
  storage::json_text json;
  json.open_object().member("cluster", file_->name).member("root", root).member("term", term_);
  json.member("generation", members_.generation()).member("fanout", file_->arbitrator.fanout);
  json.column("replicas", file_->arbitrators(), [](const auto* host) { return host->name; });
  const auto tell = [&](std::uint32_t node, const std::string& host, const std::string& parent, const char* role,
                        const char* state) {
    json.open_object().member("host", host).member("role", role).member("state", state).member("parent", parent);
    json.column("workers", workers[node], [](const auto& name) { return name; }).close_object();
  };
  json.key("arbitrators").open_array();
  tell(0, root, "", "root", "decides");
  for (std::uint32_t node = 1; node < plan.nodes.size(); ++node) {
    const auto& one = plan.nodes[node];
    const auto child = children_.find(plan.nodes[child_above(plan, node)].host);
    tell(node, one.host, one.parent == 0 ? root : plan.nodes[one.parent].host,
         one.is_shard() ? "shard" : "above shards",
         child == children_.end()                   ? "away"
         : child->second.late                       ? "late"
         : one.is_shard() && !serves(layout_, node) ? "stands by"
                                                    : "decides");
  }
  json.close_array().close_object();
  return json.take();
}

} // namespace dynamix::actors
