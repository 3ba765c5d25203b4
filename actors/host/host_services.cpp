#include "actors/host/host_services.hpp"

#include "actors/handlers.hpp"
#include "actors/network/gateway.hpp"

#include <caf/io/all.hpp>

#include <utility>

namespace dynamix::actors {
namespace {

/// Places of an open cluster are kept where they are given away; replicas have them in their journal.
std::shared_ptr<worker_names> names_of(const host_options& options) {
  const bool gives_places = options.own()->has(cluster::role::arbitrator) &&
                            options.file->membership == cluster::membership_kind::open &&
                            options.file->arbitrator.replicas.empty();
  return std::make_shared<worker_names>(*options.file, gives_places ? options.run_directory + "/places" : "");
}

std::shared_ptr<control_network> network_of(caf::actor_system& system, const host_options& options,
                                            const host_links& links, const std::shared_ptr<worker_names>& names) {
  if (!links.control)
    return nullptr;
  return std::make_shared<control_network>(
      system, links.control, std::make_shared<authority>(*options.file, options.host, names, options.stand_ins));
}

} // namespace

host_services::host_services(caf::actor_system& system, const host_options& options,
                             std::shared_ptr<host_events> events, const host_links& links)
    : system_(system), options_(options), events_(std::move(events)), host_(*options_.own()),
      names_(names_of(options_)), tree_(system, options_, events_, names_) {
  network_ = network_of(system, options_, links, names_);
  tree_.use(network_);
  if (host_.has(cluster::role::arbitrator))
    arbitration_.emplace(system_, options_,
                         arbitration_services::surroundings{
                             .events = events_, .names = names_, .network = network_, .raft_links = links.raft},
                         tree_, [this](supervision_options how, std::vector<child_specification> children) {
                           return supervise(how, std::move(children));
                         });
  if (host_.takes_part() && !options_.without_worker)
    workers_.emplace(system_, options_, events_, links.gradients, tree_,
                     [this](supervision_options how, std::vector<child_specification> children) {
                       supervisors_.push_back(supervise(how, std::move(children)));
                     });
}

std::string host_services::start() {
  std::vector<std::uint8_t> parameters;
  if (arbitration_) {
    if (auto error = arbitration_->prepare(); !error.empty())
      return error;
    parameters = arbitration_->parameters();
  } else if (std::string source; tree_.here()) {
    if (auto error = read_policy(options_, source, parameters); !error.empty())
      return error;
  }
  if (workers_)
    if (auto error = workers_->start(); !error.empty())
      return error;
  if (arbitration_)
    arbitration_->start();
  if (tree_.here())
    supervisors_.push_back(supervise({.strategy = supervision_strategy::rest_for_one}, tree_.children(parameters)));
  supervisors_.push_back(supervise({}, {{"gateway", [this] { return start_gateway(); }}}));
  return arbitration_ ? arbitration_->join_replicas() : "";
}

caf::strong_actor_ptr host_services::start_gateway() {
  const std::scoped_lock lock(mutex_);
  // After a failure the port still belongs to the one before.
  if (gateway_ && network_)
    network_->unpublish(caf::actor_cast<gateway_actor>(gateway_), host_.port);
  else if (gateway_)
    system_.middleman().unpublish(gateway_, host_.port);
  gateway_ = system_.spawn(
      gateway, gateway_options{.host = host_.name, .arbitrates = has_arbitrator(), .in_tree = tree_.is_root()},
      events_);
  if (arbitration_)
    arbitration_->serve_gateway(gateway_);
  if (tree_.here())
    tree_.serve_gateway(gateway_);
  if (workers_)
    workers_->serve_gateway(gateway_);
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

caf::actor host_services::supervise(supervision_options options, std::vector<child_specification> children) {
  options.seed = options_.file->seed + supervisors_.size();
  if (options.max_restarts > 0) {
    options.max_restarts = options_.file->supervision.max_restarts;
    options.period_seconds = options_.file->supervision.period_ms / 1000.0;
  }
  auto told = [this](const std::string& reason) {
    if (arbitration_)
      arbitration_->tell(ledger::event_kind::restarted, "", reason);
  };
  return system_.spawn(supervisor, options, std::move(children), events_, std::move(told));
}

void host_services::stop() {
  if (workers_)
    workers_->stop();
  if (arbitration_)
    arbitration_->stop();
}

void host_services::leave() {
  if (arbitration_)
    arbitration_->tell(ledger::event_kind::left, host_.name, "its replica ends");
  if (workers_)
    workers_->leave();
}

session::host_roles host_services::roles() const {
  return {.arbitrates = arbitration_.has_value(), .replicated = !options_.file->arbitrator.replicas.empty()};
}

void host_services::tell_end(const part_outcome& how) {
  if (arbitration_)
    arbitration_->tell_end(how);
}

bool host_services::supervision_answers(std::chrono::milliseconds patience) {
  auto supervisors = supervisors_;
  if (const auto deciding = arbitration_ ? arbitration_->supervisor() : nullptr)
    supervisors.push_back(deciding);
  return all_answer(system_, supervisors, patience);
}

void host_services::shut_down() {
  if (const auto deciding = arbitration_ ? arbitration_->end_voter() : nullptr)
    supervisors_.push_back(deciding);
  for (auto supervisor = supervisors_.rbegin(); supervisor != supervisors_.rend(); ++supervisor)
    caf::anon_send_exit(*supervisor, caf::exit_reason::user_shutdown);
  // One that is still starting its children would leave handles to them behind.
  caf::scoped_actor self(system_);
  self->wait_for(supervisors_);
  // A detached actor's thread ends with the last handle to it.
  supervisors_.clear();
  tree_.shut_down();
  if (arbitration_)
    arbitration_->shut_down();
  if (workers_)
    workers_->shut_down();
  const std::scoped_lock lock(mutex_);
  gateway_ = nullptr;
  if (network_)
    network_->shut_down();
  network_ = nullptr;
}

} // namespace dynamix::actors
