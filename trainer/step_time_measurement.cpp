#include "trainer/step_time_measurement.hpp"

#include "exchange/group.hpp"
#include "storage/splitmix64.hpp"
#include "trainer/batch_loader.hpp"
#include "trainer/compute_device.hpp"
#include "trainer/compute_threads.hpp"
#include "trainer/evaluation.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/out_of_memory.hpp"
#include "trainer/script_model.hpp"
#include "trainer/training_step.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <set>

namespace dynamix::trainer {
namespace {

constexpr int rounds = 5;

class stepper {
public:
  stepper(const step_time_request& request, const dataset& data, clock& time)
      : time_(time), device_(device_for(request.training.device)), model_(make_model(request, data, device_)),
        loader_(data, measure_channels(data), device_), peers_(exchange::make_silent_group(request.workers)),
        step_(model_, loader_, *peers_, time_, never_, settings_of(request.training)),
        optimizer_(request.training, step_.parameters()), random_(request.seed),
        data_size_(static_cast<std::uint32_t>(data.size())), evaluation_batch_(evaluation_batch_of(request.training)),
        precision_(request.training.precision) {
    optimizer_.set_learning_rate(request.training.learning_rate);
  }

  bool cuda() const { return device_.is_cuda(); }

  /// Seconds of one step.
  double run(std::uint32_t batch) {
    samples_.resize(batch);
    for (auto& sample : samples_)
      sample = random_.below(data_size_);
    const double start = time_.now_seconds();
    step_.run(samples_, 1.0);
    optimizer_.step();
    if (cuda())
      torch::cuda::synchronize();
    return time_.now_seconds() - start;
  }

  /// Seconds of a sample in an evaluation.
  double evaluate() {
    const auto samples = std::min(2 * evaluation_batch_, data_size_);
    const double start = time_.now_seconds();
    trainer::evaluate(model_, loader_, {0, samples}, evaluation_batch_, {}, 1, precision_);
    return (time_.now_seconds() - start) / samples;
  }

private:
  /// A batch that the memory does not hold is to be seen, not split.
  static step_settings settings_of(const cluster::training& training) {
    auto settings = step_settings_of(training);
    settings.splits = false;
    return settings;
  }
  static torch::nn::Sequential make_model(const step_time_request& request, const dataset_shape& shape,
                                          torch::Device device) {
    auto options = options_of(request.training, request.seed);
    options.images = shape;
    auto model = build_model(options);
    model->to(device);
    return model;
  }

  clock& time_;
  torch::Device device_;
  torch::nn::Sequential model_;
  batch_loader loader_;
  std::unique_ptr<exchange::group> peers_;
  exchange::interruption never_;
  training_step step_;
  optimizer optimizer_;
  storage::splitmix64 random_;
  std::uint32_t data_size_;
  std::uint32_t evaluation_batch_; ///< at once
  cluster::precision_kind precision_;
  std::vector<std::uint32_t> samples_;
};

/// One batch size and the steps that it has been measured in.
struct series {
  std::uint32_t batch;
  std::vector<double> seconds;
};

/// One step to get used to the batch size, then as many as fit into `budget_seconds`, at least one. False when the
/// memory does not hold it.
bool visit(stepper& machine, series& at, double budget_seconds) {
  try {
    machine.run(at.batch);
    for (double spent = 0; spent < budget_seconds;) {
      at.seconds.push_back(machine.run(at.batch));
      spent += at.seconds.back();
    }
    return true;
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error))
      throw;
    return false;
  }
}

double median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void measure(stepper& machine, const step_time_request& request,
             const std::function<void(const std::string&)>& progress, step_time_measurement& result) {
  std::vector<series> all;
  bool fits = true;
  for (const auto batch : std::set(request.batches.begin(), request.batches.end())) {
    progress("warm-up, batch " + std::to_string(batch));
    series next{.batch = batch};
    fits = visit(machine, next, 0);
    if (!fits)
      break;
    all.push_back(std::move(next));
  }
  machine.evaluate();
  std::vector<double> evaluations;
  for (int round = 0; round < rounds; ++round) {
    evaluations.push_back(machine.evaluate());
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t place = round % 2 == 0 ? i : all.size() - 1 - i;
      progress("round " + std::to_string(round + 1) + " of " + std::to_string(rounds) + ", batch " +
               std::to_string(all[place].batch));
      if (visit(machine, all[place], request.seconds_per_batch / rounds))
        continue;
      all.resize(place); // what fitted in the warm-up need not fit beside what others have left in the memory
      fits = false;
    }
  }
  for (auto& [batch, seconds] : all)
    result.steps.push_back({.batch = batch, .steps = seconds.size(), .seconds = median(seconds)});
  result.evaluation_seconds = median(evaluations);
  if (!fits && !all.empty())
    result.batch_highest = all.back().batch;
  if (all.empty())
    result.problem = "not even the smallest batch size fits the memory";
}

} // namespace

step_time_measurement measure_step_times(const step_time_request& request, clock& time,
                                         const std::function<void(const std::string&)>& progress) {
  step_time_measurement result;
  result.problem = check_device(request.training.device);
  if (result.problem.empty())
    result.problem = check_model_fits(request.training);
  if (result.problem.empty() && request.training.model == cluster::model_kind::script)
    result.problem = check_script(options_of(request.training, request.seed));
  dataset data;
  if (result.problem.empty())
    result.problem = load_dataset(request.training, dataset_split::train, data);
  if (!result.problem.empty())
    return result;
  set_compute_threads(static_cast<int>(request.training.threads));
  try {
    stepper machine(request, data, time);
    result.cuda = machine.cuda();
    measure(machine, request, progress, result);
  } catch (const c10::Error& error) {
    result.problem = error.what_without_backtrace();
  }
  return result;
}

} // namespace dynamix::trainer
