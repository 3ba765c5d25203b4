#pragma once

/// Workers as threads that train in one generation after another, by a script, and a record of every sample that they
/// trained on.

#include "tiny_training.hpp"
#include "trainer/state_transfer.hpp"

#include <functional>
#include <limits>
#include <set>

namespace dynamix::trainer {

/// The first layer of a model: notes which images come by in training, in which step.
class recorder : public torch::nn::Module {
public:
  torch::Tensor forward(const torch::Tensor& images) {
    if (is_training())
      seen.emplace_back(state->reached.step, images.clone());
    return images;
  }
  const training_state* state = nullptr;
  std::vector<std::pair<std::uint64_t, torch::Tensor>> seen;
};

/// Tells images apart by their bytes.
class image_index {
public:
  explicit image_index(const dataset& data) {
    batch_loader loader(data, measure_channels(data));
    const auto images = loader.load(index_range{0, data.size()}).inputs;
    for (std::int64_t sample = 0; sample < images.size(0); ++sample)
      samples_[key_of(images[sample])] = static_cast<std::uint32_t>(sample);
  }
  std::size_t size() const { return samples_.size(); }
  std::uint32_t sample_of(const torch::Tensor& image) const { return samples_.at(key_of(image)); }

private:
  static std::string key_of(const torch::Tensor& image) {
    const auto whole = image.contiguous();
    return {static_cast<const char*>(whole.data_ptr()), whole.nbytes()};
  }
  std::map<std::string, std::uint32_t> samples_;
};

/// A worker that died without a word; its thread ends with this.
struct died : std::runtime_error {
  died() : std::runtime_error("died") {}
};

/// One worker's part in one generation, and what it saw.
class generation_observer final : public observer {
public:
  void started() override {}
  void window_closed(const window_record& record) override { windows.push_back(record); }
  void step_completed(std::uint64_t step) override {
    newest_step = step;
    if (step == dies_after_step)
      throw died();
    if (step == interrupted_after_step)
      stop.raise("interrupted");
  }
  void evaluated(const messages::evaluation_report& report) override {
    evaluations.push_back(report);
    if (dies_when_evaluated)
      throw died();
  }
  void checkpoint_written(const std::string&, std::uint64_t step) override { checkpoints.push_back(step); }
  void checkpoint_failed(const std::string&, std::uint64_t) override {}
  step_request request() override { return newest_step >= regroups_after_step ? wanted : step_request::none; }

  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t dies_after_step = never;
  std::uint64_t interrupted_after_step = never;
  std::uint64_t regroups_after_step = never;
  step_request wanted = step_request::regroup;
  bool dies_when_evaluated = false;

  exchange::interruption stop;
  std::uint64_t newest_step = 0;
  std::vector<window_record> windows;
  std::vector<messages::evaluation_report> evaluations;
  std::vector<std::uint64_t> checkpoints;
};

/// One process's life.
struct elastic_worker {
  elastic_worker(std::uint32_t rank_in_file, const loop_options& options, const dataset& train, const dataset& test)
      : rank(rank_in_file), log(std::make_shared<recorder>()), state(options, build(), train, test, time),
        slot(rank, options.batch.lowest, options.batch.highest) {
    log->state = &state;
  }

  torch::nn::Sequential build() {
    const auto layers = tiny_model();
    torch::nn::Sequential model;
    model->push_back(log);
    for (const auto& layer : *layers)
      model->push_back(layer);
    return model;
  }

  std::uint32_t rank;
  steady_clock time;
  std::shared_ptr<recorder> log;
  training_state state;
  decision_slot slot;
  bool known = false;
};

class generations {
public:
  generations(loop_options options, std::uint32_t workers, std::uint64_t samples)
      : train(tiny_dataset(samples, 31)), test(tiny_dataset(40, 32)),
        options_(for_workers(std::move(options), workers)), index_(train) {
    if (index_.size() != samples)
      throw std::logic_error("two samples look the same");
  }

  using observers = std::map<std::uint32_t, generation_observer>;
  /// Each member's end by rank; nothing for one that died, whose state is gone.
  using ends = std::map<std::uint32_t, generation_end>;

  /// Runs a generation to its end. The members without a state are new ones.
  ends run(const std::vector<std::uint32_t>& members, observers& watchers) {
    ++generation_;
    membership place{{.members = members}, generation_, best_of(members)};
    place.store_prefix = "g" + std::to_string(generation_);
    started_at_[generation_] = workers_.contains(place.source) ? workers_.at(place.source)->state.reached.step : 0;
    sources.push_back(place.source);
    ends result;
    std::vector<std::jthread> threads;
    for (const auto rank : members) {
      if (!workers_.contains(rank))
        workers_[rank] = std::make_unique<elastic_worker>(rank, options_, train, test);
      auto& watcher = watchers[rank];
      auto& end = result[rank];
      place.rank = rank;
      threads.emplace_back(
          [this, place, &watcher, &end, &worker = *workers_[rank]] { end = train_as(place, worker, watcher); });
    }
    threads.clear();
    for (const auto rank : members) {
      note_samples(*workers_[rank]);
      if (result[rank].reason != "died")
        continue;
      workers_.erase(rank);
      result.erase(rank);
    }
    return result;
  }
  ends run(const std::vector<std::uint32_t>& members) {
    observers watchers;
    return run(members, watchers);
  }

  elastic_worker& worker(std::uint32_t rank) { return *workers_.at(rank); }
  bool alive(std::uint32_t rank) const { return workers_.contains(rank); }

  /// The samples of every step that is part of the state that `rank` has now: of a step that two generations ran, the
  /// later one's are.
  std::vector<std::vector<std::uint32_t>> samples_by_step(std::uint32_t rank) {
    std::vector<std::vector<std::uint32_t>> steps;
    for (std::uint64_t step = 0; step < worker(rank).state.reached.step; ++step) {
      std::uint64_t ran = 0;
      for (const auto& [generation, first_step] : started_at_)
        if (first_step <= step)
          ran = generation;
      steps.push_back(samples_.at({ran, step}));
    }
    return steps;
  }

  const dataset train;
  const dataset test;
  std::vector<std::uint32_t> sources; ///< of all generations

private:
  std::uint32_t best_of(const std::vector<std::uint32_t>& members) const {
    auto best = members.front();
    const auto steps = [this](std::uint32_t rank) {
      return workers_.contains(rank) && workers_.at(rank)->known ? workers_.at(rank)->state.reached.step + 1 : 0;
    };
    for (const auto rank : members)
      if (steps(rank) > steps(best))
        best = rank;
    return best;
  }

  generation_end train_as(const membership& place, elastic_worker& worker, generation_observer& watcher) {
    worker.slot.enter_generation(place.generation);
    std::unique_ptr<exchange::group> peers;
    try {
      peers = exchange::join(place, meeting_, watcher.stop);
      const auto problem = take_state_of_source(worker.state, place, *peers, encode(worker.state.capture()));
      if (!problem.empty())
        return {ending::failed, problem};
      worker.known = true;
      auto end = training_loop(worker.state, place, *peers, worker.slot, watcher, watcher.stop).run();
      peers->leave();
      return end;
    } catch (const exchange::error& error) {
      return {ending::lost, error.what()};
    } catch (const std::exception& error) {
      return {ending::failed, error.what()};
    }
  }

  void note_samples(elastic_worker& worker) {
    for (const auto& [step, images] : worker.log->seen)
      for (std::int64_t row = 0; row < images.size(0); ++row)
        samples_[{generation_, step}].push_back(index_.sample_of(images[row]));
    worker.log->seen.clear();
  }

  loop_options options_;
  image_index index_;
  exchange::memory_store meeting_;
  std::uint64_t generation_ = 0;
  std::map<std::uint32_t, std::unique_ptr<elastic_worker>> workers_;
  std::map<std::uint64_t, std::uint64_t> started_at_;                                     ///< by generation
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::vector<std::uint32_t>> samples_; ///< by generation and step
};

} // namespace dynamix::trainer
