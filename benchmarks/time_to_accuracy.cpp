/// One training on a virtual clock: real samples, gradients, losses and decisions, but a step takes what its declared
/// hosts would, a fixed time and one a sample, so that nothing depends on how busy the machine is. Prints a JSON object
/// a line: each evaluation, and each window. benchmarks/time_to_accuracy runs many of them.

#include "client/gradient_noise.hpp"
#include "client/learning_rate.hpp"
#include "client/sampler.hpp"
#include "cluster/decision_steps.hpp"
#include "policy/deliberation.hpp"
#include "session/step_settings.hpp"
#include "storage/atomic_file.hpp"
#include "trainer/batch_loader.hpp"
#include "trainer/evaluation.hpp"
#include "trainer/loss.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/training_step.hpp"

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdio>
#include <exception>
#include <fmt/core.h>
#include <map>
#include <numbers>
#include <numeric>
#include <stdexcept>

namespace dynamix::benchmarks {
namespace {

enum class schedule : std::uint8_t {
  constant,
  one_cycle, ///< torch's OneCycleLR: from a 25th up in 30 %, then down to nearly nothing, by half cosines
  warm_up    ///< linearly up in 10 %, then down to nothing by half a cosine
};

struct plan {
  std::string cluster;
  std::vector<double> samples_per_second; ///< of each worker, once the fixed time is over
  double fixed_seconds = 0.05;
  double exchange_seconds = 0.005;
  bool shares_cores = false;    ///< all compute on the same cores: a step takes the sum of their times
  std::uint64_t base_batch = 0; ///< global, which the learning rate is for; 0: the initial one
  schedule rates = schedule::constant;
  double schedule_steps = 0; ///< of the base batch, by progress, which end training in place of epochs
  double evaluate_every_epochs = 0.02;
  std::uint32_t evaluate_samples = 1000;
  std::vector<std::uint8_t> parameters;
};

void require(const std::string& problem) {
  if (!problem.empty())
    throw std::runtime_error(problem);
}

/// The part of its highest rate that a schedule has at `part` of its steps.
double factor_of(schedule rates, double part) {
  const auto between = [](double from, double to, double way) {
    return to + (from - to) * (1 + std::cos(std::numbers::pi * std::min(way, 1.0))) / 2;
  };
  switch (rates) {
  case schedule::one_cycle:
    return part < 0.3 ? between(0.04, 1, part / 0.3) : between(1, 4e-6, (part - 0.3) / 0.7);
  case schedule::warm_up:
    return part < 0.1 ? part / 0.1 : between(1, 0, (part - 0.1) / 0.9);
  case schedule::constant:
    break;
  }
  return 1;
}

/// What one step's gradients come to.
struct summed {
  client::gradient_observation seen;
  double loss = 0;
  double correct = 0;
};

class virtual_training {
public:
  virtual_training(cluster::cluster_file given, plan how)
      : file_(std::move(given)), how_(std::move(how)), workers_(how_.samples_per_second.size()),
        model_(trainer::build_model(trainer::options_of(file_.training, file_.seed))),
        parameters_(model_->parameters()), descent_(file_.training, parameters_),
        deliberation_(file_, policy::make_controller(file_, how_.parameters)),
        rule_(session::rate_rule_of(file_.training.rule), 1,
              how_.base_batch > 0 ? how_.base_batch : std::uint64_t{file_.batch.initial} * workers_,
              trainer::is_adaptive(file_.training.optimizer)),
        batches_(workers_, file_.first_batch()) {
    require(load_dataset(file_.training, trainer::dataset_split::train, train_));
    require(load_dataset(file_.training, trainer::dataset_split::test, test_));
    const auto channels = measure_channels(train_);
    train_loader_.emplace(train_, channels);
    test_loader_.emplace(test_, channels);
    sampler_.emplace(file_.seed, std::vector{train_.size()});
    for (const auto& parameter : parameters_)
      gradients_.push_back(torch::zeros_like(parameter));
  }

  void run() {
    const auto wanted = file_.training.epochs * static_cast<double>(train_.size());
    const auto interval = how_.evaluate_every_epochs * static_cast<double>(train_.size());
    double next_evaluation = interval;
    model_->train();
    while (how_.rates == schedule::constant ? static_cast<double>(samples_) < wanted
                                            : rule_.progress() < how_.schedule_steps) {
      step();
      if (static_cast<double>(samples_) >= next_evaluation) {
        evaluate();
        next_evaluation += interval;
      }
    }
  }

private:
  double seconds_of(std::size_t worker, std::uint32_t batch) const {
    return how_.fixed_seconds + batch / how_.samples_per_second[worker];
  }
  std::vector<std::uint64_t> deal();
  summed compute(std::span<const std::uint64_t> shares);
  void step();
  void evaluate();
  void close_window();

  cluster::cluster_file file_;
  plan how_;
  std::size_t workers_;
  torch::nn::Sequential model_;
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> gradients_;
  trainer::optimizer descent_;
  trainer::dataset train_;
  trainer::dataset test_;
  std::optional<trainer::batch_loader> train_loader_;
  std::optional<trainer::batch_loader> test_loader_;
  std::optional<client::sampler> sampler_;
  client::leases leases_;
  std::uint64_t epochs_ = 0; ///< begun
  policy::deliberation deliberation_;
  client::gradient_noise noise_;
  client::learning_rate rule_;
  std::vector<std::uint32_t> batches_;
  std::vector<std::uint32_t> decided_; ///< in force `settle_steps` after the window
  messages::decision_key decided_key_;
  messages::decision_key key_;
  std::uint64_t step_ = 0;
  std::uint64_t samples_ = 0;
  double seconds_ = 0;
  // Of the window, since batch sizes changed.
  std::uint64_t window_first_step_ = 0;
  std::uint32_t steps_ = 0;
  std::vector<double> computing_;
  double iterations_ = 0;
  double loss_ = 0;
  double correct_ = 0;
  std::uint64_t window_samples_ = 0;
  client::learning_rate_step rate_;
};

/// How many of the next samples are each worker's.
std::vector<std::uint64_t> virtual_training::deal() {
  if (leases_.left() == 0)
    leases_ = client::leases({.lanes = std::vector<std::uint32_t>(workers_, 1)}, sampler_->items_of(epochs_++));
  leases_.lease(batches_);
  return leases_.next_shares(batches_, batches_);
}

summed virtual_training::compute(std::span<const std::uint64_t> shares) {
  summed result;
  auto& seen = result.seen;
  seen.global_batch = std::accumulate(shares.begin(), shares.end(), std::uint64_t{0});
  for (auto& sum : gradients_)
    sum.zero_();
  for (std::size_t worker = 0; worker < workers_; ++worker) {
    const auto count = shares[worker];
    if (count == 0)
      continue;
    const auto batch = train_loader_->load(sampler_->numbers_of(epochs_ - 1, leases_.next_items(worker, count)));
    for (auto& parameter : parameters_)
      parameter.mutable_grad() = torch::Tensor();
    const auto answers = model_->forward(batch.inputs);
    const auto loss = trainer::loss_sum(answers, batch.labels) / static_cast<double>(count);
    loss.backward();
    torch::NoGradGuard no_gradients;
    double square = 0;
    const double share = static_cast<double>(count) / static_cast<double>(seen.global_batch);
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      if (const auto& gradient = parameters_[i].grad(); gradient.defined()) {
        square += gradient.square().sum().item<double>();
        gradients_[i].add_(gradient, share);
      }
    ++seen.active_workers;
    seen.weighted_square_sum += static_cast<double>(count) * square;
    if (worker == 0) {
      seen.own_square = square;
      seen.own_batch = static_cast<std::uint32_t>(count);
    }
    result.loss += loss.item<double>() * static_cast<double>(count);
    result.correct += trainer::count_correct(answers, batch.labels);
  }
  torch::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    seen.global_square += gradients_[i].square().sum().item<double>();
    parameters_[i].mutable_grad() = gradients_[i];
  }
  return result;
}

void virtual_training::step() {
  if (!decided_.empty() &&
      step_ % file_.arbitrator.window_steps == cluster::settle_steps(file_.arbitrator.window_steps)) {
    if (decided_ != batches_) {
      steps_ = 0;
      iterations_ = 0;
      computing_.clear();
    }
    batches_ = std::exchange(decided_, {});
    key_ = decided_key_;
  }
  const auto shares = deal();
  const auto result = compute(shares);
  leases_.use(shares);
  const auto total = result.seen.global_batch;
  const double scheduled = factor_of(how_.rates, rule_.progress() / how_.schedule_steps);
  rate_ = rule_.advance(total, noise_.observe(result.seen));
  trainer::clip_gradients(parameters_, std::sqrt(result.seen.global_square), file_.training.clip_norm);
  descent_.set_learning_rate(file_.training.learning_rate * scheduled * rate_.learning_rate);
  descent_.step();

  computing_.resize(workers_, 0);
  double slowest = 0;
  double sum = 0;
  for (std::size_t worker = 0; worker < workers_; ++worker) {
    const double own = seconds_of(worker, static_cast<std::uint32_t>(shares[worker]));
    slowest = std::max(slowest, own);
    sum += own;
    computing_[worker] += own;
  }
  if (how_.shares_cores)
    slowest = sum;
  const double took = slowest + how_.exchange_seconds;
  seconds_ += took;
  iterations_ += took;
  loss_ += result.loss;
  correct_ += result.correct;
  window_samples_ += total;
  samples_ += total;
  ++steps_;
  if (++step_ % file_.arbitrator.window_steps == 0)
    close_window();
}

void virtual_training::close_window() {
  const auto noise = noise_.estimate();
  messages::shard_report shard{.window = step_ / file_.arbitrator.window_steps, .generation = 1, .reports = {}};
  shard.expected = static_cast<std::uint32_t>(workers_);
  const auto total = std::accumulate(batches_.begin(), batches_.end(), std::uint64_t{0});
  const double factor = how_.shares_cores ? static_cast<double>(workers_) : 1; // each waits for the cores
  for (std::size_t worker = 0; worker < workers_; ++worker) {
    messages::window_report report{.host = fmt::format("host-{}", worker),
                                   .rank = static_cast<std::uint32_t>(worker),
                                   .generation = 1,
                                   .window = shard.window,
                                   .first_step = window_first_step_,
                                   .batch = batches_[worker],
                                   .decision = key_,
                                   .global_batch = total};
    auto& training = report.training;
    training.steps = static_cast<std::uint32_t>(step_ - window_first_step_);
    training.samples = std::uint64_t{training.steps} * batches_[worker];
    training.accuracy = correct_ / static_cast<double>(window_samples_);
    training.loss = loss_ / static_cast<double>(window_samples_);
    training.iteration_seconds = iterations_ / steps_;
    training.compute_seconds = std::min(factor * computing_[worker] / steps_, training.iteration_seconds);
    training.exchange_seconds = training.iteration_seconds - training.compute_seconds;
    training.gradient_valid = noise.valid && noise.own_valid;
    training.sigma_norm = noise.sigma_norm;
    training.sigma2_norm = noise.sigma2_norm;
    training.noise_scale = noise.noise_scale;
    training.noise_error = noise.noise_error;
    training.learning_rate = rate_.learning_rate * file_.training.learning_rate;
    training.gain = rate_.gain;
    shard.reports.push_back(std::move(report));
  }
  auto verdict = deliberation_.consider(shard);
  decided_ = batches_;
  for (const auto& decision : verdict.decisions) {
    decided_[decision.rank] = decision.batch;
    decided_key_ = decision.key;
  }
  fmt::print("{{\"window\": {}, \"step\": {}, \"samples\": {}, \"seconds\": {:.3f}, \"batch\": {}, \"decided\": {}, "
             "\"planned\": {}, \"noise_scale\": {:.1f}, \"noise_error\": {:.3f}, \"gain\": {:.3f}, \"loss\": {:.4f}, "
             "\"guarded\": {}}}\n",
             shard.window, step_, samples_, seconds_, total,
             std::accumulate(decided_.begin(), decided_.end(), std::uint64_t{0}),
             verdict.window.predicted.planned.total, noise.noise_scale, noise.noise_error, rate_.gain,
             loss_ / static_cast<double>(window_samples_), verdict.window.workers.front().intervention.empty() ? 0 : 1);
  window_first_step_ = step_;
  steps_ = 0;
  iterations_ = loss_ = correct_ = 0;
  window_samples_ = 0;
  computing_.clear();
}

void virtual_training::evaluate() {
  const auto size = test_.size();
  const auto stride = std::max<std::uint64_t>(1, size / how_.evaluate_samples);
  const auto sums = trainer::evaluate(model_, *test_loader_, {0, (size + stride - 1) / stride},
                                      trainer::evaluation_batch, {}, stride);
  fmt::print("{{\"step\": {}, \"samples\": {}, \"seconds\": {:.3f}, \"test_loss\": {:.5f}, \"accuracy\": {:.4f}}}\n",
             step_, samples_, seconds_, sums.loss / static_cast<double>(sums.count),
             sums.correct / static_cast<double>(sums.count));
  std::fflush(stdout);
}

} // namespace
} // namespace dynamix::benchmarks

int main(int argc, char** argv) {
  dynamix::benchmarks::plan how;
  std::string policy_file;
  CLI::App app("One training on a virtual clock");
  app.add_option("--cluster", how.cluster, "cluster file; its hosts are not looked at")->required();
  app.add_option("--samples-per-second", how.samples_per_second, "of each worker")->required()->delimiter(',');
  app.add_option("--fixed-seconds", how.fixed_seconds, "of each worker's step");
  app.add_option("--exchange-seconds", how.exchange_seconds, "of a step");
  app.add_flag("--shared-cores", how.shares_cores, "all workers compute on the same cores");
  app.add_option("--base-batch", how.base_batch, "global batch that the learning rate is for; 0: the initial one");
  using dynamix::benchmarks::schedule;
  const std::map<std::string, schedule> schedules{{"one-cycle", schedule::one_cycle}, {"warm-up", schedule::warm_up}};
  auto* const rates = app.add_option("--schedule", how.rates, "one-cycle, or warm-up and a cosine")
                          ->transform(CLI::CheckedTransformer(schedules));
  auto* const steps = app.add_option("--schedule-steps", how.schedule_steps, "of the base batch, by progress");
  steps->needs(rates)->check(CLI::PositiveNumber);
  rates->needs(steps);
  app.add_option("--evaluate-every-epochs", how.evaluate_every_epochs);
  app.add_option("--policy-file", policy_file, "parameters of a learned policy");
  CLI11_PARSE(app, argc, argv);
  try {
    auto read = dynamix::cluster::read_cluster_file(how.cluster);
    dynamix::benchmarks::require(read.errors.empty() ? "" : to_string(read.errors.front()));
    if (!policy_file.empty()) {
      std::string contents;
      dynamix::benchmarks::require(
          dynamix::storage::read_file(policy_file, dynamix::messages::max_policy_bytes, contents));
      how.parameters.assign(contents.begin(), contents.end());
    }
    dynamix::benchmarks::virtual_training(std::move(read.file), std::move(how)).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "time_to_accuracy: %s\n", error.what());
    return 1;
  }
  return 0;
}
