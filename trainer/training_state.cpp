#include "trainer/training_state.hpp"

#include "client/batch_shares.hpp"
#include "trainer/tensor_records.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <numeric>

namespace dynamix::trainer {

namespace {

std::uint64_t samples_in(double epochs, std::uint64_t epoch_samples) {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(epochs * static_cast<double>(epoch_samples)));
}

/// Each so-many-th of `size`, so that at most `most` are taken; 0 is no limit.
std::uint64_t stride_to(std::uint64_t most, std::uint64_t size) {
  return most == 0 ? 1 : std::max<std::uint64_t>(1, (size + most - 1) / most);
}

} // namespace

training_state::training_state(loop_options given, torch::nn::Sequential model_on_device, const dataset& train,
                               const dataset& test, clock& clock)
    : options(std::move(given)), model(std::move(model_on_device)), time(clock),
      train_channels(measure_channels(train)),
      train_loader(train, train_channels, options.device, options.training.loader_threads),
      test_loader(test, train_channels, options.device),
      test_stride(stride_to(options.training.evaluate_samples, test.size())),
      test_samples((test.size() + test_stride - 1) / test_stride),
      wanted_samples(samples_in(options.training.epochs, train.size())), descent(options.training, model->parameters()),
      average(*model, options.training.ema_samples), epoch_samples(train.size()),
      checkpoints(options.checkpoint_directory, options.write_file, options.keep_checkpoints),
      members(options.first_members()) {
  std::iota(members.begin(), members.end(), 0U);
  reached.base_batch = options.base_batch();
  reached.batches.assign(members.size(), options.first_batch == 0 ? options.batch.initial : options.first_batch);
  micro_batch = options.training.micro_batch;
}

checkpoint training_state::capture() const {
  return {.seed = options.seed,
          .step = reached.step,
          .samples = reached.samples,
          .sampler = reached.position,
          .epoch_samples = epoch_samples,
          .learning_rate = reached.rule,
          .noise = reached.noise.state(),
          .batches = reached.batches,
          .members = members,
          .decision = reached.in_force,
          .window = window,
          .elapsed_seconds = elapsed_seconds(),
          .best_accuracy = best_accuracy,
          .seconds_to_target = seconds_to_target,
          .evaluated_samples = evaluated_samples,
          .checkpointed_samples = checkpointed_samples,
          .accuracy = accuracy,
          .stale_evaluations = stale_evaluations,
          .rate = rate,
          .model = model_records(*model),
          .optimizer = descent.state(),
          .average = average.state()};
}

std::string training_state::restore(const checkpoint& state) {
  if (state.seed != options.seed)
    return fmt::format("it belongs to a run with seed {}, this one has seed {}", state.seed, options.seed);
  if (state.epoch_samples != epoch_samples)
    return fmt::format("it was trained on {} samples, the data set has {}", state.epoch_samples, epoch_samples);
  if (auto problem = restore_model(state.model, *model); !problem.empty())
    return problem;
  if (auto problem = descent.restore(state.optimizer); !problem.empty())
    return problem;
  if (auto problem = average.restore(state.average); !problem.empty())
    return problem;
  if (state.sampler.cursor >= epoch_samples)
    return "its place in the data set lies outside an epoch";
  reached.rule = state.learning_rate;
  reached.noise.restore(state.noise);
  reached.step = state.step;
  reached.samples = state.samples;
  reached.position = state.sampler;
  reached.batches = state.batches;
  reached.in_force = state.decision;
  members = state.members;
  window = state.window;
  rate = state.rate;
  evaluated_samples = state.evaluated_samples;
  checkpointed_samples = state.checkpointed_samples;
  accuracy = state.accuracy;
  best_accuracy = state.best_accuracy;
  stale_evaluations = state.stale_evaluations;
  seconds_to_target = state.seconds_to_target;
  step_in_flight = false;
  earlier_seconds_ = state.elapsed_seconds;
  started_seconds_ = time.now_seconds();
  running_ = true;
  return {};
}

void training_state::regroup(const std::vector<std::uint32_t>& ranks) {
  std::vector<std::uint32_t> highest;
  for (const auto rank : ranks)
    highest.push_back(options.highest_by_rank[rank]);
  auto shares = client::share_batches({members, reached.batches}, ranks, options.batch.lowest, highest);
  if (ranks != members || shares != reached.batches)
    reached.in_force = {}; // no decision is behind these
  reached.batches = std::move(shares);
  members = ranks;
}

double training_state::elapsed_seconds() const {
  return earlier_seconds_ + (running_ ? time.now_seconds() - started_seconds_ : 0);
}

bool training_state::is_due(double every_epochs, std::uint64_t done_samples) const {
  const double interval = std::max(1.0, every_epochs * static_cast<double>(epoch_samples));
  return std::floor(static_cast<double>(reached.samples) / interval) >
         std::floor(static_cast<double>(done_samples) / interval);
}

} // namespace dynamix::trainer
