#include "simulator/resumable_training.hpp"

#include <charconv>
#include <cmath>
#include <cstring>

namespace dynamix::simulator {
namespace {

// Learners and policies pass over tensors of this prefix, and over metadata that they do not know.
constexpr const char* curve_name = "learner.training.curve";
constexpr const char* episodes_name = "training.episodes";

storage::tensor_record to_record(const training_curve& curve) {
  std::vector<double> numbers;
  for (const auto& point : curve)
    for (const auto& column : curve_columns)
      numbers.push_back(point.*column.value);
  storage::tensor_record record{
      .name = curve_name,
      .type = storage::element_type::f64,
      .shape = {static_cast<std::int64_t>(curve.size()), static_cast<std::int64_t>(curve_columns.size())}};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(numbers.data());
  record.data.assign(bytes, bytes + numbers.size() * sizeof(double));
  return record;
}

/// False when the record is not of a curve.
bool from_record(const storage::tensor_record* record, training_curve& curve) {
  if (record == nullptr || record->type != storage::element_type::f64 || record->shape.size() != 2 ||
      record->shape[1] != static_cast<std::int64_t>(curve_columns.size()))
    return false;
  curve.resize(static_cast<std::size_t>(record->shape[0]));
  const auto* bytes = record->data.data();
  for (auto& point : curve)
    for (const auto& column : curve_columns) {
      std::memcpy(&(point.*column.value), bytes, sizeof(double));
      bytes += sizeof(double);
    }
  return true;
}

} // namespace

bool resumable_training::record(const validation_scores& scores) {
  const auto* before = best();
  const bool better = before == nullptr || scores.against_goodput > before->against_goodput;
  if (curve_.empty())
    curve_.emplace_back();
  curve_.back().against_goodput = scores.against_goodput;
  curve_.back().against_static = scores.against_static;
  return better;
}

const training_point* resumable_training::best() const {
  const training_point* best = nullptr;
  for (const auto& point : curve_)
    if (std::isfinite(point.against_goodput) && (best == nullptr || point.against_goodput > best->against_goodput))
      best = &point;
  return best;
}

void resumable_training::save_course(storage::tensor_file& file) const {
  file.tensors.push_back(to_record(curve_));
  file.metadata[episodes_name] = std::to_string(episodes_);
}

std::string resumable_training::restore_course(const storage::tensor_file& file) {
  if (!from_record(file.find(curve_name), curve_))
    return "it has no learning curve: it is a policy, not a training to go on with";
  const auto found = file.metadata.find(episodes_name);
  const std::string text = found == file.metadata.end() ? "" : found->second;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), episodes_);
  if (error != std::errc() || stop != text.data() + text.size())
    return "its number of episodes is \"" + text + "\"";
  episodes_before_ = episodes_;
  if (!curve_.empty()) {
    updates_ = static_cast<std::uint64_t>(curve_.back().update);
    windows_ = static_cast<std::uint64_t>(curve_.back().windows);
  }
  return {};
}

} // namespace dynamix::simulator
