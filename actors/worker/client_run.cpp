#include "actors/worker/client_run.hpp"

#include "actors/packing.hpp"
#include "cluster/decision_steps.hpp"
#include "messages/leave.hpp"
#include "messages/loss.hpp"
#include "session/step_settings.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

namespace dynamix::actors {

namespace {

namespace slot_effects = session::client_effects;

/// What a script's run says at its end where the script gives no reason, also of one that was stopped.
constexpr std::string_view unsaid_reason = "completed";

constexpr std::size_t decisions_kept_max = 64;
constexpr std::size_t evaluations_kept_max = 10'000;

/// Of a worker that the file names; nothing for a guest.
std::optional<std::uint32_t> listed_rank(const training_options& options) {
  const auto workers = options.file->workers();
  const auto found = std::ranges::find(workers, options.host.name, &cluster::host::name);
  return found == workers.end() ? std::nullopt : std::optional(static_cast<std::uint32_t>(found - workers.begin()));
}

/// What a client learns of its place in the cluster.
messages::client_welcome describe_place(const training_options& options, std::uint32_t rank) {
  const auto& file = *options.file;
  const auto& host = options.host;
  const auto workers = file.workers();
  const auto window_steps = file.arbitrator.window_steps;
  return {.detail = {},
          .host = host.name,
          .rank = rank,
          .workers = static_cast<std::uint32_t>(workers.size()),
          .window_steps = window_steps,
          .settle_steps = cluster::settle_steps(window_steps),
          .lowest_batch = file.batch.lowest,
          .highest_batch = file.highest_by_rank().at(rank),
          .initial_batch = file.batch.initial,
          .rule = session::rate_rule_of(file.training.rule),
          .seed = file.seed,
          .cores = options.cores,
          .gpu = host.gpus.size() == 1 ? host.gpus.front() : -1,
          .balances = session::balancing_of(file),
          .start_divisor = file.begins_small() ? cluster::start_divisor : 0};
}

} // namespace

client_run::~client_run() {
  server_.reset();
}

void client_run::open(caf::actor_system&, worker_local worker) {
  worker_ = std::move(worker);
  const auto& listener = options_.listener;
  spdlog::info("client_awaited waiting for the training process at {}", listener->path());
  if (const auto rank = listed_rank(options_))
    serve(*rank); // else a process that comes waits until the rank is known
}

void client_run::serve(std::uint32_t rank) {
  server_ = std::make_unique<client_server>(
      options_.listener,
      session::client_slot_options{.welcome = describe_place(options_, rank),
                                   .socket = options_.listener->path(),
                                   .open = options_.file->membership == cluster::membership_kind::open},
      [this](session::client_effect& what) { take(what); });
}

void client_run::act(const std::function<void(session::client_slot&)>& action) {
  if (server_)
    server_->act(action);
}

void client_run::join(std::uint32_t rank, std::shared_ptr<session::decision_slot> decisions) {
  {
    const std::scoped_lock lock(mutex_);
    decisions_ = std::move(decisions);
  }
  if (!server_)
    serve(rank);
}

void client_run::place(const messages::placement& place, store_actor) {
  {
    const std::scoped_lock lock(mutex_);
    first_steps_ = steps_;
    began_ = false;
    received_.clear();
  }
  act([&](session::client_slot& slot) { slot.placed(place); });
}

void client_run::decided(const messages::decision& decision) {
  {
    const std::scoped_lock lock(mutex_);
    received_.push_back(decision);
    if (received_.size() > decisions_kept_max)
      received_.pop_front();
  }
  act([&](session::client_slot& slot) { slot.decided(decision); });
}

void client_run::interrupt(const std::string& reason) {
  act([&](session::client_slot& slot) { slot.leave(reason); });
}

void client_run::regroup() {
  interrupt("all workers regroup");
}

void client_run::request_stop() {
  {
    const std::scoped_lock lock(mutex_);
    stop_asked_ = true;
  }
  act([](session::client_slot& slot) { slot.stop("training was asked to stop"); });
}

void client_run::finish(const std::string& reason) {
  act([&](session::client_slot& slot) { slot.close(reason); });
  {
    const std::scoped_lock lock(mutex_);
    outcome_.how = trainer::ending::failed;
    outcome_.reason = last_loss_.empty() ? reason : reason + "; " + last_loss_;
    outcome_.steps = outcome_.attempted_steps = steps_;
  }
  caf::anon_send(worker_, atom::left_v);
}

void client_run::take(session::client_effect& what) {
  std::visit(
      [this](const auto& one) {
        if constexpr (requires { on(one); })
          on(one);
      },
      what);
}

void client_run::on(const slot_effects::follow& what) {
  if (options_.process)
    options_.process->store(what.process, std::memory_order_relaxed);
}

void client_run::on(const slot_effects::ready& what) {
  {
    const std::scoped_lock lock(mutex_);
    group_ = what.members;
    last_loss_.clear();
    in_force_ = {};
  }
  caf::anon_send(worker_, atom::ready_v);
}

void client_run::on(const slot_effects::lost& what) {
  {
    const std::scoped_lock lock(mutex_);
    last_loss_ = what.reason;
  }
  caf::anon_send(worker_, atom::absent_v, what.reason);
}

void client_run::on(const slot_effects::left& what) {
  {
    const std::scoped_lock lock(mutex_);
    outcome_.how = trainer::ending::lost;
    outcome_.reason = what.reason;
    outcome_.steps = outcome_.attempted_steps = steps_;
  }
  caf::anon_send(worker_, atom::left_v);
}

void client_run::on(const slot_effects::progress& what) {
  bool begins = false;
  {
    const std::scoped_lock lock(mutex_);
    steps_ = what.steps;
    begins = steps_ > first_steps_ && !std::exchange(began_, true);
  }
  if (begins)
    caf::anon_send(worker_, atom::beat_v);
}

void client_run::on(const slot_effects::report& what) {
  const auto& report = what.report;
  if (auto* trace = options_.trace.get(); trace != nullptr) {
    trace->moment("report", report.generation, report.window);
    trace->flush();
  }
  {
    const std::scoped_lock lock(mutex_);
    control_seconds_ += report.control_seconds;
    outcome_.wall_seconds = std::max(outcome_.wall_seconds, report.elapsed_seconds);
    outcome_.epochs = report.epoch;
    note_applied(report);
  }
  caf::anon_send(worker_, atom::report_v, pack(report));
}

/// The client's own slot tells the agent's what was put in force.
void client_run::note_applied(const messages::window_report& report) {
  if (!decisions_ || report.decision == in_force_)
    return;
  in_force_ = report.decision;
  const auto found = std::ranges::find(received_, report.decision, &messages::decision::key);
  if (found == received_.end())
    return;                                   // an agent before this one received it
  if (found->generation == report.generation) // otherwise it was counted as unapplied
    decisions_->applied(*found, report.first_step);
  received_.erase(received_.begin(), found + 1);
}

void client_run::on(const slot_effects::evaluated& what) {
  {
    const std::scoped_lock lock(mutex_);
    if (evaluations_.size() < evaluations_kept_max)
      evaluations_.push_back(what.report);
    outcome_.final_accuracy = what.report.test_accuracy;
  }
  spdlog::info("evaluated epoch={} accuracy={:.4f} loss={:.4f} seconds={:.1f}", what.report.epoch,
               what.report.test_accuracy, messages::received_loss(what.report.test_loss), what.report.elapsed_seconds);
  caf::anon_send(worker_, atom::evaluation_v, pack(what.report));
}

void client_run::on(const slot_effects::finished& what) {
  const auto& said = what.farewell;
  {
    const std::scoped_lock lock(mutex_);
    const bool stopped = stop_asked_ || said.end == messages::farewell_end::stopped;
    const bool gives_reason = !said.reason.empty() && !(stopped && said.reason == unsaid_reason);
    outcome_ = {.how = stopped ? trainer::ending::stopped : trainer::ending::completed,
                .reason = gives_reason ? said.reason
                          : stopped    ? std::string{messages::stopped_reason}
                                       : "the training process has finished",
                .steps = said.steps,
                .attempted_steps = said.steps,
                .samples = said.samples,
                .epochs = said.epochs,
                .wall_seconds = said.wall_seconds,
                .final_accuracy = said.final_accuracy,
                .seconds_to_target = said.seconds_to_target,
                .parameter_checksum = said.parameter_checksum,
                .checkpoint = {}};
    steps_ = std::max(steps_, said.steps);
  }
  caf::anon_send(worker_, atom::left_v);
}

} // namespace dynamix::actors
