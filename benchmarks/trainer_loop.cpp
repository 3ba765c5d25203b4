#include "benchmarks/trainer_loop.hpp"

#include "trainer/clock.hpp"

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <stdexcept>

namespace dynamix::benchmarks {

namespace {

constexpr std::uint64_t training_samples = 60000;

/// c10d's store as the trainer's.
class tcp_store final : public exchange::store {
public:
  explicit tcp_store(const step_plan& plan) : store_("127.0.0.1", options_for(plan)) {}
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override { store_.set(key, value); }
  std::optional<std::vector<std::uint8_t>> get(const std::string& key) override {
    if (!store_.check({key}))
      return std::nullopt;
    return store_.get(key);
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override { return store_.add(key, amount); }
  bool check(const std::vector<std::string>& keys) override { return store_.check(keys); }
  bool remove(const std::string& key) override { return store_.deleteKey(key); }
  std::int64_t count() override { return store_.getNumKeys(); }

private:
  static c10d::TCPStoreOptions options_for(const step_plan& plan) {
    c10d::TCPStoreOptions options;
    options.port = plan.port;
    options.isServer = plan.rank == 0;
    options.numWorkers = plan.world;
    return options;
  }
  c10d::TCPStore store_;
};

/// Notes when each window closed.
class window_times final : public trainer::observer {
public:
  void started() override {}
  void window_closed(const trainer::window_record& record) override {
    if (!record.final)
      elapsed_seconds_.push_back(record.elapsed_seconds);
  }
  void evaluated(const messages::evaluation_report&) override {}
  void checkpoint_written(const std::string&, std::uint64_t) override {}
  void checkpoint_failed(const std::string&, std::uint64_t) override {}
  void step_completed(std::uint64_t) override {}
  trainer::step_request request() override { return trainer::step_request::none; }

  /// The length of the windows behind the first `skipped`.
  std::vector<double> lengths(std::size_t skipped) const {
    std::vector<double> seconds;
    for (std::size_t window = std::max<std::size_t>(1, skipped); window < elapsed_seconds_.size(); ++window)
      seconds.push_back(elapsed_seconds_[window] - elapsed_seconds_[window - 1]);
    return seconds;
  }

private:
  std::vector<double> elapsed_seconds_;
};

} // namespace

cluster::cluster_file describe(const step_plan& plan) {
  cluster::cluster_file file;
  file.name = "step";
  // The last window holds the final evaluation and is not counted, so there is one more.
  const double steps = static_cast<double>(plan.warm_up + plan.chunks + 1) * plan.chunk_steps;
  file.training.epochs = steps * plan.batch * plan.world / static_cast<double>(training_samples);
  file.training.evaluate_every_epochs = 1000;
  file.training.checkpoint_every_epochs = 1000;
  file.training.data_path = plan.data;
  file.training.bucket_kib = plan.bucket_kib;
  file.batch = {.initial = plan.batch, .lowest = plan.batch, .highest = plan.batch};
  file.arbitrator.window_steps = plan.chunk_steps;
  for (std::uint32_t rank = 0; rank < plan.world; ++rank)
    file.hosts.push_back({.name = "host" + std::to_string(rank)});
  return file;
}

void train(const step_plan& plan, const cluster::cluster_file& file, trainer::decision_slot& decisions,
           trainer::observer& windows) {
  tcp_store store(plan);
  trainer::steady_clock time;
  trainer::membership place{{.rank = plan.rank, .members = {}, .store_prefix = "step"}};
  for (std::uint32_t rank = 0; rank < plan.world; ++rank)
    place.members.push_back(rank);
  trainer::session session({.file = &file, .host = &file.hosts[plan.rank]}, time);
  exchange::interruption never;
  const auto result = session.train(place, store, decisions, windows, never);
  if (!result.succeeded())
    throw std::runtime_error(result.reason);
}

std::vector<double> run_trainer_loop(const step_plan& plan) {
  trainer::decision_slot decisions(plan.rank, plan.batch, plan.batch);
  window_times windows;
  train(plan, describe(plan), decisions, windows);
  return windows.lengths(plan.warm_up);
}

} // namespace dynamix::benchmarks
