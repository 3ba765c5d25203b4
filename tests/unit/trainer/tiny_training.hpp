#pragma once

/// A training problem small enough to run in a moment, and observers that play a schedule of decisions.

#include "storage/splitmix64.hpp"
#include "tests/unit/exchange/ranks.hpp"
#include "tests/unit/seeds.hpp"
#include "trainer/tensor_records.hpp"
#include "trainer/training_loop.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/torch.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace dynamix::trainer {

/// Images of 1x4x4 in three classes: the brightest row of each says which, with noise.
inline dataset tiny_dataset(std::uint64_t samples, std::uint64_t seed) {
  dataset made;
  made.channels = 1;
  made.height = made.width = 4;
  made.classes = 3;
  storage::splitmix64 random(test_seed(seed));
  for (std::uint64_t sample = 0; sample < samples; ++sample) {
    const auto label = random.below(made.classes);
    for (std::uint32_t pixel = 0; pixel < made.image_bytes(); ++pixel)
      made.images.push_back(static_cast<std::uint8_t>((pixel / 4 == label ? 90 : 0) + random.below(160)));
    made.labels.push_back(static_cast<std::uint8_t>(label));
  }
  return made;
}

/// The same bits whichever thread asks: the layers' own initialisation draws from the process's generator, which
/// another rank's step may seed meanwhile.
inline torch::nn::Sequential tiny_model(double dropout = 0) {
  torch::nn::Sequential layers(torch::nn::Flatten(), torch::nn::Linear(16, 24), torch::nn::ReLU(),
                               torch::nn::Dropout(dropout), torch::nn::Linear(24, 3));
  const torch::NoGradGuard no_gradients;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(test_seed(11));
  for (auto& parameter : layers->parameters())
    parameter.uniform_(-0.25, 0.25, generator);
  return layers;
}

inline loop_options tiny_options() {
  loop_options options;
  options.training.rule = cluster::learning_rate_rule::constant;
  options.training.learning_rate = 0.02;
  options.training.epochs = 1;
  options.training.bucket_kib = 1;
  options.batch = {.initial = 8, .lowest = 0, .highest = 1024};
  options.window_steps = 5;
  return options;
}

/// One rank's decisions: for each window that has closed, the ones that arrive then. Window 0 arrives before training.
using schedule = std::map<std::uint64_t, std::vector<messages::decision>>;

class scripted_observer final : public observer {
public:
  scripted_observer(decision_slot& slot, schedule arrivals) : slot_(slot), arrivals_(std::move(arrivals)) {}

  void started() override { arrive(0); }
  void window_closed(const window_record& record) override {
    windows.push_back(record);
    arrive(record.window);
  }
  void evaluated(const messages::evaluation_report& report) override { evaluations.push_back(report); }
  void checkpoint_written(const std::string& path, std::uint64_t step) override { checkpoints[step] = path; }
  void checkpoint_failed(const std::string& problem, std::uint64_t step) override {
    failed_checkpoints[step] = problem;
  }
  void step_completed(std::uint64_t) override {}
  void step_dropped(const std::string& reason) override { dropped.push_back(reason); }
  step_request request() override {
    const bool stops = stop_after_windows > 0 && windows.size() >= stop_after_windows;
    return stops ? step_request::stop : step_request::none;
  }

  std::size_t stop_after_windows = 0; ///< 0: never
  std::vector<window_record> windows;
  std::vector<messages::evaluation_report> evaluations;
  std::map<std::uint64_t, std::string> checkpoints;
  std::map<std::uint64_t, std::string> failed_checkpoints;
  std::vector<std::string> dropped;

private:
  void arrive(std::uint64_t window) {
    for (const auto& decision : arrivals_[window])
      slot_.offer(decision);
  }

  decision_slot& slot_;
  schedule arrivals_;
};

/// What one rank's training left behind.
struct rank_result {
  generation_end end;
  std::uint64_t steps = 0;
  std::uint64_t samples = 0;
  std::uint64_t epochs = 0;
  double final_accuracy = 0;
  double seconds_to_target = -1;
  std::uint64_t parameter_checksum = 0;
  std::vector<window_record> windows;
  std::vector<messages::evaluation_report> evaluations;
  std::map<std::uint64_t, std::string> checkpoints;
  std::map<std::uint64_t, std::string> failed_checkpoints;
  std::vector<std::string> dropped;
  messages::decision_counts decisions;
  std::vector<torch::Tensor> parameters;
};

struct rank_options {
  loop_options loop = tiny_options();
  schedule arrivals;
  std::size_t stop_after_windows = 0;
  std::string resume_from;
  double dropout = 0;
  std::set<std::uint64_t> harmful_steps = {}; ///< whose gradient is no number
};

/// The options of a cluster file of so many workers.
inline loop_options for_workers(loop_options options, std::uint32_t workers) {
  options.highest_by_rank.assign(workers, options.batch.highest);
  return options;
}

inline rank_result train_rank(const rank_options& options, const dataset& train, const dataset& test,
                              exchange::group& peers) {
  steady_clock time;
  const exchange::interruption never;
  const membership place{{.rank = peers.position(), .members = exchange::all_ranks(peers.size())}};
  decision_slot slot(place.rank, options.loop.batch.lowest, options.loop.batch.highest);
  slot.enter_generation(1);
  scripted_observer watcher(slot, options.arrivals);
  watcher.stop_after_windows = options.stop_after_windows;
  auto model = tiny_model(options.dropout);
  if (!options.harmful_steps.empty())
    model->parameters().back().register_hook(
        [&options, step = std::make_shared<std::uint64_t>(0)](const torch::Tensor& gradient) {
          const bool harmed = options.harmful_steps.contains((*step)++);
          return harmed ? gradient * std::numeric_limits<double>::quiet_NaN() : gradient;
        });
  training_state state(for_workers(options.loop, peers.size()), model, train, test, time);
  checkpoint start = state.capture();
  if (!options.resume_from.empty())
    if (const auto problem = read_checkpoint(options.resume_from, start); !problem.empty())
      throw std::runtime_error(problem);
  if (const auto problem = state.restore(start); !problem.empty())
    throw std::runtime_error(problem);
  state.regroup(place.members);
  rank_result result;
  result.end = training_loop(state, place, peers, slot, watcher, never).run();
  result.steps = state.reached.step;
  result.samples = state.reached.samples;
  result.epochs = state.reached.position.epoch;
  result.final_accuracy = state.accuracy;
  result.seconds_to_target = state.seconds_to_target;
  result.parameter_checksum = model_checksum(*model);
  result.windows = watcher.windows;
  result.evaluations = watcher.evaluations;
  result.checkpoints = watcher.checkpoints;
  result.failed_checkpoints = watcher.failed_checkpoints;
  result.dropped = watcher.dropped;
  result.decisions = slot.close();
  for (const auto& parameter : model->parameters())
    result.parameters.push_back(parameter.detach().clone());
  return result;
}

inline messages::decision decide(std::uint64_t window, std::uint32_t rank, std::uint32_t batch,
                                 std::uint64_t first_step) {
  return {.key = {1, window}, .generation = 1, .rank = rank, .batch = batch, .first_step = first_step};
}

inline std::vector<rank_result> train_ranks(const std::vector<rank_options>& options, const dataset& train,
                                            const dataset& test) {
  std::vector<rank_result> results(options.size());
  exchange::run_ranks(static_cast<std::uint32_t>(options.size()), [&](std::uint32_t rank, exchange::group& peers) {
    results[rank] = train_rank(options[rank], train, test, peers);
  });
  return results;
}

inline bool same_bits(const rank_result& left, const rank_result& right) {
  for (std::size_t i = 0; i < left.parameters.size(); ++i)
    if (!torch::equal(left.parameters[i], right.parameters[i]))
      return false;
  return left.parameter_checksum == right.parameter_checksum;
}

inline double largest_difference(const rank_result& left, const rank_result& right) {
  double largest = 0;
  for (std::size_t i = 0; i < left.parameters.size(); ++i)
    largest = std::max(largest, (left.parameters[i] - right.parameters[i]).abs().max().item<double>());
  return largest;
}

} // namespace dynamix::trainer
