#include "actors/host/arbitration_services.hpp"

#include "actors/aggregator/aggregator.hpp"
#include "actors/arbitrator/arbitrator.hpp"
#include "actors/arbitrator/ppo_learner.hpp"
#include "actors/handlers.hpp"
#include "actors/host/describe_run.hpp"
#include "actors/host/layout_file.hpp"
#include "messages/validation.hpp"
#include "storage/atomic_file.hpp"
#include "storage/json_text.hpp"

#include <spdlog/spdlog.h>

#include <chrono>
#include <map>
#include <stdexcept>
#include <utility>

namespace dynamix::actors {
namespace {

double clock_seconds(caf::actor_system& system) {
  return std::chrono::duration<double>(system.clock().now().time_since_epoch()).count();
}

} // namespace

std::string read_policy(const host_options& options, std::string& source, std::vector<std::uint8_t>& parameters) {
  const auto& file = *options.file;
  source = options.policy_from.empty() ? cluster::resolve_path(file, file.arbitrator.policy_file) : options.policy_from;
  std::string contents;
  if (!cluster::has_parameters(file.arbitrator.policy) || source.empty())
    return "";
  if (auto error = storage::read_file(source, messages::max_policy_bytes, contents); !error.empty())
    return error;
  parameters.assign(contents.begin(), contents.end());
  return "";
}

arbitration_services::arbitration_services(caf::actor_system& system, const host_options& options, surroundings around,
                                           const tree_services& tree, supervise_function supervise)
    : system_(system), options_(options), host_(*options.own()),
      timeouts_(cluster::derive_timeouts(options.file->detect_ms)), around_(std::move(around)), tree_(tree),
      supervise_(std::move(supervise)) {}

std::string arbitration_services::prepare() {
  std::string error;
  ledger_ = ledger::open_file(options_.run_directory + "/windows.jsonl", error,
                              std::uint64_t{options_.file->run.keep_ledger_mb} << 20);
  if (!ledger_)
    return error;
  ledger_origin_seconds_ = clock_seconds(system_);
  archive_ = std::make_shared<policy::parameter_archive>(options_.run_directory + "/policies");
  const auto& file = *options_.file;
  std::string source;
  if (error = read_policy(options_, source, saved_policy_); !error.empty())
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

void arbitration_services::start() {
  std::string problem;
  const auto path = command_socket_of(options_.run_directory, host_.name);
  commands_ = command_socket::open(
      path, [this](const std::string& line) { return answer(line); }, problem);
  if (!commands_)
    spdlog::warn("no_commands problem={}", storage::quoted(problem));
  if (!is_replicated())
    return start_arbitration();
  const std::scoped_lock lock(mutex_); // the command socket's thread asks for it
  leader_ = "";
}

std::string arbitration_services::join_replicas() {
  if (!is_replicated())
    return "";
  return leadership_.start(system_, {.file = options_.file.get(),
                                     .host = host_.name,
                                     .directory = options_.run_directory + "/replica-" + host_.name,
                                     .links = around_.raft_links,
                                     .lead = [this](const leader_start& start) { lead(start); },
                                     .follow = [this](const std::string& leader) { follow(leader); }});
}

/// This host's arbitration goes on from what the leader before has left in the journal.
void arbitration_services::lead(const leader_start& start) {
  leave_arbitration();
  const auto& learned = start.state->learner_checkpoint;
  const bool has_learned = learned && !learned->empty();
  {
    const std::scoped_lock lock(mutex_);
    led_from_ = start;
    if (has_learned)
      saved_policy_ = *learned;
  }
  const auto& known = *start.state;
  around_.names->restore(known.places_digest == options_.file->digest() ? known.places
                                                                        : std::map<std::uint32_t, std::string>{});
  if (has_learned) {
    const auto error = options_.write_file(options_.run_directory + "/checkpoints/policy.dynamix", *learned);
    if (!error.empty())
      spdlog::warn("policy_checkpoint_failed error={}", storage::quoted(error));
  }
  tell(ledger::event_kind::leader, host_.name, fmt::format("Raft term {}", start.raft_term));
  start_arbitration();
}

void arbitration_services::follow(const std::string& leader) {
  leave_arbitration();
  if (!leader.empty() && !std::exchange(told_following_, true))
    tell(ledger::event_kind::follows, host_.name, leader + " leads");
  const std::scoped_lock lock(mutex_);
  leader_ = leader;
  if (gateway_)
    caf::anon_send(gateway_, atom::redirect_v, leader);
}

void arbitration_services::leave_arbitration() {
  const std::scoped_lock lock(mutex_);
  if (!supervisor_)
    return;
  caf::anon_send_exit(std::exchange(supervisor_, nullptr), caf::exit_reason::user_shutdown);
  learner_ = nullptr;
  aggregator_ = nullptr;
}

void arbitration_services::start_arbitration() {
  std::vector<child_specification> children;
  if (learns_)
    children.push_back({"ppo_learner", [this] { return start_learner(); }});
  children.push_back({"aggregator", [this] { return start_aggregator(); }});
  children.push_back({"arbitrator", [this] { return start_arbitrator(); }});
  auto started = supervise_({.strategy = supervision_strategy::rest_for_one}, std::move(children));
  const std::scoped_lock lock(mutex_);
  supervisor_ = std::move(started);
}

caf::strong_actor_ptr arbitration_services::start_learner() {
  const std::scoped_lock lock(mutex_);
  learner_ = system_.spawn<caf::detached>(ppo_learner, options_.training, options_.file, saved_policy_,
                                          options_.run_directory + "/checkpoints/policy.dynamix", options_.write_file);
  return caf::actor_cast<caf::strong_actor_ptr>(learner_);
}

/// Of a command; where this host does not lead, who does.
std::string arbitration_services::answer(const std::string& line) {
  aggregator_local asked;
  std::string leader;
  {
    const std::scoped_lock lock(mutex_);
    asked = aggregator_;
    leader = leader_.value_or("");
  }
  storage::json_text json;
  if (!asked)
    return json.open_object().member("leader", leader).close_object().take();
  caf::scoped_actor self(system_);
  std::string said;
  self->request(asked, std::chrono::milliseconds(timeouts_.request_timeout_ms), atom::command_v, line)
      .receive([&](std::string& text) { said = std::move(text); },
               [&](const caf::error&) {
                 said = json.open_object()
                            .member("done", false)
                            .member("reason", "the root does not answer; it may be about to lose the lead")
                            .close_object()
                            .take();
               });
  return said;
}

caf::strong_actor_ptr arbitration_services::start_aggregator() {
  const std::scoped_lock lock(mutex_);
  // One that is started again knows what the journal held when this host began to lead; another replica knows all.
  if (led_from_.journal && aggregator_)
    around_.events->failed("its aggregator ended while it led: another replica takes over");
  const auto layout = options_.run_directory + "/shards.json";
  const bool keeps_layout = tree_.is_root() && !is_replicated();
  root_options role{.host = host_.name,
                    .run_ledger = ledger_,
                    .events = around_.events,
                    .ledger_origin_seconds = ledger_origin_seconds_,
                    .journal = led_from_.journal,
                    .before = led_from_.state,
                    .voter = leadership::voter_of(*options_.file, host_.name),
                    .names = around_.names,
                    .plan = tree_.is_root() ? tree_.plan() : cluster::tree_plan{},
                    .layout = keeps_layout ? read_layout(layout) : shard_layout{},
                    .write_layout = {}};
  if (keeps_layout)
    role.write_layout = [layout](const shard_layout& now) { return write_layout(layout, now); };
  aggregator_ = system_.spawn(
      aggregator, aggregator_options{.file = options_.file, .timeouts = timeouts_, .role = std::move(role)});
  if (gateway_)
    serve_aggregator();
  return caf::actor_cast<caf::strong_actor_ptr>(aggregator_);
}

void arbitration_services::serve_aggregator() {
  if (tree_.is_root())
    caf::anon_send(gateway_, atom::serve_v, caf::actor_cast<attacher_actor>(aggregator_));
  else
    caf::anon_send(gateway_, atom::serve_v, caf::actor_cast<greeter_actor>(aggregator_));
}

caf::strong_actor_ptr arbitration_services::start_arbitrator() {
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

void arbitration_services::serve_gateway(const gateway_local& gateway) {
  const std::scoped_lock lock(mutex_);
  gateway_ = gateway;
  if (aggregator_)
    serve_aggregator();
  else if (leader_)
    caf::anon_send(gateway_, atom::redirect_v, *leader_);
}

void arbitration_services::stop() {
  const std::scoped_lock lock(mutex_);
  if (aggregator_)
    caf::anon_send(aggregator_, atom::stop_v);
}

void arbitration_services::tell_end(const part_outcome& how) {
  {
    const std::scoped_lock lock(mutex_);
    if (!led_from_.journal || !supervisor_)
      return;
  }
  using messages::farewell_end;
  const messages::farewell said{.host = host_.name,
                                .succeeded = how.succeeded,
                                .reason = messages::fit_text(how.reason),
                                .decisions = {},
                                .end = how.stopped     ? how.succeeded ? farewell_end::stopped : farewell_end::cancelled
                                       : how.succeeded ? farewell_end::completed
                                                       : farewell_end::failed};
  leadership::tell_end(system_, around_.network, *options_.file, said,
                       std::chrono::milliseconds(timeouts_.request_timeout_ms));
}

void arbitration_services::tell(ledger::event_kind event, const std::string& host, const std::string& text) {
  ledger_->append(
      {.at_seconds = clock_seconds(system_) - ledger_origin_seconds_, .entry = ledger::event{event, host, text}});
}

caf::actor arbitration_services::supervisor() {
  const std::scoped_lock lock(mutex_);
  return supervisor_;
}

caf::actor arbitration_services::end_voter() {
  leadership_.stop(timeouts_.shutdown_timeout_ms);
  const std::scoped_lock lock(mutex_);
  return std::exchange(supervisor_, nullptr);
}

void arbitration_services::shut_down() {
  commands_ = nullptr; // waits for the one that is being answered
  const std::scoped_lock lock(mutex_);
  gateway_ = nullptr;
  learner_ = nullptr;
  aggregator_ = nullptr;
}

} // namespace dynamix::actors
