#include "trainer/training_step.hpp"

#include "trainer/autocast.hpp"
#include "trainer/emulation.hpp"
#include "trainer/loss.hpp"
#include "trainer/out_of_memory.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::trainer {

namespace {

/// Of each of the parameters: the length of its rows, if it is an embedding with sparse gradients; otherwise 0.
std::vector<std::size_t> rows_of_embeddings(torch::nn::Sequential& model,
                                            const std::vector<torch::Tensor>& parameters) {
  std::vector<std::size_t> floats(parameters.size());
  for (const auto& layer : model->modules(false))
    if (const auto* embedding = layer->as<torch::nn::EmbeddingImpl>(); embedding && embedding->options.sparse())
      for (std::size_t i = 0; i < parameters.size(); ++i)
        if (parameters[i].is_same(embedding->weight))
          floats[i] = static_cast<std::size_t>(embedding->options.embedding_dim());
  return floats;
}

torch::Device device_of(const std::vector<torch::Tensor>& parameters) {
  return parameters.empty() ? torch::kCPU : parameters[0].device();
}

sampling_model* as_sampling_model(torch::nn::Sequential& model) {
  return model->size() == 1 ? dynamic_cast<sampling_model*>(model->ptr(0).get()) : nullptr;
}

} // namespace

step_settings step_settings_of(const cluster::training& training) {
  return {.bucket_bytes = std::size_t{training.bucket_kib} * 1024,
          .label_smoothing = training.label_smoothing,
          .micro_batch = training.micro_batch,
          .top_k = training.top_k,
          .precision = training.precision};
}

training_step::training_step(torch::nn::Sequential model, batch_loader& loader, exchange::group& peers, clock& time,
                             const exchange::interruption& stop, step_settings settings)
    : model_(std::move(model)), sampling_(as_sampling_model(model_)), loader_(loader), time_(time), stop_(stop),
      settings_(settings), parameters_(model_->parameters()), on_device_(!device_of(parameters_).is_cpu()),
      reducer_(parameters_, peers, time, settings.bucket_bytes, rows_of_embeddings(model_, parameters_),
               settings.row_columns, settings.top_k, copies_for(device_of(parameters_))) {}

void training_step::begin(std::uint64_t seed, std::span<const std::uint32_t> next) {
  torch::manual_seed(seed);
  if (sampling_ != nullptr)
    sampling_->begin_step(seed);
  next_samples_ = next;
}

step_result training_step::run(std::span<const std::uint32_t> samples, double slowdown, const row_writer& write) {
  step_result result;
  row_source row;
  if (write)
    row = [&] {
      const double computing = part_begun_seconds_ ? time_.now_seconds() - *part_begun_seconds_ : 0;
      return write(result.compute_seconds + computing + emulation_delay_seconds(slowdown, computing),
                   reducer_.is_finite());
    };
  pass(samples, slowdown, result, std::move(row));
  result.gradients = reducer_.finish();
  return result;
}

step_result training_step::run_halved(std::span<const std::uint32_t> samples, double slowdown) {
  step_result result;
  result.halved = true;
  const std::span<const std::uint32_t> halves[] = {samples.first(samples.size() / 2),
                                                   samples.subspan(samples.size() / 2)};
  const auto next = std::exchange(next_samples_, halves[1]);
  pass(halves[0], slowdown, result);
  next_samples_ = next;
  const auto first = reducer_.finish();
  std::vector<torch::Tensor> kept;
  for (const auto& parameter : parameters_)
    kept.push_back(parameter.grad().clone());
  pass(halves[1], slowdown, result);
  const auto second = reducer_.finish();

  const auto total = static_cast<double>(samples.size());
  torch::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto& gradient = parameters_[i].mutable_grad();
    gradient.mul_(halves[1].size() / total).add_(kept[i], halves[0].size() / total);
    result.gradients.square += gradient.to(torch::kFloat64).square().sum().item<double>();
  }
  result.gradients.global_batch = samples.size();
  result.gradients.weighted_squares = first.weighted_squares + second.weighted_squares;
  result.gradients.own_square = result.gradients.square;
  result.gradients.blocked_seconds = first.blocked_seconds + second.blocked_seconds;
  return result;
}

void training_step::pass(std::span<const std::uint32_t> samples, double slowdown, step_result& result, row_source row) {
  reducer_.begin(static_cast<std::uint32_t>(samples.size()), std::move(row));
  const step_result before = result;
  const auto begin = [&] {
    part_begun_seconds_.reset();
    sums_.clear();
    result = before;
  };
  begin();
  while (!samples.empty() && !pass_in_parts(samples, slowdown, result)) {
    reducer_.begin_again();
    begin();
  }
  if (on_device_ && !samples.empty()) {
    reducer_.send(); // until then it computes
    end_part(slowdown, result);
  }
  for (const auto& [loss, correct] : sums_) {
    result.loss += loss.item<double>();
    result.correct += correct.item<double>();
  }
}

/// False when the memory did not hold a part. Then the next ones are half as large.
bool training_step::pass_in_parts(std::span<const std::uint32_t> samples, double slowdown, step_result& result) {
  const auto whole = static_cast<std::uint32_t>(samples.size());
  const auto part = settings_.micro_batch == 0 ? whole : std::min(settings_.micro_batch, whole);
  try {
    for (std::size_t done = 0; done < whole; done += part) {
      const auto samples_now = samples.subspan(done, std::min<std::size_t>(part, whole - done));
      const auto left = samples.subspan(done + samples_now.size());
      reducer_.accumulate(!left.empty());
      const auto then = left.empty() ? next_samples_ : left;
      const auto next_part = settings_.micro_batch == 0 ? then.size() : std::size_t{settings_.micro_batch};
      pass_part(samples_now, then.first(std::min(next_part, then.size())), slowdown, result);
    }
    return true;
  } catch (const std::exception& error) {
    if (!settings_.splits || part == 1 || !is_out_of_memory(error))
      throw;
  }
  settings_.micro_batch = (part + 1) / 2;
  return false;
}

sampled_answers training_step::answer(const torch::Tensor& inputs, const torch::Tensor& labels) {
  const autocast scope(settings_.precision, inputs.device());
  return sampling_ != nullptr ? sampling_->answer(inputs, labels) : sampled_answers{model_->forward(inputs), labels};
}

void training_step::pass_part(std::span<const std::uint32_t> samples, std::span<const std::uint32_t> next,
                              double slowdown, step_result& result) {
  const double start = time_.now_seconds();
  const auto batch = loader_.load(samples);
  loader_.expect(next);
  if (!part_begun_seconds_) { // a device computes the part before while this one is loaded
    part_begun_seconds_ = time_.now_seconds();
    result.data_seconds += *part_begun_seconds_ - start;
  }
  const auto [logits, labels] = answer(batch.inputs, batch.labels);
  const auto loss = loss_sum(logits, labels, settings_.label_smoothing);
  loss.backward();
  // The exchange runs on; what follows costs the step nothing while it does.
  sums_.emplace_back(loss.detach(), correct_sum(logits.detach(), labels));
  if (!on_device_)
    end_part(slowdown, result);
}

void training_step::end_part(double slowdown, step_result& result) {
  const double compute_seconds = time_.now_seconds() - *part_begun_seconds_;
  part_begun_seconds_.reset();
  const double delay_seconds = emulation_delay_seconds(slowdown, compute_seconds);
  sleep_unless_raised(time_, stop_, delay_seconds);
  result.compute_seconds += compute_seconds + delay_seconds;
}

void sleep_unless_raised(clock& time, const exchange::interruption& stop, double seconds) {
  constexpr double slice_seconds = 0.05;
  for (double left = seconds; left > 0; left -= slice_seconds) {
    exchange::throw_if_raised(stop);
    time.sleep_seconds(std::min(left, slice_seconds));
  }
}

void clip_gradients(const std::vector<torch::Tensor>& parameters, double norm, double clip_norm) {
  if (clip_norm <= 0 || norm <= clip_norm)
    return;
  torch::NoGradGuard no_gradient;
  for (const auto& parameter : parameters)
    parameter.grad().mul_(clip_norm / norm);
}

} // namespace dynamix::trainer
