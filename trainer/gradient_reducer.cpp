#include "trainer/gradient_reducer.hpp"

#include <array>
#include <cmath>
#include <stdexcept>

namespace dynamix::trainer {

namespace {

constexpr std::int64_t trailer = 2; ///< elements of a bucket behind the gradients

/// Divides in place and returns the sum of squares of the result. Eight running sums hide the latency of an addition;
/// their order depends on nothing but the length.
template <typename Scalar>
double divide_and_square(Scalar* values, std::int64_t count, Scalar divisor) {
  std::array<double, 8> sums{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (std::int64_t lane = 0; lane < 8; ++lane) {
      const Scalar value = values[i + lane] / divisor;
      values[i + lane] = value;
      sums[lane] += static_cast<double>(value) * static_cast<double>(value);
    }
  }
  for (; i < count; ++i) {
    values[i] /= divisor;
    sums[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

template <typename Scalar>
double sum_of_squares(const Scalar* values, std::int64_t count) {
  std::array<double, 8> sums{};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (std::int64_t lane = 0; lane < 8; ++lane)
      sums[lane] += static_cast<double>(values[i + lane]) * static_cast<double>(values[i + lane]);
  for (; i < count; ++i)
    sums[0] += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// Calls `action` with a pointer of the tensor's element type, float or double.
template <typename Action>
auto with_elements(const torch::Tensor& tensor, Action&& action) {
  if (tensor.scalar_type() == torch::kFloat64)
    return action(tensor.data_ptr<double>());
  return action(tensor.data_ptr<float>());
}

} // namespace

gradient_reducer::gradient_reducer(std::vector<torch::Tensor> parameters, exchange& peers, const clock& time,
                                   std::size_t bucket_bytes)
    : parameters_(std::move(parameters)), views_(parameters_.size()), bucket_of_(parameters_.size()),
      filled_(parameters_.size()), peers_(peers), time_(time) {
  if (parameters_.empty())
    throw std::invalid_argument("a model without parameters cannot be trained");
  const auto type = parameters_[0].scalar_type();
  for (const auto& parameter : parameters_)
    if (parameter.scalar_type() != type || (type != torch::kFloat32 && type != torch::kFloat64))
      throw std::invalid_argument("all parameters of a model must be float32, or all float64");
  pack(bucket_bytes);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    hooks_.push_back(parameters_[i].register_hook([this, i](torch::Tensor gradient) { accept(i, gradient); }));
}

gradient_reducer::~gradient_reducer() {
  for (std::size_t i = 0; i < hooks_.size(); ++i) {
    parameters_[i].remove_hook(hooks_[i]);
    // A view into a bucket, into which a reduction that was given up may still write.
    parameters_[i].mutable_grad().reset();
  }
}

void gradient_reducer::pack(std::size_t bucket_bytes) {
  std::vector<std::size_t> members;
  std::size_t used_bytes = 0;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    const auto bytes = parameters_[i].nbytes();
    if (!members.empty() && used_bytes + bytes > bucket_bytes) {
      add_bucket(members);
      members.clear();
      used_bytes = 0;
    }
    members.push_back(i);
    used_bytes += bytes;
  }
  add_bucket(members);
}

void gradient_reducer::add_bucket(const std::vector<std::size_t>& members) {
  std::int64_t count = 0;
  for (const auto i : members)
    count += parameters_[i].numel();
  auto options = torch::TensorOptions().dtype(parameters_[0].scalar_type()).device(torch::kCPU);
  bucket added{.flat = torch::zeros({count + trailer}, options), .members = members};
  std::int64_t offset = 0;
  for (const auto i : members) {
    views_[i] = added.flat.narrow(0, offset, parameters_[i].numel()).view(parameters_[i].sizes());
    bucket_of_[i] = buckets_.size();
    offset += parameters_[i].numel();
  }
  buckets_.push_back(std::move(added));
}

void gradient_reducer::begin(std::uint32_t batch) {
  batch_ = batch;
  next_launch_ = 0;
  own_sum_square_ = 0;
  active_ = true;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // Autograd would add to a gradient that is still there, behind the exchange's back.
    parameters_[i].mutable_grad().reset();
    filled_[i] = false;
  }
  for (auto& bucket : buckets_)
    bucket.missing = bucket.members.size();
}

void gradient_reducer::accept(std::size_t parameter, const torch::Tensor& gradient) {
  if (!active_ || filled_[parameter])
    return;
  views_[parameter].copy_(gradient);
  filled_[parameter] = true;
  if (--buckets_[bucket_of_[parameter]].missing == 0)
    launch_ready();
}

void gradient_reducer::launch_ready() {
  while (next_launch_ < buckets_.size() && buckets_[next_launch_].missing == 0)
    launch(buckets_[next_launch_++]);
}

void gradient_reducer::launch(bucket& full) {
  with_elements(full.flat, [&](auto* values) {
    using scalar = std::remove_pointer_t<decltype(values)>;
    const auto count = full.flat.numel() - trailer;
    const double square = batch_ == 0 ? 0 : sum_of_squares(values, count);
    values[count] = static_cast<scalar>(batch_);
    values[count + 1] = batch_ == 0 ? scalar{0} : static_cast<scalar>(square / batch_);
    own_sum_square_ += square;
  });
  full.launched_seconds = time_.now_seconds();
  full.pending = peers_.all_reduce_sum(full.flat);
}

reduction gradient_reducer::finish() {
  torch::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (filled_[i])
      continue;
    views_[i].zero_();
    --buckets_[bucket_of_[i]].missing;
  }
  launch_ready();
  active_ = false;

  reduction result;
  if (batch_ > 0)
    result.own_square = own_sum_square_ / (static_cast<double>(batch_) * batch_);
  for (auto& bucket : buckets_)
    await(bucket, result);
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].mutable_grad() = views_[i].to(parameters_[i].device());
  return result;
}

void gradient_reducer::await(bucket& sent, reduction& result) {
  const double start = time_.now_seconds();
  sent.pending->wait();
  sent.pending.reset();
  const double end = time_.now_seconds();
  result.blocked_seconds += end - start;
  result.collectives.push_back(
      {.begin_seconds = sent.launched_seconds, .end_seconds = end, .bytes = sent.flat.nbytes()});
  with_elements(sent.flat, [&](auto* values) {
    const auto count = sent.flat.numel() - trailer;
    const auto global_batch = values[count];
    if (!(global_batch >= 1))
      throw std::logic_error("a step without a sample on any worker");
    result.global_batch = static_cast<std::uint64_t>(std::llround(global_batch));
    result.weighted_squares += static_cast<double>(values[count + 1]);
    result.square += divide_and_square(values, count, global_batch);
  });
}

} // namespace dynamix::trainer
