#include "actors/worker/training_run.hpp"

#include "actors/packing.hpp"
#include "actors/worker/remote_store.hpp"
#include "exchange/peer_links.hpp"
#include "messages/validation.hpp"
#include "storage/json_text.hpp"
#include "telemetry/training_thread.hpp"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace dynamix::actors {

/// Turns what the training thread tells of one generation into messages to the worker.
class training_observer final : public trainer::observer {
public:
  training_observer(training_run& run, worker_local worker, const trainer::membership& place)
      : run_(run), worker_(std::move(worker)), place_(place) {}

  void started() override {
    spdlog::info("training_started generation={} rank={} members={}", place_.generation, place_.rank,
                 place_.members.size());
  }

  void exchange_planned(const exchange::summing_plan& plan) override {
    std::string shares;
    const auto rank_at = [&](std::size_t i) {
      return i < place_.members.size() ? place_.members[i] : place_.servers[i - place_.members.size()];
    };
    for (std::size_t i = 0; i < plan.link_rates.size(); ++i)
      shares += fmt::format("{}{}:{:.3f}@{:.0f}", i == 0 ? "" : ",", rank_at(i), plan.servers.shares[i],
                            plan.link_rates[i] * 8e-6);
    spdlog::info("exchange_planned by={} servers_ms_per_mb={:.3f} ring_ms_per_mb={:.3f} rank_share_mbit={}",
                 plan.by_servers ? "servers" : "ring", plan.servers.seconds_per_byte * 1e9,
                 plan.servers.ring_seconds_per_byte * 1e9, shares);
    exchange_chosen(fmt::format("gradients by {}: a MB takes {:.3f} ms through servers and {:.3f} ms in a ring, as "
                                "predicted; shares by rank, and Mbit/s: {}",
                                plan.by_servers ? "servers" : "the ring", plan.servers.seconds_per_byte * 1e9,
                                plan.servers.ring_seconds_per_byte * 1e9, shares));
  }

  /// The same on all members, of whom the first one tells it.
  void exchange_chosen(const std::string& what) override {
    if (place_.rank != place_.members.front())
      return;
    choices_.push_back(what);
    if (choices_.size() > choices_max) {
      choices_.erase(choices_.begin());
      ++choices_before_;
    }
  }

  void compressed(const exchange::compression_counts& counts) override {
    std::string forms; // where they are chosen by measurement
    if (counts.union_sums > 0)
      forms = fmt::format(" dense_sums={} union_sums={} gather_sums={} lhc_sums={} server_sums={}", counts.dense_sums,
                          counts.union_sums, counts.gather_sums, counts.lhc_sums, counts.server_sums);
    spdlog::info(
        "compression sums={} own_items={} union_items={} sketched={} unfit={} unpeeled={} unsketched_sums={}{}",
        counts.sums, counts.own_items, counts.items, counts.sketched, counts.unfit, counts.unpeeled,
        counts.unsketched_sums, forms);
  }

  void step_timed(const trainer::step_times& times) override {
    auto* trace = run_.options_.trace.get();
    if (trace == nullptr)
      return;
    if (window_begin_seconds_ == 0)
      window_begin_seconds_ = times.begin_seconds;
    trace->span("step", fmt::format("step {}", times.step), times.begin_seconds, times.end_seconds,
                fmt::format("\"batch\":{},\"data\":{:.9f},\"compute\":{:.9f},\"blocked\":{:.9f}", times.batch,
                            times.data_seconds, times.compute_seconds, times.blocked_seconds));
    for (const auto& each : times.collectives)
      trace->span("collective", "all-reduce", each.begin_seconds, each.end_seconds,
                  fmt::format("\"bytes\":{}", each.bytes));
    step_end_seconds_ = times.end_seconds;
  }

  void window_closed(const trainer::window_record& record) override {
    if (auto* trace = run_.options_.trace.get(); trace != nullptr) {
      trace->span("window", fmt::format("window {}", record.window), window_begin_seconds_, step_end_seconds_,
                  fmt::format("\"batch\":{},\"generation\":{},\"global_batch\":{}", record.batch, place_.generation,
                              record.global_batch));
      trace->moment("report", place_.generation, record.window);
      trace->flush();
      window_begin_seconds_ = 0;
    }
    {
      const std::scoped_lock lock(run_.mutex_);
      run_.control_seconds_ += record.control_seconds;
    }
    caf::anon_send(worker_, atom::report_v,
                   pack_checked(messages::window_report{.host = run_.options_.host.name,
                                                        .rank = place_.rank,
                                                        .generation = place_.generation,
                                                        .window = record.window,
                                                        .first_step = record.first_step,
                                                        .final = record.final,
                                                        .batch = record.batch,
                                                        .decision = record.decision,
                                                        .global_batch = record.global_batch,
                                                        .epoch = record.epoch,
                                                        .epoch_samples = record.epoch_samples,
                                                        .elapsed_seconds = record.elapsed_seconds,
                                                        .training = record.statistics,
                                                        .network = {},
                                                        .system = {},
                                                        .control_seconds = record.control_seconds,
                                                        .balance = record.balance,
                                                        .exchange_choice = messages::fit_text(take_choices()),
                                                        .warning = std::exchange(warning_, {})}));
  }

  void step_completed(std::uint64_t step) override {
    run_.steps_.store(step, std::memory_order_relaxed);
    if (std::exchange(first_, false))
      caf::anon_send(worker_, atom::beat_v);
  }

  void evaluated(const messages::evaluation_report& report) override {
    {
      const std::scoped_lock lock(run_.mutex_);
      run_.evaluations_.push_back(report);
    }
    spdlog::info("evaluated epoch={} accuracy={:.4f} loss={:.4f} seconds={:.1f}", report.epoch, report.test_accuracy,
                 report.test_loss, report.elapsed_seconds);
    caf::anon_send(worker_, atom::evaluation_v, pack_checked(report));
  }

  void memory_limited(std::uint32_t micro_batch, std::uint64_t samples) override {
    spdlog::warn(
        "memory_limited batch={} micro_batch={}: the memory does not hold the batch at once; its gradients are "
        "accumulated",
        samples, micro_batch);
  }

  void step_dropped(const std::string& reason) override {
    spdlog::warn("step_dropped reason={}", storage::quoted(reason));
  }

  void cores_judged(const std::string& sharing) override {
    spdlog::info("cores_judged balance={} reason={}", sharing.empty() ? "on" : "off",
                 storage::quoted(sharing.empty() ? "this worker shares its cores with no other" : sharing));
  }

  void data_left_out(const std::vector<std::string>& files) override {
    constexpr std::size_t left_out_shown = 20;
    for (std::size_t i = 0; i < std::min(files.size(), left_out_shown); ++i)
      spdlog::warn("data_left_out reason={}", storage::quoted(files[i]));
    if (files.size() > left_out_shown)
      spdlog::warn("data_left_out reason=\"and {} more\"", files.size() - left_out_shown);
  }

  void checkpoint_written(const std::string& path, std::uint64_t step) override {
    spdlog::info("checkpoint_written step={} path={}", step, path);
    checkpoint_failing_ = false;
  }

  void checkpoint_failed(const std::string& problem, std::uint64_t step) override {
    spdlog::error("checkpoint_failed step={} error={}", step, storage::quoted(problem));
    if (!std::exchange(checkpoint_failing_, true)) // once, while it stays so
      warning_ = messages::fit_text(fmt::format("no checkpoint could be written at step {}: {}", step, problem));
  }

  session::step_request request() override {
    if (run_.stop_.load(std::memory_order_relaxed))
      return session::step_request::stop;
    return run_.regroup_.load(std::memory_order_relaxed) ? session::step_request::regroup : session::step_request::none;
  }

private:
  static constexpr std::size_t choices_max = 8; ///< that a window tells

  /// The newest of them that a report holds, oldest first.
  std::string take_choices() {
    const auto all = std::exchange(choices_, {});
    auto before = std::exchange(choices_before_, 0) + all.size();
    std::string told;
    for (auto each = all.rbegin(); each != all.rend(); ++each, --before) {
      if (!told.empty() && told.size() + each->size() + 32 > messages::max_text_length) // with the words below
        break;
      told = *each + (told.empty() ? "" : "; ") + told;
    }
    return before == 0 ? told : fmt::format("{}; and {} before", told, before);
  }

  training_run& run_;
  worker_local worker_;
  const trainer::membership& place_;
  bool first_ = true;
  std::vector<std::string> choices_; ///< of the exchange since the newest window: the newest ones
  std::size_t choices_before_ = 0;   ///< how many came before these
  std::string warning_;              ///< that the next report holds
  bool checkpoint_failing_ = false;  ///< the last one could not be written
  // Of the trace.
  double window_begin_seconds_ = 0;
  double step_end_seconds_ = 0;
};

training_run::~training_run() {
  // The thread holds a share of this object, so here it has ended or is ending in this very call.
  if (thread_.joinable())
    thread_.detach();
}

void training_run::open(caf::actor_system& system, worker_local worker) {
  system_ = &system;
  worker_ = std::move(worker);
}

void training_run::join(std::uint32_t rank, std::shared_ptr<session::decision_slot> decisions) {
  rank_ = rank;
  decisions_ = std::move(decisions);
  thread_ = std::thread([self = shared_from_this()] { self->run(); });
}

void training_run::place(const messages::placement& place, store_actor store) {
  regroup_.store(false, std::memory_order_relaxed);
  interruption_ = std::make_shared<exchange::interruption>();
  const auto workers = static_cast<std::uint32_t>(options_.file->workers().size());
  const auto servers = std::ranges::lower_bound(place.members, workers); // in the order of ranks
  {
    const std::scoped_lock lock(mutex_);
    order_ = order{.place = {{.rank = rank_,
                              .members = {place.members.begin(), servers},
                              .store_prefix = place.store_prefix,
                              .address = options_.host.address,
                              .collective_timeout_ms = options_.timeouts.collective_timeout_ms,
                              .join_timeout_ms = options_.timeouts.stall_timeout_ms,
                              .silent_peer_ms = exchange::silent_peer_requests * options_.timeouts.request_timeout_ms,
                              .links = options_.links,
                              .servers = {servers, place.members.end()}},
                             place.generation,
                             place.source},
                   .store = std::move(store),
                   .stop = interruption_};
  }
  ordered_.notify_one();
}

void training_run::interrupt(const std::string& reason) {
  if (interruption_)
    interruption_->raise(reason);
}

void training_run::finish(const std::string& reason) {
  {
    const std::scoped_lock lock(mutex_);
    last_reason_ = reason;
  }
  ordered_.notify_one();
}

std::optional<training_run::order> training_run::await_order() {
  std::unique_lock lock(mutex_);
  ordered_.wait(lock, [this] { return order_ || last_reason_; });
  return std::exchange(order_, std::nullopt);
}

void training_run::tell(trainer::outcome outcome) {
  steps_.store(outcome.steps, std::memory_order_relaxed);
  {
    const std::scoped_lock lock(mutex_);
    outcome_ = std::move(outcome);
  }
  caf::anon_send(worker_, atom::left_v);
}

void training_run::run() {
  trainer::outcome last;
  dynamix::telemetry::mark_training_thread();
  try {
    // Outlives the session: a thread that a generation left behind may still read it.
    static trainer::steady_clock clock;
    const auto session = options_.module->make_session({.file = options_.file.get(),
                                                        .host = &options_.host,
                                                        .checkpoint_directory = options_.checkpoint_directory,
                                                        .write_file = options_.write_file,
                                                        .resume_from = options_.resume_from},
                                                       clock);
    while (auto next = await_order()) {
      remote_store rendezvous(*system_, next->store, std::chrono::milliseconds(options_.timeouts.request_timeout_ms),
                              *next->stop);
      training_observer observer(*this, worker_, next->place);
      last = session->train(next->place, rendezvous, *decisions_, observer, *next->stop);
      tell(last);
      if (last.succeeded() || last.how == trainer::ending::failed)
        return;
    }
    const auto saved = session->save();
    const std::scoped_lock lock(mutex_);
    last.reason =
        *last_reason_ + (saved.path.empty() ? "; " + saved.problem : "; checkpoint " + saved.path + " written");
    if (!saved.path.empty())
      last.checkpoint = saved.path;
  } catch (const std::exception& error) {
    last.reason = error.what();
  }
  last.how = trainer::ending::failed;
  tell(std::move(last));
}

} // namespace dynamix::actors
