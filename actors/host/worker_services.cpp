#include "actors/host/worker_services.hpp"

#include "actors/client/client_listener.hpp"
#include "actors/handlers.hpp"
#include "actors/host/control_ports.hpp"
#include "actors/host/incarnation.hpp"
#include "actors/network/connector.hpp"
#include "actors/worker/telemetry.hpp"
#include "actors/worker/worker.hpp"
#include "client/cores.hpp"
#include "storage/json_text.hpp"
#include "trainer/checkpoint.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace dynamix::actors {

worker_services::worker_services(caf::actor_system& system, const host_options& options,
                                 std::shared_ptr<host_events> events, std::shared_ptr<exchange::peer_links> links,
                                 const tree_services& tree, supervise_function supervise)
    : system_(system), options_(options), host_(*options.own()), events_(std::move(events)), links_(std::move(links)),
      tree_(tree), supervise_(std::move(supervise)) {}

std::string worker_services::start() {
  for (const auto* member : host_.members())
    workers_.push_back({.host = member, .process = {}, .actor = {}});
  const auto cores = cores_of_workers();
  for (std::size_t slot = 0; slot < workers_.size(); ++slot)
    if (auto problem = start_worker(workers_[slot], slot, cores[slot]); !problem.empty())
      return problem;
  std::vector<child_specification> children;
  for (const auto& worker : workers_)
    children.push_back({worker.host == &host_ ? "telemetry" : "telemetry of " + worker.host->name,
                        [this, &worker] { return start_telemetry(worker); }});
  children.push_back({"connector", [this] { return start_connector(); }});
  supervise_({}, std::move(children));
  return "";
}

/// Several workers share the CPUs that this process may use.
std::vector<std::vector<std::uint32_t>> worker_services::cores_of_workers() const {
  if (workers_.size() < 2 || !host_.bind_cores)
    return std::vector<std::vector<std::uint32_t>>(workers_.size());
  const auto machine = client::read_machine_cores();
  auto parts = client::split_cores(machine, workers_.size());
  for (std::size_t slot = 0; slot < parts.size(); ++slot)
    spdlog::info("worker_cores worker={} cpus={}{}", workers_[slot].host->name,
                 storage::quoted(client::to_cpu_list(parts[slot])),
                 parts[slot].empty() ? ": any, for there are more workers than cores" : "");
  return parts;
}

std::string worker_services::start_worker(served_worker& worker, std::size_t slot,
                                          const std::vector<std::uint32_t>& cores) {
  training_options training{.file = options_.file,
                            .host = *worker.host,
                            .checkpoint_directory = options_.run_directory + "/checkpoints",
                            .write_file = options_.write_file,
                            .resume_from = options_.resume_from,
                            .timeouts = cluster::derive_timeouts(options_.file->detect_ms),
                            .trace = nullptr,
                            .cores = cores,
                            .links = links_,
                            .module = options_.training};
  if (options_.trace) {
    std::string problem;
    training.trace = dynamix::telemetry::trace_file::open(options_.run_directory + "/traces/" +
                                                              cluster::file_name_of(worker.host->name) + ".jsonl",
                                                          worker.host->name, problem);
    if (!training.trace)
      spdlog::warn("trace_not_written problem={}", storage::quoted(problem));
  }
  auto protocol = session::options_of(*options_.file, options_.file->digest(), worker.host->name, new_incarnation());
  if (options_.file->training.trainer == cluster::trainer_kind::client) {
    std::string problem;
    training.listener = client_listener::open(options_.agent_sockets.at(slot), problem);
    if (!training.listener)
      return problem;
    training.process = worker.process = std::make_shared<std::atomic<int>>(0);
    protocol.external_trainer = true;
  }
  if (options_.guest && links_)
    protocol.identity.address = options_.own()->address.substr(0, messages::max_name_length);
  trainer::checkpoint newest;
  if (!options_.resume_from.empty() && trainer::read_checkpoint(options_.resume_from, newest).empty())
    protocol.identity.checkpoint_steps = newest.step;

  worker.actor = system_.spawn(actors::worker, std::move(training), std::move(protocol), events_);
  // The worker is watched, not restarted: its parameters live in its thread.
  auto watched = [handle = worker.actor] { return caf::actor_cast<caf::strong_actor_ptr>(handle); };
  supervise_({.max_restarts = 0}, {{"worker", watched}});
  return "";
}

caf::strong_actor_ptr worker_services::start_telemetry(const served_worker& worker) {
  auto started = system_.spawn(telemetry, telemetry_options{.sources = options_.file->telemetry_sources,
                                                            .control_ports = control_ports(options_),
                                                            .kernel = options_.kernel,
                                                            .process = worker.process});
  caf::anon_send(worker.actor, atom::serve_v, started);
  return caf::actor_cast<caf::strong_actor_ptr>(started);
}

caf::strong_actor_ptr worker_services::start_connector() {
  const std::scoped_lock lock(mutex_);
  std::vector<connected_actor> owners;
  for (const auto& worker : workers_)
    owners.emplace_back(worker.actor);
  connector_ = system_.spawn<caf::detached>(connector, tree_.reach_of_worker(), std::move(owners));
  if (gateway_)
    caf::anon_send(connector_, atom::serve_v, caf::actor_cast<gateway_actor>(gateway_));
  return caf::actor_cast<caf::strong_actor_ptr>(connector_);
}

/// A host that is worker and arbitrator in one needs no connection to itself.
void worker_services::serve_gateway(const gateway_local& gateway) {
  const std::scoped_lock lock(mutex_);
  gateway_ = gateway;
  if (connector_)
    caf::anon_send(connector_, atom::serve_v, caf::actor_cast<gateway_actor>(gateway_));
}

void worker_services::stop() {
  const std::scoped_lock lock(mutex_);
  for (const auto& worker : workers_)
    caf::anon_send(worker.actor, atom::stop_v);
}

void worker_services::leave() {
  const std::scoped_lock lock(mutex_);
  for (const auto& worker : workers_)
    caf::anon_send(worker.actor, atom::leave_v);
}

void worker_services::shut_down() {
  const std::scoped_lock lock(mutex_);
  workers_.clear();
  connector_ = nullptr;
  gateway_ = nullptr;
}

} // namespace dynamix::actors
