#include "trainer/gradient_reducer.hpp"

#include "exchange/item_bits.hpp"
#include "exchange/row_bucket.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <utility>

namespace dynamix::trainer {

namespace {

// What rides along with a bucket's gradients.
constexpr std::size_t batch_sum = 0;           ///< of b_i
constexpr std::size_t weighted_square_sum = 1; ///< of the bucket's part of |b_i g_i|^2 / b_i
constexpr std::size_t sum_count = 2;

/// Eight running sums hide the latency of an addition.
constexpr std::size_t lanes = 8;
using lane_sums = std::array<double, lanes>;

/// Adds value_at(i)^2 for i < count, each to the sum of its lane. What is left of a last eight goes to the first.
template <typename ValueAt>
void add_squares(lane_sums& sums, std::size_t count, ValueAt value_at) {
  std::size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      const auto value = static_cast<double>(value_at(i + lane));
      sums[lane] += value * value;
    }
  }
  for (; i < count; ++i) {
    const auto value = static_cast<double>(value_at(i));
    sums[0] += value * value;
  }
}

/// The sum of value_at(i)^2 over a bucket's gradients: over all, or over the rows that were touched. The order follows
/// from nothing but which they are, and rows of zeros would change no bit of it where their length is a multiple of
/// eight.
template <typename ValueAt>
double sum_of_squares(exchange::bucket& of, std::size_t row_floats, std::size_t count, ValueAt value_at) {
  lane_sums sums{};
  const auto* rows = of.touched();
  if (rows == nullptr)
    add_squares(sums, count, value_at);
  else if (row_floats % lanes != 0)
    add_squares(sums, rows->size() * row_floats, [&](std::size_t i) -> decltype(auto) {
      return value_at((*rows)[i / row_floats] * row_floats + i % row_floats);
    });
  else // the same order without a division a number
    for (const std::size_t row : *rows)
      add_squares(sums, row_floats, [&](std::size_t i) -> decltype(auto) { return value_at(row * row_floats + i); });
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// Whoever holds a view keeps the bucket, into which a reduction that was given up may still write.
torch::Tensor flat_view(const std::shared_ptr<exchange::bucket>& sum, std::int64_t count, torch::ScalarType type,
                        bool pinned) {
  struct memory {
    std::shared_ptr<exchange::bucket> bucket;
    std::optional<pinned_memory> pinned;
  };
  const auto kept = std::make_shared<memory>();
  kept->bucket = sum;
  return std::visit(
      [&](auto gradients) {
        if (pinned)
          kept->pinned.emplace(gradients.data(), gradients.size_bytes());
        return torch::from_blob(
            gradients.data(), {count}, [kept](void*) {}, type);
      },
      sum->gradients());
}

} // namespace

gradient_reducer::gradient_reducer(std::vector<torch::Tensor> parameters, exchange::group& peers, const clock& time,
                                   std::size_t bucket_bytes, std::vector<std::size_t> row_floats,
                                   std::size_t row_columns, double top_k, std::unique_ptr<device_copies> copies)
    : parameters_(std::move(parameters)), views_(parameters_.size()), row_floats_(std::move(row_floats)),
      bucket_of_(parameters_.size()), filled_(parameters_.size()), peers_(peers), time_(time),
      row_columns_(row_columns), top_k_(peers.size() > 1 ? top_k : 0), copies_(std::move(copies)) {
  if (parameters_.empty())
    throw std::invalid_argument("a model without parameters cannot be trained");
  const auto type = parameters_[0].scalar_type();
  for (const auto& parameter : parameters_)
    if (parameter.scalar_type() != type || (type != torch::kFloat32 && type != torch::kFloat64))
      throw std::invalid_argument("all parameters of a model must be float32, or all float64");
  row_floats_.resize(parameters_.size());
  if (type == torch::kFloat64)
    std::ranges::fill(row_floats_, 0);
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
  const std::size_t row = top_k_ > 0 && parameters_[0].scalar_type() == torch::kFloat32 ? 1 : 0;
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (row_floats_[i] != 0)
      continue;
    const auto bytes = parameters_[i].nbytes();
    if (!members.empty() && used_bytes + bytes > bucket_bytes) {
      add_bucket(members, row);
      members.clear();
      used_bytes = 0;
    }
    members.push_back(i);
    used_bytes += bytes;
  }
  if (row != 0 && !members.empty())
    add_bucket(std::exchange(members, {}), row);
  if (!members.empty() || row_columns_ > 0) {
    row_bucket_ = buckets_.size();
    add_bucket(members, 0, row_columns_);
  }
  for (const auto floats : std::set(row_floats_.begin(), row_floats_.end())) {
    if (floats == 0)
      continue;
    members.clear();
    for (std::size_t i = parameters_.size(); i-- > 0;)
      if (row_floats_[i] == floats)
        members.push_back(i);
    add_bucket(members, floats);
  }
}

void gradient_reducer::add_bucket(const std::vector<std::size_t>& members, std::size_t row_floats,
                                  std::size_t columns) {
  const bool dense = members.empty() || row_floats_[members[0]] == 0;
  std::int64_t count = 0;
  for (const auto i : members)
    count += parameters_[i].numel();
  const auto type = parameters_[0].scalar_type();
  const auto floats = static_cast<std::size_t>(count);
  const auto element = type == torch::kFloat64 ? exchange::element::float64 : exchange::element::float32;
  bucket added{.sum = row_floats != 0 ? peers_.make_sparse_bucket(floats / row_floats, row_floats, sum_count)
                      : columns > 0   ? exchange::make_row_bucket(peers_, element, floats, sum_count, columns)
                                      : peers_.make_bucket(element, floats, sum_count),
               .members = members,
               .floats = floats,
               .row_floats = row_floats};
  if (row_floats != 0 && dense) {
    if (added.sum->touched() != nullptr)
      added.rest.resize(floats);
    else
      added.row_floats = 0; // it is sent whole, so thinning it would only lose
  }
  auto flat = flat_view(added.sum, count, type, copies_ != nullptr);
  if (copies_ != nullptr && dense) {
    added.host = flat;
    flat = added.device = torch::empty({count}, torch::TensorOptions(type).device(copies_->device()));
  }
  std::int64_t offset = 0;
  for (const auto i : members) {
    views_[i] = flat.narrow(0, offset, parameters_[i].numel()).view(parameters_[i].sizes());
    bucket_of_[i] = buckets_.size();
    offset += parameters_[i].numel();
  }
  buckets_.push_back(std::move(added));
}

void gradient_reducer::begin(std::uint32_t batch, row_source row) {
  batch_ = batch;
  row_ = std::move(row);
  next_ = 0;
  sent_ = false;
  own_sum_square_ = 0;
  active_ = true;
  accumulating_ = false;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // Autograd would add to a gradient that is still there, behind the exchange's back.
    parameters_[i].mutable_grad().reset();
    filled_[i] = false;
  }
  for (auto& bucket : buckets_) {
    bucket.missing = bucket.members.size();
    if (bucket.sum->touched() != nullptr && !bucket.device.defined()) // else it is copied over
      clear_rows(bucket);
  }
}

void gradient_reducer::begin_again() {
  accumulating_ = false;
  for (auto& parameter : parameters_)
    parameter.mutable_grad().reset();
}

void gradient_reducer::clear_rows(bucket& sparse) {
  const auto values = std::get<std::span<float>>(sparse.sum->gradients());
  for (const auto row : *sparse.sum->touched())
    std::ranges::fill(values.subspan(row * sparse.row_floats, sparse.row_floats), 0.0F);
  sparse.sum->touched()->clear();
}

/// Takes over the rows that a gradient touches, and notes them where the exchange asks for them.
void gradient_reducer::fill_rows(bucket& sparse, std::size_t parameter, const torch::Tensor& gradient) {
  auto* touched = sparse.sum->touched();
  const auto view = views_[parameter].view({-1, static_cast<std::int64_t>(sparse.row_floats)});
  const auto all = std::get<std::span<float>>(sparse.sum->gradients());
  const std::span own(view.data_ptr<float>(), static_cast<std::size_t>(view.numel()));
  const auto first_row = static_cast<std::size_t>(own.data() - all.data()) / sparse.row_floats;
  std::vector<std::uint32_t> rows;
  if (!gradient.is_sparse()) {
    view.copy_(gradient.view_as(view));
    if (touched != nullptr)
      rows = exchange::nonzero_items(own, sparse.row_floats);
  } else {
    if (touched == nullptr)
      view.zero_(); // of the step before
    // A row comes as often as samples touch it. Adding it here saves the sort of `coalesce`, with the same sums.
    const auto numbers = gradient._indices()[0].to(torch::kCPU).contiguous();
    const auto values = gradient._values().to(torch::kCPU).contiguous();
    const auto* from = values.data_ptr<float>();
    for (std::int64_t i = 0; i < numbers.size(0); ++i, from += sparse.row_floats) {
      const auto row = static_cast<std::uint32_t>(numbers.data_ptr<std::int64_t>()[i]);
      auto* into = own.data() + row * sparse.row_floats;
      std::transform(from, from + sparse.row_floats, into, into, std::plus());
      rows.push_back(row);
    }
  }
  if (touched != nullptr)
    for (const auto row : rows)
      touched->push_back(static_cast<std::uint32_t>(first_row + row));
}

void gradient_reducer::accept(std::size_t parameter, const torch::Tensor& gradient) {
  if (!active_ || accumulating_ || filled_[parameter])
    return;
  // Autograd has added up the gradients of earlier backwards of this step.
  const auto& earlier = parameters_[parameter].grad();
  take(parameter, earlier.defined() ? earlier + gradient : gradient);
}

void gradient_reducer::take(std::size_t parameter, const torch::Tensor& gradient) {
  auto& into = buckets_[bucket_of_[parameter]];
  if (into.row_floats != 0 && into.rest.empty())
    fill_rows(into, parameter, gradient);
  else
    views_[parameter].copy_(gradient.is_sparse() ? gradient.to_dense() : gradient);
  filled_[parameter] = true;
  if (--into.missing == 0)
    advance();
}

/// Sends off what is complete, in the order that is the same on all ranks; where a device computes, begins to copy it.
void gradient_reducer::advance() {
  for (; next_ < buckets_.size() && buckets_[next_].missing == 0; ++next_)
    if (auto& full = buckets_[next_]; copies_ == nullptr)
      launch(full);
    else if (full.device.defined())
      full.copied = copies_->to_host(full.host, full.device);
}

void gradient_reducer::write_row() {
  const auto own = row_ ? row_() : std::vector<std::int64_t>(row_columns_);
  if (own.size() != row_columns_)
    throw std::logic_error("a worker's row has " + std::to_string(own.size()) + " columns instead of " +
                           std::to_string(row_columns_));
  const auto rows = buckets_[row_bucket_].sum->rows();
  std::ranges::copy(own, rows.begin() + static_cast<std::ptrdiff_t>(peers_.position() * row_columns_));
}

/// Leaves in the bucket what is sent of it.
void gradient_reducer::keep_largest(bucket& full) {
  const auto values = std::get<std::span<float>>(full.sum->gradients()).first(full.floats);
  auto& touched = *full.sum->touched();
  touched.clear();
  if (batch_ == 0) {
    std::ranges::fill(values, 0.0F);
    return;
  }
  // Per sample the rest counts as much as this step's gradients, by whose batch it is divided.
  const auto scale = static_cast<float>(static_cast<double>(batch_) / std::max(1U, full.rest_batch));
  for (std::size_t i = 0; i < values.size(); ++i)
    full.rest[i] = full.rest[i] * scale + std::exchange(values[i], 0.0F);
  full.rest_batch = batch_;
  // What is not a number is sent first, so that everybody learns of it.
  const auto size_of = [](float value) {
    return std::isnan(value) ? std::numeric_limits<float>::infinity() : std::fabs(value);
  };
  std::vector<float> sizes(values.size());
  std::ranges::transform(full.rest, sizes.begin(), size_of);
  const auto count = static_cast<std::ptrdiff_t>(std::ceil(top_k_ * static_cast<double>(sizes.size())));
  std::ranges::nth_element(sizes, sizes.end() - count);
  const float smallest = *(sizes.end() - count);
  auto equal = count - std::ranges::count_if(sizes, [&](float size) { return size > smallest; });
  for (std::size_t i = 0; i < values.size(); ++i)
    if (const float size = size_of(full.rest[i]); size > smallest || (size == smallest && size > 0 && equal-- > 0)) {
      values[i] = std::exchange(full.rest[i], 0.0F);
      touched.push_back(static_cast<std::uint32_t>(i));
    }
}

void gradient_reducer::launch(bucket& full) {
  if (!full.rest.empty())
    keep_largest(full);
  if (auto* rows = full.sum->touched()) { // parameters come in any order, and a row as often as it was touched
    std::ranges::sort(*rows);
    const auto repeated = std::ranges::unique(*rows);
    rows->erase(repeated.begin(), repeated.end());
  }
  double square = 0; // of b_i g_i, of which a worker without samples has none
  if (batch_ > 0)
    square = std::visit(
        [&](auto gradients) {
          return sum_of_squares(*full.sum, full.row_floats, full.floats,
                                [values = gradients.data()](std::size_t i) { return values[i]; });
        },
        full.sum->gradients());
  own_sum_square_ += square;
  if (row_columns_ > 0 && &full == &buckets_[row_bucket_])
    write_row();
  full.sum->sums()[batch_sum] = batch_;
  full.sum->sums()[weighted_square_sum] = batch_ == 0 ? 0 : square / batch_;
  full.launched_seconds = time_.now_seconds();
  full.sum->start();
}

void gradient_reducer::send() {
  torch::NoGradGuard no_gradient;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (!filled_[i] && parameters_[i].grad().defined()) // reached by an earlier backward of the step only
      take(i, parameters_[i].grad());
    if (filled_[i])
      continue;
    auto& bucket = buckets_[bucket_of_[i]];
    if (bucket.sum->touched() == nullptr || bucket.device.defined())
      views_[i].zero_();
    --bucket.missing;
  }
  active_ = false;
  advance();
  if (copies_ != nullptr)
    for (auto& bucket : buckets_) {
      bucket.copied.wait();
      launch(bucket);
    }
  sent_ = true;
}

reduction gradient_reducer::finish() {
  torch::NoGradGuard no_gradient;
  if (!sent_)
    send();
  reduction result;
  if (batch_ > 0)
    result.own_square = own_sum_square_ / (static_cast<double>(batch_) * batch_);
  for (auto& bucket : buckets_)
    await(bucket, result);
  if (!std::isfinite(result.square))
    forget_rests();
  if (copies_ != nullptr)
    copies_->join();
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i].mutable_grad() = views_[i].to(parameters_[i].device());
  return result;
}

/// What is no number would spoil one step after the other, as it is sent.
void gradient_reducer::forget_rests() {
  for (auto& bucket : buckets_)
    if (!std::ranges::all_of(bucket.rest, [](float value) { return std::isfinite(value); })) {
      std::ranges::fill(bucket.rest, 0.0F);
      bucket.rest_batch = 0;
    }
}

void gradient_reducer::await(bucket& sent, reduction& result) {
  const double start = time_.now_seconds();
  sent.sum->wait();
  const double end = time_.now_seconds();
  result.blocked_seconds += end - start;
  const double global_batch = sent.sum->sums()[batch_sum];
  if (!(global_batch >= 1))
    throw std::logic_error("a step without a sample on any worker");
  result.global_batch = static_cast<std::uint64_t>(global_batch); // the sum is exact
  result.weighted_squares += sent.sum->sums()[weighted_square_sum];
  std::visit(
      [&]<typename Scalar>(std::span<Scalar> gradients) {
        result.square += sum_of_squares(*sent.sum, sent.row_floats, sent.floats,
                                        [values = gradients.data(), divisor = static_cast<Scalar>(global_batch)](
                                            std::size_t i) { return values[i] /= divisor; });
        result.collectives.push_back(
            {.begin_seconds = sent.launched_seconds, .end_seconds = end, .bytes = gradients.size_bytes()});
      },
      sent.sum->gradients());
  if (row_columns_ > 0 && &sent == &buckets_[row_bucket_])
    result.rows.assign(sent.sum->rows().begin(), sent.sum->rows().end());
  if (sent.device.defined())
    copies_->to_device(sent.device, sent.host);
}

} // namespace dynamix::trainer
