#pragma once

/// Of torch.hpp: the batches of a step, among which stand-ins count for nothing.

#include <torch/torch.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

namespace dynamix::detail {

class step_batches {
public:
  explicit step_batches(std::vector<torch::Tensor> parameters) : parameters_(std::move(parameters)) {}

  void start_epoch() {
    to_come_.clear();
    start_step();
  }
  void start_step() {
    taken_ = stand_ins_ = 0;
    kept_.reset();
  }
  /// Of so many samples of this member.
  void dealt(std::uint32_t own) {
    to_come_.push_back(own);
    keep();
  }
  /// The loop has run backward of the oldest one that was dealt; another one of the same step may follow.
  void taken() {
    ++taken_;
    if (!to_come_.empty()) { // else the script has dealt it by the C interface
      stand_ins_ += to_come_.front() == 0 ? 1 : 0;
      to_come_.pop_front();
    }
    if (kept_)
      for (std::size_t i = 0; i < parameters_.size(); ++i)
        parameters_[i].mutable_grad() = (*kept_)[i];
    kept_.reset();
    keep();
  }
  /// What the sum of the others' gradients is multiplied by: the loop has divided losses by the number of all.
  double repeats() const {
    return stand_ins_ < taken_ ? static_cast<double>(taken_) / static_cast<double>(taken_ - stand_ins_) : 1;
  }

private:
  /// What the stand-in that comes next is added to.
  void keep() {
    if (taken_ == 0 || kept_ || to_come_.empty() || to_come_.front() > 0)
      return;
    kept_.emplace();
    for (const auto& parameter : parameters_)
      kept_->push_back(parameter.grad().defined() ? parameter.grad().clone() : torch::Tensor());
  }

  std::vector<torch::Tensor> parameters_;
  std::deque<std::uint32_t> to_come_; ///< samples of those that were dealt and not taken
  std::uint32_t taken_ = 0;
  std::uint32_t stand_ins_ = 0; ///< of them
  std::optional<std::vector<torch::Tensor>> kept_;
};

} // namespace dynamix::detail
