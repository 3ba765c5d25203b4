#pragma once

/// What all forms of compressed buckets share. Internal to the room.

#include "exchange/compression.hpp"
#include "exchange/group.hpp"

#include <memory>
#include <span>
#include <vector>

namespace dynamix::exchange {

/// Gradients as items, with the sums that ride along in a small bucket of the group below.
class item_bucket : public bucket {
public:
  /// `memory`: another's, for the gradients; empty: the bucket has its own.
  item_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums, compression_counts& counts,
              std::span<float> memory = {})
      : below_(below), items_(items), width_(item_floats), counts_(counts),
        own_(memory.empty() ? items * item_floats : 0), gradients_(memory.empty() ? std::span(own_) : memory),
        sums_(sums == 0 ? nullptr : below.make_bucket(element::float32, 0, sums)) {}

  std::variant<std::span<float>, std::span<double>> gradients() override { return gradients_; }
  std::span<double> sums() override { return sums_ ? sums_->sums() : std::span<double>(); }
  std::vector<std::uint32_t>* touched() override { return &touched_; }

  void start() override {
    begin();
    if (sums_)
      sums_->start();
  }
  void wait() override {
    ++counts_.sums;
    counts_.own_items += touched_.size();
    finish();
    counts_.items += touched_.size();
    if (sums_)
      sums_->wait();
  }

protected:
  virtual void begin() = 0;
  /// Leaves the sums in `gradients_`, and the union of all members' items in `touched_`.
  virtual void finish() = 0;

  std::span<float> item(std::uint32_t number) { return gradients_.subspan(number * width_, width_); }

  group& below_;
  const std::size_t items_;
  const std::size_t width_;
  compression_counts& counts_;
  std::vector<float> own_;
  const std::span<float> gradients_;
  std::vector<std::uint32_t> touched_;

private:
  std::unique_ptr<bucket> sums_;
};

/// Sums whole items of all members, the same `items` on each.
void sum_items(group& below, std::span<const std::uint32_t> items, std::size_t item_floats, std::span<float> gradients,
               float_sum how);

std::unique_ptr<bucket> make_union_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums,
                                          compression_counts& counts, std::span<float> memory = {});
std::unique_ptr<bucket> make_gather_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums,
                                           compression_counts& counts, std::span<float> memory = {});
std::unique_ptr<bucket> make_sketch_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums,
                                           compression_counts& counts, std::span<float> memory = {});
/// Of whichever form is measured to be the fastest.
std::unique_ptr<bucket> make_measured_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums,
                                             compression_counts& counts, choice_teller told);

} // namespace dynamix::exchange
