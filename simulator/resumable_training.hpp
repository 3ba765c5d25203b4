#pragma once

#include "messages/types.hpp"
#include "simulator/policy_validation.hpp"
#include "simulator/training_curve.hpp"
#include "storage/tensor_file.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::simulator {

/// A training in rounds, one update each, that can be saved and gone on with: what the ways to learn have in common.
class resumable_training {
public:
  virtual ~resumable_training() = default;
  virtual const training_point& run_round() = 0;
  virtual messages::policy_version current() const = 0;
  virtual std::size_t environments() const = 0;
  /// Everything that the constructor needs to go on: a tensor file's bytes.
  virtual std::vector<std::uint8_t> save() const = 0;

  /// Notes what a validation of `current()` said. True if no version before was better.
  bool record(const validation_scores& scores);
  /// The validated point with the best score; null before one.
  const training_point* best() const;
  std::uint64_t updates() const { return updates_; }
  std::uint64_t windows() const { return windows_; }
  std::uint64_t episodes() const { return episodes_; } ///< begun
  const training_curve& curve() const { return curve_; }

protected:
  const training_point& add(const training_point& point) { return curve_.emplace_back(point); }
  void save_course(storage::tensor_file& file) const;
  /// Empty, or why there is nothing to go on with.
  std::string restore_course(const storage::tensor_file& file);

  std::uint64_t updates_ = 0;
  std::uint64_t windows_ = 0;
  std::uint64_t episodes_ = 0;
  std::uint64_t episodes_before_ = 0; ///< of the training that this one goes on from: its seeds are used up

private:
  training_curve curve_;
};

} // namespace dynamix::simulator
