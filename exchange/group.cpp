#include "exchange/group.hpp"

#include "exchange/gloo_ring.hpp"
#include "exchange/link_rates.hpp"
#include "exchange/server_group.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::exchange {

namespace {

/// Servers must promise to be so much faster than the ring to be chosen: the prediction is not more exact.
constexpr double worthwhile = 1.1;

template <typename Scalar>
class own_bucket final : public bucket {
public:
  own_bucket(std::size_t gradients, std::size_t sums) : gradients_(gradients), sums_(sums) {}
  std::variant<std::span<float>, std::span<double>> gradients() override { return std::span(gradients_); }
  std::span<double> sums() override { return sums_; }
  void start() override {}
  void wait() override {}

private:
  std::vector<Scalar> gradients_;
  std::vector<double> sums_;
};

class own_row final : public gathering {
public:
  explicit own_row(std::vector<std::int64_t> rows) : rows_(std::move(rows)) {}
  std::vector<std::int64_t> wait() override { return std::move(rows_); }

private:
  std::vector<std::int64_t> rows_;
};

class nothing_pending final : public pending {
public:
  void wait() override {}
};

class silent_group final : public group {
public:
  explicit silent_group(std::uint32_t size) : size_(size) {}
  std::uint32_t position() const override { return 0; }
  std::uint32_t size() const override { return size_; }
  std::unique_ptr<bucket> make_bucket(element type, std::size_t gradients, std::size_t sums) override {
    if (type == element::float64)
      return std::make_unique<own_bucket<double>>(gradients, sums);
    return std::make_unique<own_bucket<float>>(gradients, sums);
  }
  std::unique_ptr<gathering> all_gather(std::span<const std::int64_t> row) override {
    std::vector<std::int64_t> rows(row.size() * size_);
    std::ranges::copy(row, rows.begin());
    return std::make_unique<own_row>(std::move(rows));
  }
  std::unique_ptr<pending> combine(shared_words, combining) override { return std::make_unique<nothing_pending>(); }
  std::unique_ptr<pending> exchange_blocks(shared_floats blocks, shared_floats into) override {
    std::ranges::fill(*into, 0.0F);
    std::copy_n(blocks->begin(), blocks->size() / size_, into->begin());
    return std::make_unique<nothing_pending>();
  }
  std::vector<std::uint8_t> broadcast(std::uint32_t, std::span<const std::uint8_t> bytes) override {
    return {bytes.begin(), bytes.end()};
  }
  void leave() noexcept override {}

private:
  std::uint32_t size_;
};

} // namespace

void throw_if_raised(const interruption& stop) {
  if (stop.raised())
    throw error(stop.reason());
}

std::unique_ptr<group> make_silent_group(std::uint32_t size) {
  return std::make_unique<silent_group>(size);
}

std::unique_ptr<group> join(const place& own, store& rendezvous, const interruption& stop, summing how,
                            summing_plan* plan) {
  throw_if_raised(stop);
  if (own.members.size() == 1)
    return make_silent_group(1);
  auto ring = join_gloo_ring(own, rendezvous, stop);
  if (how == summing::ring)
    return ring;
  summing_plan made{.link_rates = measure_link_rates(*ring, stop)};
  std::vector<cluster::exchange_host> hosts;
  for (const auto rate : cluster::even_out(made.link_rates))
    hosts.push_back({.link_rate = rate});
  made.servers = cluster::plan_servers(hosts);
  made.by_servers =
      how == summing::servers || worthwhile * made.servers.seconds_per_byte < made.servers.ring_seconds_per_byte;
  if (plan != nullptr)
    *plan = made;
  if (!made.by_servers)
    return ring;
  return sum_by_servers(std::move(ring), made.servers.shares, stop);
}

} // namespace dynamix::exchange
