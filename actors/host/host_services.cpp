#include "actors/host/host_services.hpp"

#include "actors/aggregator/aggregator.hpp"
#include "actors/arbitrator/arbitrator.hpp"
#include "actors/arbitrator/ppo_learner.hpp"
#include "actors/client/client_listener.hpp"
#include "actors/handlers.hpp"
#include "actors/host/control_ports.hpp"
#include "actors/host/describe_run.hpp"
#include "actors/host/incarnation.hpp"
#include "actors/network/connector.hpp"
#include "actors/network/gateway.hpp"
#include "actors/worker/telemetry.hpp"
#include "actors/worker/worker.hpp"
#include "client/cores.hpp"
#include "ledger/file.hpp"
#include "messages/validation.hpp"
#include "storage/atomic_file.hpp"
#include "trainer/checkpoint.hpp"

#include <caf/io/all.hpp>
#include <spdlog/spdlog.h>

#include <chrono>
#include <stdexcept>
#include <utility>

namespace dynamix::actors {

namespace {

double clock_seconds(caf::actor_system& system) {
  return std::chrono::duration<double>(system.clock().now().time_since_epoch()).count();
}

} // namespace

host_services::host_services(caf::actor_system& system, const host_options& options,
                             std::shared_ptr<host_events> events, const host_links& links)
    : system_(system), options_(options), events_(std::move(events)),
      timeouts_(cluster::derive_timeouts(options.file->detect_ms)), host_(*options_.own()),
      has_worker_(host_.takes_part() && !options_.without_worker),
      has_arbitrator_(host_.has(cluster::role::arbitrator)),
      names_(std::make_shared<worker_names>(*options_.file, has_arbitrator_ && options_.file->membership ==
                                                                                   cluster::membership_kind::open
                                                                ? options_.run_directory + "/places"
                                                                : "")),
      tree_(system, options_, events_),
      network_(links.control
                   ? std::make_shared<control_network>(
                         system, links.control,
                         std::make_shared<authority>(*options_.file, options_.host, names_, options_.stand_ins))
                   : nullptr),
      raft_links_(links.raft), peer_links_(links.gradients) {
  tree_.use(network_);
}

std::string host_services::start() {
  if (has_arbitrator_)
    if (auto error = prepare_arbitration(); !error.empty())
      return error;
  if (std::string source; tree_.here() && !has_arbitrator_)
    if (auto error = read_policy(source); !error.empty())
      return error;
  if (has_worker_)
    if (auto error = start_workers(); !error.empty())
      return error;
  const bool replicated = has_arbitrator_ && !options_.file->arbitrator.replicas.empty();
  if (replicated)
    leader_ = "";
  else if (has_arbitrator_)
    start_arbitration();
  if (tree_.here())
    supervisors_.push_back(supervise({.strategy = supervision_strategy::rest_for_one}, tree_.children(saved_policy_)));
  supervisors_.push_back(supervise({}, {{"gateway", [this] { return start_gateway(); }}}));
  return replicated ? join_replicas() : "";
}

std::string host_services::join_replicas() {
  return leadership_.start(system_, {.file = options_.file.get(),
                                     .host = host_.name,
                                     .directory = options_.run_directory + "/replica-" + host_.name,
                                     .links = raft_links_,
                                     .lead = [this](const leader_start& start) { lead(start); },
                                     .follow = [this](const std::string& leader) { follow(leader); }});
}

/// This host's arbitration goes on from what the leader before has left in the journal.
void host_services::lead(const leader_start& start) {
  leave_arbitration();
  const auto& learned = start.state->learner_checkpoint;
  const bool has_learned = learned && !learned->empty();
  {
    const std::scoped_lock lock(mutex_);
    led_from_ = start;
    if (has_learned)
      saved_policy_ = *learned;
  }
  if (has_learned) {
    const auto error = options_.write_file(options_.run_directory + "/checkpoints/policy.dynamix", *learned);
    if (!error.empty())
      spdlog::warn("policy_checkpoint_failed error=\"{}\"", error);
  }
  tell(ledger::event_kind::leader, fmt::format("Raft term {}", start.raft_term));
  start_arbitration();
}

void host_services::tell(ledger::event_kind event, const std::string& text) {
  ledger_->append(
      {.at_seconds = clock_seconds(system_) - ledger_origin_seconds_, .entry = ledger::event{event, host_.name, text}});
}

void host_services::follow(const std::string& leader) {
  leave_arbitration();
  if (!leader.empty() && !std::exchange(told_following_, true))
    tell(ledger::event_kind::follows, leader + " leads");
  const std::scoped_lock lock(mutex_);
  leader_ = leader;
  if (gateway_)
    caf::anon_send(gateway_, atom::redirect_v, leader);
}

void host_services::leave_arbitration() {
  const std::scoped_lock lock(mutex_);
  if (!arbitration_)
    return;
  caf::anon_send_exit(std::exchange(arbitration_, nullptr), caf::exit_reason::user_shutdown);
  learner_ = nullptr;
  aggregator_ = nullptr;
}

std::string host_services::prepare_arbitration() {
  std::string error;
  ledger_ = ledger::open_file(options_.run_directory + "/windows.jsonl", error,
                              std::uint64_t{options_.file->run.keep_ledger_mb} << 20);
  if (!ledger_)
    return error;
  ledger_origin_seconds_ = clock_seconds(system_);
  archive_ = std::make_shared<policy::parameter_archive>(options_.run_directory + "/policies");
  const auto& file = *options_.file;
  std::string source;
  if (error = read_policy(source); !error.empty())
    return error;
  try {
    learns_ = policy::learns(file);
    if (learns_)
      options_.training->make_learner(file, saved_policy_); // whether they fit
    ledger_->append({.at_seconds = 0, .entry = describe_run(options_, saved_policy_, ledger_origin_seconds_)});
  } catch (const std::invalid_argument& misfit) {
    return (saved_policy_.empty() ? "" : source + ": ") + misfit.what();
  }
  return {};
}

std::string host_services::read_policy(std::string& source) {
  const auto& file = *options_.file;
  source =
      options_.policy_from.empty() ? cluster::resolve_path(file, file.arbitrator.policy_file) : options_.policy_from;
  std::string contents;
  if (!cluster::has_parameters(file.arbitrator.policy) || source.empty())
    return "";
  if (auto error = storage::read_file(source, messages::max_policy_bytes, contents); !error.empty())
    return error;
  saved_policy_.assign(contents.begin(), contents.end());
  return "";
}

caf::strong_actor_ptr host_services::start_gateway() {
  const std::scoped_lock lock(mutex_);
  // After a failure the port still belongs to the one before.
  if (gateway_ && network_)
    network_->unpublish(caf::actor_cast<gateway_actor>(gateway_), host_.port);
  else if (gateway_)
    system_.middleman().unpublish(gateway_, host_.port);
  gateway_ = system_.spawn(gateway, host_.name, has_arbitrator(), events_);
  if (aggregator_)
    serve_aggregator();
  else if (leader_)
    caf::anon_send(gateway_, atom::redirect_v, *leader_);
  if (tree_.here())
    tree_.serve_gateway(gateway_);
  // A host that is worker and arbitrator in one needs no connection to itself.
  if (connector_)
    caf::anon_send(connector_, atom::serve_v, caf::actor_cast<gateway_actor>(gateway_));
  if (const auto problem = publish_gateway(); !problem.empty())
    events_->failed(network_ ? "cannot take links: " + problem
                             : fmt::format("cannot listen at {}:{}: the port is in use, or the address is not this "
                                           "machine's",
                                           host_.address, host_.port));
  return caf::actor_cast<caf::strong_actor_ptr>(gateway_);
}

std::string host_services::publish_gateway() {
  if (options_.guest)
    return ""; // nobody knows where to call it
  const auto gateway = caf::actor_cast<gateway_actor>(gateway_);
  if (network_)
    return network_->publish(gateway, host_.port);
  const auto bound = system_.middleman().publish(gateway, host_.port, host_.address.c_str(), true);
  return bound ? "" : to_text(bound.error());
}

std::string host_services::start_workers() {
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
  supervisors_.push_back(supervise({}, std::move(children)));
  return "";
}

/// Several workers share the CPUs that this process may use.
std::vector<std::vector<std::uint32_t>> host_services::cores_of_workers() const {
  if (workers_.size() < 2 || !host_.bind_cores)
    return std::vector<std::vector<std::uint32_t>>(workers_.size());
  const auto machine = client::read_machine_cores();
  auto parts = client::split_cores(machine, workers_.size());
  for (std::size_t slot = 0; slot < parts.size(); ++slot)
    spdlog::info("worker_cores worker={} cpus=\"{}\"{}", workers_[slot].host->name, client::to_cpu_list(parts[slot]),
                 parts[slot].empty() ? ": any, for there are more workers than cores" : "");
  return parts;
}

std::string host_services::start_worker(served_worker& worker, std::size_t slot,
                                        const std::vector<std::uint32_t>& cores) {
  training_options training{.file = options_.file,
                            .host = *worker.host,
                            .checkpoint_directory = options_.run_directory + "/checkpoints",
                            .write_file = options_.write_file,
                            .resume_from = options_.resume_from,
                            .timeouts = timeouts_,
                            .trace = nullptr,
                            .cores = cores,
                            .links = peer_links_,
                            .module = options_.training};
  if (options_.trace) {
    std::string problem;
    training.trace = dynamix::telemetry::trace_file::open(options_.run_directory + "/traces/" +
                                                              cluster::file_name_of(worker.host->name) + ".jsonl",
                                                          worker.host->name, problem);
    if (!training.trace)
      spdlog::warn("trace_not_written problem=\"{}\"", problem);
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
  trainer::checkpoint newest;
  if (!options_.resume_from.empty() && trainer::read_checkpoint(options_.resume_from, newest).empty())
    protocol.identity.checkpoint_steps = newest.step;

  worker.actor = system_.spawn(actors::worker, std::move(training), std::move(protocol), events_);
  // The worker is watched, not restarted: its parameters live in its thread.
  auto watched = [handle = worker.actor] { return caf::actor_cast<caf::strong_actor_ptr>(handle); };
  supervisors_.push_back(supervise({.max_restarts = 0}, {{"worker", watched}}));
  return "";
}

caf::strong_actor_ptr host_services::start_telemetry(const served_worker& worker) {
  auto started = system_.spawn(telemetry, telemetry_options{.sources = options_.file->telemetry_sources,
                                                            .control_ports = control_ports(options_),
                                                            .kernel = options_.kernel,
                                                            .process = worker.process});
  caf::anon_send(worker.actor, atom::serve_v, started);
  return caf::actor_cast<caf::strong_actor_ptr>(started);
}

caf::strong_actor_ptr host_services::start_connector() {
  const std::scoped_lock lock(mutex_);
  std::vector<connected_actor> owners;
  for (const auto& worker : workers_)
    owners.emplace_back(worker.actor);
  connector_ = system_.spawn<caf::detached>(connector, tree_.reach_of_worker(), std::move(owners));
  if (gateway_)
    caf::anon_send(connector_, atom::serve_v, caf::actor_cast<gateway_actor>(gateway_));
  return caf::actor_cast<caf::strong_actor_ptr>(connector_);
}

caf::actor host_services::supervise(supervision_options options, std::vector<child_specification> children) {
  options.seed = options_.file->seed + supervisors_.size();
  if (options.max_restarts > 0) {
    options.max_restarts = options_.file->supervision.max_restarts;
    options.period_seconds = options_.file->supervision.period_ms / 1000.0;
  }
  auto told = [ledger = ledger_, &system = system_, origin = ledger_origin_seconds_](const std::string& reason) {
    if (ledger)
      ledger->append({.at_seconds = clock_seconds(system) - origin,
                      .entry = ledger::event{ledger::event_kind::restarted, "", reason}});
  };
  return system_.spawn(supervisor, options, std::move(children), events_, std::move(told));
}

void host_services::start_arbitration() {
  std::vector<child_specification> children;
  if (learns_)
    children.push_back({"ppo_learner", [this] {
                          const std::scoped_lock lock(mutex_);
                          learner_ = system_.spawn<caf::detached>(
                              ppo_learner, options_.training, options_.file, saved_policy_,
                              options_.run_directory + "/checkpoints/policy.dynamix", options_.write_file);
                          return caf::actor_cast<caf::strong_actor_ptr>(learner_);
                        }});
  children.push_back({"aggregator", [this] { return start_aggregator(); }});
  children.push_back({"arbitrator", [this] { return start_arbitrator(); }});
  auto started = supervise({.strategy = supervision_strategy::rest_for_one}, std::move(children));
  const std::scoped_lock lock(mutex_);
  arbitration_ = std::move(started);
}

caf::strong_actor_ptr host_services::start_aggregator() {
  const std::scoped_lock lock(mutex_);
  // One that is started again knows what the journal held when this host began to lead; another replica knows all.
  if (led_from_.journal && aggregator_)
    events_->failed("its aggregator ended while it led: another replica takes over");
  root_options role{.run_ledger = ledger_,
                    .events = events_,
                    .ledger_origin_seconds = ledger_origin_seconds_,
                    .journal = led_from_.journal,
                    .before = led_from_.state,
                    .voter = leadership::voter_of(*options_.file, host_.name),
                    .names = names_,
                    .plan = tree_.is_root() ? tree_.plan() : cluster::tree_plan{}};
  aggregator_ = system_.spawn(
      aggregator, aggregator_options{.file = options_.file, .timeouts = timeouts_, .role = std::move(role)});
  if (gateway_)
    serve_aggregator();
  return caf::actor_cast<caf::strong_actor_ptr>(aggregator_);
}

void host_services::serve_aggregator() {
  if (tree_.is_root())
    caf::anon_send(gateway_, atom::serve_v, caf::actor_cast<attacher_actor>(aggregator_));
  else
    caf::anon_send(gateway_, atom::serve_v, caf::actor_cast<greeter_actor>(aggregator_));
}

caf::strong_actor_ptr host_services::start_arbitrator() {
  const std::scoped_lock lock(mutex_);
  arbitrator_options wanted{.file = options_.file,
                            .timeouts = timeouts_,
                            .parameters = saved_policy_,
                            .run_ledger = ledger_,
                            .ledger_origin_seconds = ledger_origin_seconds_,
                            .archive = archive_,
                            .seat = tree_.is_root() ? arbitrator_seat::root : arbitrator_seat::alone,
                            .journal = led_from_.journal};
  auto started = system_.spawn(arbitrator, std::move(wanted), aggregator_, learner_);
  return caf::actor_cast<caf::strong_actor_ptr>(started);
}

void host_services::stop() {
  const std::scoped_lock lock(mutex_);
  for (const auto& worker : workers_)
    caf::anon_send(worker.actor, atom::stop_v);
  if (aggregator_)
    caf::anon_send(aggregator_, atom::stop_v);
}

void host_services::leave() {
  if (has_arbitrator_)
    tell(ledger::event_kind::left, "its replica ends");
  const std::scoped_lock lock(mutex_);
  for (const auto& worker : workers_)
    caf::anon_send(worker.actor, atom::leave_v);
}

session::host_roles host_services::roles() const {
  return {.arbitrates = has_arbitrator_, .replicated = !options_.file->arbitrator.replicas.empty()};
}

void host_services::tell_end(const part_outcome& how) {
  {
    const std::scoped_lock lock(mutex_);
    if (!led_from_.journal || !arbitration_)
      return;
  }
  using messages::farewell_end;
  const messages::farewell said{.host = host_.name,
                                .succeeded = how.succeeded,
                                .reason = messages::fit_text(how.reason),
                                .decisions = {},
                                .end = how.succeeded ? farewell_end::completed
                                       : how.stopped ? farewell_end::cancelled
                                                     : farewell_end::failed};
  leadership::tell_end(system_, network_, *options_.file, said,
                       std::chrono::milliseconds(timeouts_.request_timeout_ms));
}

bool host_services::supervision_answers(std::chrono::milliseconds patience) {
  auto supervisors = supervisors_;
  {
    const std::scoped_lock lock(mutex_);
    if (arbitration_)
      supervisors.push_back(arbitration_);
  }
  return all_answer(system_, supervisors, patience);
}

void host_services::shut_down() {
  leadership_.stop(timeouts_.shutdown_timeout_ms);
  {
    const std::scoped_lock lock(mutex_);
    if (arbitration_)
      supervisors_.push_back(std::exchange(arbitration_, nullptr));
  }
  for (auto supervisor = supervisors_.rbegin(); supervisor != supervisors_.rend(); ++supervisor)
    caf::anon_send_exit(*supervisor, caf::exit_reason::user_shutdown);
  // One that is still starting its children would leave handles to them behind.
  caf::scoped_actor self(system_);
  self->wait_for(supervisors_);
  // A detached actor's thread ends with the last handle to it.
  const std::scoped_lock lock(mutex_);
  supervisors_.clear();
  tree_.shut_down();
  gateway_ = nullptr;
  workers_.clear();
  connector_ = nullptr;
  learner_ = nullptr;
  aggregator_ = nullptr;
  if (network_)
    network_->shut_down();
  network_ = nullptr;
}

} // namespace dynamix::actors
