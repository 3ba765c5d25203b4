#include "actors/swarm/swarm_transport.hpp"

#include "actors/handlers.hpp"
#include "actors/network/connector.hpp"
#include "actors/network/control_network.hpp"
#include "actors/swarm/swarm_worker.hpp"
#include "actors/system.hpp"
#include "cluster/tree_plan.hpp"

#include <caf/io/all.hpp>

#include <algorithm>
#include <random>
#include <set>
#include <stdexcept>
#include <utility>

namespace dynamix::actors {

namespace {

using worker_list = std::shared_ptr<std::vector<swarm_worker_actor>>;

struct swarm_relay_state {
  static constexpr const char* name = "swarm_relay";
  swarm_relay_state() = default; // not an aggregate: CAF would initialise its first member with the actor
  connector_actor connector;
  gateway_actor gateway; ///< null while not connected
};

using relay_pointer = swarm_relay_actor::stateful_pointer<swarm_relay_state>;

void redirect(relay_pointer self, const gateway_actor& from, const std::string& leader) {
  if (from && from == self->state.gateway && self->state.connector)
    self->send(self->state.connector, atom::redirect_v, leader);
}

/// `workers` are complete before the connector begins.
swarm_relay_actor::behavior_type swarm_relay(relay_pointer self, worker_list workers) {
  install_handlers(self, swarm_relay_state::name);
  return {
      [](atom::decide, const message<messages::decision>&) {},
      [](atom::place, const message<messages::placement>&, const store_actor&) {},
      [](atom::closed, const message<messages::generation_notice>&) {},
      [](atom::serve, const telemetry_actor&) {},
      [self](atom::serve, connector_actor connector) { self->state.connector = std::move(connector); },
      [self, workers](atom::connected, const gateway_actor& gateway) {
        self->state.gateway = gateway;
        for (const auto& worker : *workers)
          self->send(worker, atom::connected_v, gateway);
      },
      [self, workers](atom::lost) {
        self->state.gateway = nullptr;
        for (const auto& worker : *workers)
          self->send(worker, atom::lost_v);
      },
      [](atom::greet) {},
      [](atom::report, const message<messages::window_report>&) {},
      [](atom::evaluation, const message<messages::evaluation_report>&) {},
      [](atom::ready) {},
      [](atom::absent, const std::string&) {},
      [](atom::left) {},
      [](atom::beat) {},
      [](atom::tick) {},
      [](atom::stop) {},
      [](atom::leave) {},
      [self](atom::redirect, const gateway_actor& from, const std::string& leader) { redirect(self, from, leader); },
  };
}

class actor_transport final : public swarm::transport {
public:
  actor_transport(std::shared_ptr<const cluster::cluster_file> file, std::vector<std::uint32_t> ranks,
                  const std::string& name, const std::string& keys, swarm::transport_events& events)
      : group_(std::make_shared<swarm_group>(std::move(file), events)), ranks_(std::move(ranks)),
        system_(*new caf::actor_system(*new system_config(group_->timeouts))) {
    if (keys.empty())
      return;
    std::string problem;
    std::shared_ptr<links::pump> pump = links::pump::start({.directory = keys, .host = name, .accepted = {}}, problem);
    if (!pump)
      throw std::runtime_error(problem);
    network_ = std::make_shared<control_network>(
        system_, std::move(pump),
        std::make_shared<authority>(*group_->file, name, nullptr,
                                    stand_ins{{name, std::set(ranks_.begin(), ranks_.end())}}));
  }

  void join() override {
    const auto plan = cluster::plan_tree(*group_->file);
    for (auto first = ranks_.begin(); first != ranks_.end();) {
      const auto shard = plan.shard_of(*first);
      const auto last = std::find_if(first, ranks_.end(), [&](auto rank) { return plan.shard_of(rank) != shard; });
      join_shard(plan, {first, last});
      first = last;
    }
  }

  void prepare(std::vector<messages::window_report> reports) override {
    group_->reports = std::move(reports);
    for (std::uint32_t i = 0; i < workers_.size(); ++i)
      caf::anon_send(workers_[i], atom::report_v, i);
  }

  void send() override {
    for (const auto& worker : workers_)
      caf::anon_send(worker, atom::report_v);
  }

  void finish() override {
    for (const auto& worker : workers_)
      caf::anon_send(worker, atom::stop_v);
  }

  swarm::traffic traffic() const override {
    return {.sent = group_->sent,
            .received = group_->received,
            .applied = group_->applied,
            .refused = group_->refused,
            .hellos = group_->hellos,
            .generations = group_->generations};
  }

private:
  /// Workers that look for an arbitrator in the same places share a connector, and so a connection.
  void join_shard(const cluster::tree_plan& plan, const std::vector<std::uint32_t>& ranks) {
    const auto members = std::make_shared<worker_list::element_type>();
    const auto relay = system_.spawn(swarm_relay, members);
    std::random_device source;
    for (const auto rank : ranks) {
      const auto incarnation = (std::uint64_t{source()} << 32 | source()) | 1;
      members->push_back(system_.spawn(swarm_worker, group_, relay, rank, incarnation));
    }
    workers_.insert(workers_.end(), members->begin(), members->end());
    connector_options reach{.targets = {}, .probe_timeout_ms = group_->timeouts.probe_timeout_ms, .network = network_};
    const auto add = [&](const cluster::host& host) {
      reach.targets.push_back({.host = host.name, .address = host.address, .port = host.port});
    };
    if (plan.central()) {
      for (const auto* host : group_->file->arbitrators())
        add(*host);
    } else {
      for (const auto node : plan.places_for_worker(ranks.front()))
        for (const auto& host : plan.hosts_of(node))
          add(*group_->file->find(host));
      reach.first_seconds = group_->timeouts.rejoin_timeout_ms / 1000.0;
    }
    system_.spawn<caf::detached>(connector, std::move(reach), std::vector{connected_actor{relay}});
  }

  std::shared_ptr<swarm_group> group_;
  const std::vector<std::uint32_t> ranks_;
  std::vector<swarm_worker_actor> workers_;  ///< in the order of ranks_
  caf::actor_system& system_;                ///< never taken down: the process ends with the last farewell
  std::shared_ptr<control_network> network_; ///< null: in the clear
};

} // namespace

std::string swarm_part_name(std::size_t part) {
  return "part-" + std::to_string(part + 1);
}

std::unique_ptr<swarm::transport> make_swarm_transport(std::shared_ptr<const cluster::cluster_file> file,
                                                       const std::vector<std::uint32_t>& ranks, const std::string& name,
                                                       const std::string& keys, swarm::transport_events& events) {
  return std::make_unique<actor_transport>(std::move(file), ranks, name, keys, events);
}

} // namespace dynamix::actors
