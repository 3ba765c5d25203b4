#include "exchange/compression.hpp"

#include "exchange/item_bucket.hpp"

#include <utility>

namespace dynamix::exchange {

namespace {

class compressing_group final : public group {
public:
  compressing_group(std::unique_ptr<group> below, form how, compression_counts& counts, choice_teller told)
      : below_(std::move(below)), form_(how), counts_(counts), told_(std::move(told)) {}

  std::uint32_t position() const override { return below_->position(); }
  std::uint32_t size() const override { return below_->size(); }
  std::unique_ptr<bucket> make_bucket(element type, std::size_t gradients, std::size_t sums) override {
    return below_->make_bucket(type, gradients, sums);
  }
  std::unique_ptr<bucket> make_sparse_bucket(std::size_t items, std::size_t item_floats, std::size_t sums) override {
    if (items * item_floats * sizeof(float) < compressed_bytes_min)
      return below_->make_sparse_bucket(items, item_floats, sums);
    if (form_ == form::automatic)
      return make_measured_bucket(*below_, items, item_floats, sums, counts_, told_);
    const auto make = form_ == form::gather           ? make_gather_bucket
                      : form_ == form::union_of_items ? make_union_bucket
                                                      : make_sketch_bucket;
    return make(*below_, items, item_floats, sums, counts_, {});
  }
  std::unique_ptr<gathering> all_gather(std::span<const std::int64_t> row) override { return below_->all_gather(row); }
  std::unique_ptr<pending> combine(shared_words words, combining how) override {
    return below_->combine(std::move(words), how);
  }
  std::unique_ptr<pending> sum(std::span<float> floats, std::shared_ptr<void> owner, float_sum how) override {
    return below_->sum(floats, std::move(owner), how);
  }
  std::unique_ptr<pending> exchange_blocks(shared_floats blocks, shared_floats into) override {
    return below_->exchange_blocks(std::move(blocks), std::move(into));
  }
  std::vector<std::uint8_t> broadcast(std::uint32_t root, std::span<const std::uint8_t> bytes) override {
    return below_->broadcast(root, bytes);
  }
  void leave(std::uint64_t word) noexcept override { below_->leave(word); }

private:
  std::unique_ptr<group> below_;
  const form form_;
  compression_counts& counts_;
  const choice_teller told_;
};

} // namespace

std::unique_ptr<group> compress(std::unique_ptr<group> below, form how, compression_counts& counts,
                                choice_teller told) {
  if (how == form::none || below->size() == 1)
    return below;
  return std::make_unique<compressing_group>(std::move(below), how, counts, std::move(told));
}

} // namespace dynamix::exchange
