#include "actors/training_run.hpp"

#include "actors/packing.hpp"
#include "actors/remote_store.hpp"

#include <spdlog/spdlog.h>

#include <exception>

namespace dynamix::actors {

/// Turns what the training thread tells into messages to the worker.
class training_observer final : public trainer::observer {
public:
  training_observer(training_run& run, worker_local worker) : run_(run), worker_(std::move(worker)) {}

  void started() override {
    spdlog::info("training_started generation={} rank={} workers={}", run_.place_.generation, run_.place_.rank,
                 run_.place_.world_size);
  }

  void window_closed(const trainer::window_record& record) override {
    run_.control_seconds_ += record.control_seconds;
    caf::anon_send(worker_, atom::report_v,
                   pack(messages::window_report{.host = run_.options_.host,
                                                .rank = run_.place_.rank,
                                                .generation = run_.place_.generation,
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
                                                .control_seconds = record.control_seconds}));
  }

  void evaluated(const messages::evaluation_report& report) override {
    run_.evaluations_.push_back(report);
    spdlog::info("evaluated epoch={} accuracy={:.4f} loss={:.4f} seconds={:.1f}", report.epoch, report.test_accuracy,
                 report.test_loss, report.elapsed_seconds);
    caf::anon_send(worker_, atom::evaluation_v, pack(report));
  }

  void checkpoint_written(const std::string& path, std::uint64_t step) override {
    spdlog::info("checkpoint_written step={} path={}", step, path);
  }

  bool stop_requested() override { return run_.stop_.load(std::memory_order_relaxed); }

private:
  training_run& run_;
  worker_local worker_;
};

training_run::training_run(const training_options& options, const messages::welcome& place)
    : options_(options), place_{.generation = place.generation,
                                .rank = place.rank,
                                .world_size = place.world_size,
                                .store_prefix = place.store_prefix,
                                .address = options.file.find(options.host)->address,
                                .collective_timeout_ms =
                                    cluster::derive_timeouts(options.file.detect_ms).collective_timeout_ms,
                                .join_timeout_ms = cluster::derive_timeouts(options.file.detect_ms).join_timeout_ms},
      decisions_(place.generation, place.rank, options.file.batch.lowest, options.file.batch.highest) {}

training_run::~training_run() {
  // The thread holds a share of this object, so here it has ended or is ending in this very call.
  if (thread_.joinable())
    thread_.detach();
}

void training_run::start(caf::actor_system& system, worker_local worker, store_actor store) {
  thread_ = std::thread([self = shared_from_this(), &system, worker = std::move(worker), store = std::move(store)] {
    self->run(system, worker, store);
    caf::anon_send(worker, atom::ended_v);
  });
}

void training_run::abort(std::string reason) {
  if (aborted_.load(std::memory_order_relaxed))
    return;
  abort_reason_ = std::move(reason);
  aborted_.store(true, std::memory_order_release);
}

void training_run::run(caf::actor_system& system, const worker_local& worker, const store_actor& store) {
  try {
    remote_store rendezvous(system, store, options_.request_timeout, aborted_, abort_reason_);
    trainer::steady_clock clock;
    training_observer observer(*this, worker);
    const trainer::session_options session{.file = &options_.file,
                                           .host = options_.file.find(options_.host),
                                           .checkpoint_directory = options_.checkpoint_directory,
                                           .resume_from = options_.resume_from};
    outcome_ = trainer::train(session, place_, rendezvous, clock, decisions_, observer);
  } catch (const std::exception& error) {
    outcome_.succeeded = false;
    outcome_.reason = error.what();
  }
}

} // namespace dynamix::actors
