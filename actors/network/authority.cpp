#include "actors/network/authority.hpp"

#include <spdlog/fmt/fmt.h>

#include <utility>

namespace dynamix::actors {
namespace {

std::string unless(bool allowed, const char* who) {
  return allowed ? "" : fmt::format("only {} may say that", who);
}

} // namespace

authority::authority(const cluster::cluster_file& file, const std::string& host, std::shared_ptr<worker_names> names,
                     stand_ins standing_in)
    : own_(host), is_open_(file.membership == cluster::membership_kind::open), plan_(cluster::plan_tree(file)),
      workers_(names ? std::move(names) : std::make_shared<worker_names>(file)), standing_in_(std::move(standing_in)) {
  for (const auto& machine : file.hosts)
    named_.insert(machine.name);
  const auto* self = file.find(host);
  const bool works = workers_->has_worker_of(host);
  if (plan_.central()) {
    plan_.nodes.clear();
    for (const auto* arbitrator : file.arbitrators()) {
      if (works || self == nullptr)
        deciding_.insert(arbitrator->name);
      if (self != nullptr && self->has(cluster::role::arbitrator))
        replicas_.insert(arbitrator->name);
    }
    return;
  }
  std::set<std::uint32_t> played;
  const auto workers = static_cast<std::uint32_t>(workers_->all().size());
  for (std::uint32_t rank = 0; (works || standing_in_.contains(host)) && rank < workers; ++rank)
    if (owns(host, rank))
      played.insert(rank);
  for (const auto rank : played)
    for (const auto place : plan_.places_for_worker(rank))
      for (const auto& holder : plan_.hosts_of(place))
        deciding_.insert(holder);
  if (self == nullptr && played.empty()) // it joins an open cluster, at whichever arbitrator has room
    for (std::size_t node = 0; node < plan_.nodes.size(); ++node)
      for (const auto& holder : plan_.hosts_of(node))
        deciding_.insert(holder);
  find_neighbours(host);
}

/// Of the aggregator that this host holds, where it holds one. Beside the root, each of its hosts holds a shard for
/// workers that reach no other, which is below whichever of them leads.
void authority::find_neighbours(const std::string& host) {
  const auto own = plan_.find(host);
  for (std::size_t node = 1; own < plan_.nodes.size() && node < plan_.nodes.size(); ++node)
    for (const auto place : plan_.places_for_node(node)) {
      if (node == own)
        for (const auto& holder : plan_.hosts_of(place))
          above_.insert(holder);
      else if (place == own)
        below_[plan_.nodes[node].host];
    }
  if (own == 0)
    for (const auto& other : plan_.roots)
      if (other != host) {
        above_.insert(other);
        replicas_.insert(other);
        below_[other];
      }
  const auto workers = workers_->all().size();
  for (std::uint32_t rank = 0; !below_.empty() && rank < workers; ++rank)
    for (const auto place : plan_.places_for_worker(rank)) {
      for (auto node = place; node != 0; node = plan_.nodes[node].parent)
        if (const auto found = below_.find(plan_.nodes[node].host); found != below_.end())
          found->second.insert(rank);
      if (place == 0)
        for (const auto& root : plan_.roots)
          if (const auto found = below_.find(root); found != below_.end())
            found->second.insert(rank);
    }
}

std::string authority::name_of(std::uint32_t rank) const {
  const auto host = workers_->name_of(rank);
  return host.empty() ? "nobody's" : fmt::format("host \"{}\"'s", host);
}

/// Whether that is a worker of the speaker's host or, where it stands in for others, one of theirs.
bool authority::owns(const std::string& speaker, std::uint32_t rank) const {
  const auto played = standing_in_.find(speaker);
  return played != standing_in_.end() ? played->second.contains(rank)
                                      : cluster::host_of(workers_->name_of(rank)) == speaker;
}

/// Whether a host may say that it is that worker: itself, one of its own or, where it stands in for others, of theirs.
/// How many a host has that joins an open cluster, it says itself.
bool authority::speaks_as(const std::string& speaker, const std::string& host) const {
  if (host == speaker)
    return true;
  const auto rank = workers_->rank_of(host);
  return rank ? owns(speaker, *rank) : is_open_ && cluster::host_of(host) == speaker && !named_.contains(speaker);
}

/// Of a host's workers: it speaks for them alone.
std::string authority::refuse_worker(const std::string& speaker, const statement& said) const {
  if (!standing_in_.contains(speaker) && !workers_->has_worker_of(speaker))
    return "it has no worker";
  if (!said.host.empty() && !speaks_as(speaker, said.host))
    return fmt::format("it says that it is of host \"{}\"", said.host);
  for (const auto rank : said.ranks)
    if (!owns(speaker, rank))
      return fmt::format("it is about rank {}, which is {}", rank, name_of(rank));
  return "";
}

/// Of an aggregator below, through which its workers speak.
std::string authority::refuse_child(const std::string& speaker, const statement& said) const {
  const auto found = below_.find(speaker);
  if (found == below_.end())
    return "it is not an arbitrator below this one";
  if (said.kind == statement_kind::beats && said.host != speaker)
    return fmt::format("it says that it is of host \"{}\"", said.host);
  for (const auto rank : said.ranks)
    if (!found->second.contains(rank))
      return fmt::format("it is about rank {}, which is {} and does not come through it", rank, name_of(rank));
  return "";
}

/// On the store of a generation. The others call a host that no file names where it says, so it says its own name, and
/// an address of its own.
std::string authority::refuse_operation(const std::string& speaker, const statement& said) const {
  auto reason = refuse_worker(speaker, said);
  if (!reason.empty() || said.found_at.empty() || named_.contains(speaker))
    return reason;
  if (!said.found_at.starts_with(speaker + ' '))
    return "it says that it is found as another host";
  return workers_->why_elsewhere(speaker, said.found_at.substr(speaker.size() + 1));
}

void authority::linked(const std::string& host, std::vector<std::string> addresses) const {
  if (is_open_ && !named_.contains(host)) // the others know where those of the file are
    workers_->linked(host, std::move(addresses));
}

std::string authority::refuse(const std::string& speaker, const statement& said) const {
  switch (said.kind) {
  case statement_kind::hello: // whether it is a worker at all is told to it
    return speaks_as(speaker, said.host) ? "" : fmt::format("it says that it is of host \"{}\"", said.host);
  case statement_kind::finish:
    if (said.host != speaker)
      return fmt::format("it says that it is of host \"{}\"", said.host);
    return unless(replicas_.contains(speaker), "a replica");
  case statement_kind::attach:
    if (said.host != speaker)
      return fmt::format("it says that it is of host \"{}\"", said.host);
    return refuse_child(speaker, said);
  case statement_kind::report:
  case statement_kind::beat:
  case statement_kind::settle:
    return refuse_worker(speaker, said);
  case statement_kind::evaluation:
  case statement_kind::absent:
  case statement_kind::farewell: {
    auto reason = refuse_worker(speaker, said);
    return reason.empty() || !below_.contains(speaker) ? reason : refuse_child(speaker, said);
  }
  case statement_kind::relay:
  case statement_kind::beats:
  case statement_kind::window:
    return refuse_child(speaker, said);
  case statement_kind::guidance:
    return unless(above_.contains(speaker), "an arbitrator above");
  case statement_kind::decision:
    return unless(deciding_.contains(speaker) || above_.contains(speaker), "an arbitrator of this host");
  case statement_kind::operation:
    return relays(speaker) ? "" : refuse_operation(speaker, said);
  case statement_kind::answer:
    return unless(deciding_.contains(speaker) || above_.contains(speaker) || replicas_.contains(speaker),
                  "who is asked by this host");
  }
  return "";
}

} // namespace dynamix::actors
