#include "actors/host/tree_services.hpp"

#include "actors/aggregator/aggregator.hpp"
#include "actors/arbitrator/arbitrator.hpp"
#include "actors/host/incarnation.hpp"
#include "actors/network/connector.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

namespace dynamix::actors {

tree_services::tree_services(caf::actor_system& system, const host_options& options,
                             std::shared_ptr<host_events> events, std::shared_ptr<worker_names> names)
    : system_(system), options_(options), events_(std::move(events)), names_(std::move(names)),
      timeouts_(cluster::derive_timeouts(options.file->detect_ms)), plan_(cluster::plan_tree(*options.file)),
      node_(plan_.find(options.host)) {}

connector_options tree_services::reach(const std::vector<const cluster::host*>& hosts) const {
  connector_options found{.targets = {}, .probe_timeout_ms = timeouts_.probe_timeout_ms};
  found.network = network_;
  for (const auto* host : hosts) {
    connector_target target{.host = host->name, .address = host->address, .port = host->port};
    if (host->name == options_.host)
      target.address.clear();
    if (const auto proxy = options_.reach.find(host->name); proxy != options_.reach.end())
      std::tie(target.address, target.port) = proxy->second;
    found.targets.push_back(std::move(target));
  }
  return found;
}

std::vector<const cluster::host*> tree_services::hosts_of(const std::vector<std::size_t>& nodes) const {
  std::vector<const cluster::host*> hosts;
  for (const auto node : nodes)
    for (const auto& name : plan_.hosts_of(node))
      hosts.push_back(options_.file->find(name));
  return hosts;
}

connector_options tree_services::reach_of_worker() const {
  if (plan_.central())
    return reach(options_.file->arbitrators());
  const auto workers = options_.file->workers();
  const auto own =
      std::ranges::find(workers, options_.host, [](const auto* worker) { return cluster::host_of(worker->name); });
  const auto rank = static_cast<std::uint32_t>(own - workers.begin()); // none of its own: behind all that have
  auto found = reach(hosts_of(plan_.places_for_worker(rank)));
  if (plan_.shard_of(rank) != 0) // others are for the time in which it is away
    found.first_seconds = timeouts_.rejoin_timeout_ms / 1000.0;
  return found;
}

std::vector<child_specification> tree_services::children(const std::vector<std::uint8_t>& parameters) {
  std::vector<child_specification> specifications;
  specifications.push_back({"shard_aggregator", [this] { return start_shard(); }});
  specifications.push_back({"shard_connector", [this] { return start_connector(); }});
  if (takes_workers())
    specifications.push_back({"shard_arbitrator", [this, parameters] {
                                const std::scoped_lock lock(mutex_);
                                arbitrator_options wanted{.file = options_.file,
                                                          .timeouts = timeouts_,
                                                          .parameters = parameters,
                                                          .seat = arbitrator_seat::shard,
                                                          .incarnation = new_incarnation()};
                                return caf::actor_cast<caf::strong_actor_ptr>(
                                    system_.spawn(arbitrator, std::move(wanted), shard_, learner_actor{}));
                              }});
  return specifications;
}

caf::strong_actor_ptr tree_services::start_shard() {
  const std::scoped_lock lock(mutex_);
  const auto& own = plan_.nodes[node_];
  shard_options role{.host = options_.host,
                     .parent = plan_.nodes[own.parent].host,
                     .incarnation = new_incarnation(),
                     .first_rank = own.first_rank,
                     .workers = is_root() ? 0 : own.workers,
                     .levels_below = takes_workers() ? 0 : plan_.depth - 1 - own.level,
                     .names = names_,
                     .events = is_root() ? nullptr : events_};
  shard_ = system_.spawn(aggregator,
                         aggregator_options{.file = options_.file, .timeouts = timeouts_, .role = std::move(role)});
  tell_gateway();
  return caf::actor_cast<caf::strong_actor_ptr>(shard_);
}

caf::strong_actor_ptr tree_services::start_connector() {
  const std::scoped_lock lock(mutex_);
  const auto places = is_root() ? std::vector<std::size_t>{0} : plan_.places_for_node(node_);
  auto hosts = hosts_of(places);
  std::ranges::stable_partition(hosts, [this](const auto* host) { return host->name == options_.host; });
  auto options = reach(hosts);
  // Of several any may lead, and the first may be dead. A shard that begins anew has had a parent, which may have gone.
  if (!connector_ && plan_.hosts_of(places.front()).size() == 1)
    options.first_seconds = timeouts_.rejoin_timeout_ms / 1000.0;
  connector_ = system_.spawn<caf::detached>(connector, std::move(options), std::vector{connected_actor{shard_}});
  if (gateway_)
    caf::anon_send(connector_, atom::serve_v, caf::actor_cast<gateway_actor>(gateway_));
  return caf::actor_cast<caf::strong_actor_ptr>(connector_);
}

void tree_services::tell_gateway() {
  if (!gateway_ || !shard_)
    return;
  if (takes_workers())
    caf::anon_send(gateway_, atom::serve_v, caf::actor_cast<greeter_actor>(shard_));
  else
    caf::anon_send(gateway_, atom::serve_v, caf::actor_cast<attacher_actor>(shard_));
}

void tree_services::serve_gateway(const gateway_local& gateway) {
  const std::scoped_lock lock(mutex_);
  gateway_ = gateway;
  tell_gateway();
  if (connector_)
    caf::anon_send(connector_, atom::serve_v, caf::actor_cast<gateway_actor>(gateway_));
}

void tree_services::shut_down() {
  const std::scoped_lock lock(mutex_);
  shard_ = nullptr;
  connector_ = nullptr;
  gateway_ = nullptr;
  network_ = nullptr;
}

} // namespace dynamix::actors
