#include "exchange/form_choice.hpp"
#include "exchange/item_bits.hpp"
#include "exchange/item_bucket.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <utility>

namespace dynamix::exchange {

namespace {

/// Gradients in the memory of a plain bucket, summed as a whole or by one of the forms over the same memory.
class measured_bucket final : public bucket {
public:
  measured_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums,
                  compression_counts& counts, choice_teller told)
      : below_(below), ways_(below.ways()), items_(items), width_(item_floats), counts_(counts), told_(std::move(told)),
        dense_(group_of({}).make_bucket(element::float32, items * item_floats, sums)),
        beside_(sums == 0 ? nullptr : below.make_bucket(element::float32, 0, sums)),
        choice_({.by_servers = ways_ && ways_->by_servers}) {}

  std::variant<std::span<float>, std::span<double>> gradients() override { return dense_->gradients(); }
  std::span<double> sums() override { return dense_->sums(); }
  std::vector<std::uint32_t>* touched() override { return &touched_; }

  void start() override {
    own_items_ = touched_.size();
    if (sums_of_look_ + 1 == look::sums) {
      const std::int64_t row[] = {// nanoseconds that a sum was waited for, and the items that this member brings
                                  measured_.count() / static_cast<std::int64_t>(look::sums - 1 - look::warm),
                                  static_cast<std::int64_t>(own_items_)};
      looking_ = below_.all_gather(row);
    }
    const auto by = choice_.now();
    if (by == route{form::none})
      return dense_->start();
    if (by.how == form::none) {
      summing_ = group_of(by).sum(floats(), dense_, float_sum::in_order);
    } else {
      auto& sparse = form_in_use();
      std::swap(touched_, *sparse.touched());
      sparse.start();
    }
    if (beside_) {
      std::ranges::copy(dense_->sums(), beside_->sums().begin());
      beside_->start();
    }
  }

  void wait() override {
    const auto began = std::chrono::steady_clock::now();
    if (choice_.now().how == form::none)
      wait_for_dense();
    else
      wait_for_sparse();
    count();
    if (sums_of_look_ >= look::warm && sums_of_look_ + 1 < look::sums)
      measured_ += std::chrono::steady_clock::now() - began;
    if (++sums_of_look_ == look::sums)
      finish_look();
  }

private:
  std::span<float> floats() { return std::get<std::span<float>>(dense_->gradients()); }

  group& group_of(route by) const { return !ways_ ? below_ : by.by_servers ? *ways_->servers : *ways_->ring; }

  bucket& form_in_use() {
    const auto by = choice_.now();
    auto& made = forms_[by];
    if (!made) {
      const auto make = by.how == form::gather           ? make_gather_bucket
                        : by.how == form::union_of_items ? make_union_bucket
                                                         : make_sketch_bucket;
      made = make(group_of(by), items_, width_, 0, counts_, floats());
    }
    return *made;
  }

  void wait_for_dense() {
    ++counts_.sums;
    counts_.own_items += own_items_;
    if (summing_) {
      std::exchange(summing_, nullptr)->wait();
      wait_for_sums();
    } else {
      dense_->wait();
    }
    touched_ = nonzero_items(floats(), width_);
    counts_.items += touched_.size();
  }

  void wait_for_sparse() {
    auto& sparse = form_in_use();
    sparse.wait();
    std::swap(touched_, *sparse.touched());
    wait_for_sums();
  }

  void wait_for_sums() {
    if (!beside_)
      return;
    beside_->wait();
    std::ranges::copy(beside_->sums(), dense_->sums().begin());
  }

  void count() {
    constexpr std::array counters = {&compression_counts::dense_sums, &compression_counts::union_sums,
                                     &compression_counts::gather_sums, &compression_counts::lhc_sums};
    ++(counts_.*counters.at(static_cast<std::size_t>(choice_.now().how)));
    counts_.server_sums += choice_.now().by_servers ? 1 : 0;
  }

  /// What counts is how long a sum is waited for, not how long backward and other buckets take beside it: as long as
  /// by the member that came to the wait last, which waits for no other.
  void finish_look() {
    const auto rows = std::exchange(looking_, nullptr)->wait();
    form_load load{.members = below_.size(),
                   .items = items_,
                   .item_floats = width_,
                   .together = touched_.size(),
                   .servers_time = ways_ ? ways_->servers_time : 0};
    auto shortest = rows[0];
    for (std::size_t i = 0; i < rows.size(); i += 2) {
      shortest = std::min(shortest, rows[i]);
      load.longest = std::max(load.longest, static_cast<std::size_t>(std::max<std::int64_t>(0, rows[i + 1])));
    }
    load.longest = std::min(load.longest, items_);
    const auto before = choice_.now();
    const double seconds = 1e-9 * static_cast<double>(std::max<std::int64_t>(1, shortest));
    if (choice_.take(seconds, load) != before && told_)
      told_(fmt::format("{} of {} rows of {} sparse gradients by {}, predicted to take {:.3f} ms; {} took {:.3f} ms",
                        load.together, items_, width_, name_of(choice_.now()),
                        1e3 * choice_.predict(choice_.now(), load).value_or(0), name_of(before), 1e3 * seconds));
    measured_ = {};
    sums_of_look_ = 0;
  }

  group& below_;
  const std::optional<both_ways> ways_;
  const std::size_t items_;
  const std::size_t width_;
  compression_counts& counts_;
  const choice_teller told_;
  const std::shared_ptr<bucket> dense_;
  const std::unique_ptr<bucket> beside_;           ///< for the sums, where the gradients go another way
  std::map<route, std::unique_ptr<bucket>> forms_; ///< made when first used
  std::unique_ptr<pending> summing_;               ///< the dense gradients, through servers
  std::vector<std::uint32_t> touched_;
  std::size_t own_items_ = 0;

  form_choice choice_;
  std::uint64_t sums_of_look_ = 0;
  std::chrono::nanoseconds measured_{0};
  std::unique_ptr<gathering> looking_;
};

} // namespace

std::unique_ptr<bucket> make_measured_bucket(group& below, std::size_t items, std::size_t item_floats, std::size_t sums,
                                             compression_counts& counts, choice_teller told) {
  return std::make_unique<measured_bucket>(below, items, item_floats, sums, counts, std::move(told));
}

} // namespace dynamix::exchange
