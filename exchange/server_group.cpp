#include "exchange/server_group.hpp"

#include "exchange/exact_sum.hpp"
#include "exchange/server_relay.hpp"

#include <utility>

namespace dynamix::exchange {

namespace {

/// The gradients, then the digits of the sums, as in a ring: digits add up exactly wherever they are added.
template <typename Scalar>
class server_bucket final : public bucket {
public:
  server_bucket(std::shared_ptr<relay> through, const interruption& stop, std::size_t gradients, std::size_t sums)
      : relay_(std::move(through)), stop_(stop), gradient_count_(gradients), sums_(sums),
        flat_(std::make_shared<std::vector<Scalar>>(gradients + sums * exact_digits)) {}

  std::variant<std::span<float>, std::span<double>> gradients() override {
    return std::span(*flat_).first(gradient_count_);
  }
  std::span<double> sums() override { return sums_; }
  void start() override {
    split_into_digits(std::span<const double>(sums_), std::span(*flat_).subspan(gradient_count_));
    constexpr auto how = sizeof(Scalar) == sizeof(float) ? arithmetic::add_float32 : arithmetic::add_float64;
    started_ = relay_->start(flat_, std::as_writable_bytes(std::span(*flat_)), how, stop_);
  }
  void wait() override {
    relay_->wait(*std::exchange(started_, nullptr), stop_);
    join_digits(std::span<const Scalar>(*flat_).subspan(gradient_count_), std::span(sums_));
  }

private:
  const std::shared_ptr<relay> relay_;
  const interruption& stop_;
  const std::size_t gradient_count_;
  std::vector<double> sums_;
  const std::shared_ptr<std::vector<Scalar>> flat_;
  relay::summation_pointer started_;
};

/// A sum over memory that its owner keeps.
class server_pending final : public pending {
public:
  server_pending(std::shared_ptr<relay> through, const interruption& stop, std::span<std::byte> bytes,
                 std::shared_ptr<void> owner, arithmetic how)
      : relay_(std::move(through)), stop_(stop), started_(relay_->start(std::move(owner), bytes, how, stop)) {}
  void wait() override { relay_->wait(*started_, stop_); }

private:
  const std::shared_ptr<relay> relay_;
  const interruption& stop_;
  const relay::summation_pointer started_;
};

class server_group final : public group {
public:
  server_group(std::unique_ptr<ring_group> ring, std::unique_ptr<group> workers, const std::vector<double>& shares,
               const interruption& stop)
      : ring_(std::move(ring)), workers_(std::move(workers)), sums_(!shares.empty()),
        relay_(std::make_shared<relay>(*ring_, others().size(), shares)), stop_(stop) {
    relay_->begin();
  }
  /// The ring first: unless it was left, the waits of the relay's threads end with it.
  ~server_group() override {
    ring_.reset();
    relay_->close();
  }

  std::uint32_t position() const override { return others().position(); }
  std::uint32_t size() const override { return others().size(); }
  std::unique_ptr<bucket> make_bucket(element type, std::size_t gradients, std::size_t sums) override {
    if (!sums_)
      return others().make_bucket(type, gradients, sums);
    if (type == element::float64)
      return std::make_unique<server_bucket<double>>(relay_, stop_, gradients, sums);
    return std::make_unique<server_bucket<float>>(relay_, stop_, gradients, sums);
  }
  std::unique_ptr<gathering> all_gather(std::span<const std::int64_t> row) override { return others().all_gather(row); }
  std::unique_ptr<pending> combine(shared_words words, combining how) override {
    if (!sums_)
      return others().combine(std::move(words), how);
    const auto bytes = std::as_writable_bytes(std::span(*words));
    return std::make_unique<server_pending>(relay_, stop_, bytes, std::move(words),
                                            how == combining::bitwise_or ? arithmetic::or_words
                                                                         : arithmetic::add_words);
  }
  std::unique_ptr<pending> sum(std::span<float> floats, std::shared_ptr<void> owner, float_sum how) override {
    if (!sums_)
      return others().sum(floats, std::move(owner), how);
    return std::make_unique<server_pending>(relay_, stop_, std::as_writable_bytes(floats), std::move(owner),
                                            how == float_sum::exact ? arithmetic::add_exactly
                                                                    : arithmetic::add_float32);
  }
  std::unique_ptr<pending> exchange_blocks(shared_floats blocks, shared_floats into) override {
    return others().exchange_blocks(std::move(blocks), std::move(into));
  }
  std::vector<std::uint8_t> broadcast(std::uint32_t root, std::span<const std::uint8_t> bytes) override {
    return others().broadcast(root, bytes);
  }
  /// Servers may close once all workers have their last sums, not only the first one.
  void leave(std::uint64_t word) noexcept override {
    if (workers_) {
      workers_->leave(word);
      relay_->call_off(word);
    }
    ring_->leave(word);
  }

private:
  /// Those who bring gradients.
  group& others() const { return workers_ ? *workers_ : *ring_; }

  std::unique_ptr<ring_group> ring_;
  const std::unique_ptr<group> workers_;
  const bool sums_;
  const std::shared_ptr<relay> relay_;
  const interruption& stop_;
};

} // namespace

std::unique_ptr<group> sum_by_servers(std::unique_ptr<ring_group> ring, const std::vector<double>& shares,
                                      const interruption& stop, std::unique_ptr<group> workers) {
  return std::make_unique<server_group>(std::move(ring), std::move(workers), shares, stop);
}

std::uint64_t serve_members(ring_group& ring, std::uint32_t workers, const std::vector<double>& shares,
                            const interruption& stop) {
  const auto left = stop.make_event();
  const auto through = std::make_shared<relay>(ring, workers, shares, left);
  through->begin();
  if (!stop.wait(*left))
    throw error(stop.reason());
  const auto word = through->last_word();
  through->close();
  return word;
}

} // namespace dynamix::exchange
