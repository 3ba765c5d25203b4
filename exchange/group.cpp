#include "exchange/group.hpp"

#include "exchange/either_group.hpp"
#include "exchange/link_rates.hpp"
#include "exchange/ring.hpp"
#include "exchange/server_group.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::exchange {

namespace {

template <typename Scalar>
class own_bucket : public bucket {
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

class own_items final : public own_bucket<float> {
public:
  using own_bucket::own_bucket;
  std::vector<std::uint32_t>* touched() override { return &touched_; }

private:
  std::vector<std::uint32_t> touched_;
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
  std::unique_ptr<bucket> make_sparse_bucket(std::size_t items, std::size_t item_floats, std::size_t sums) override {
    if (size_ > 1) // as peers that sum all they have
      return make_bucket(element::float32, items * item_floats, sums);
    return std::make_unique<own_items>(items * item_floats, sums);
  }
  std::unique_ptr<gathering> all_gather(std::span<const std::int64_t> row) override {
    std::vector<std::int64_t> rows(row.size() * size_);
    std::ranges::copy(row, rows.begin());
    return std::make_unique<own_row>(std::move(rows));
  }
  std::unique_ptr<pending> combine(shared_words, combining) override { return std::make_unique<nothing_pending>(); }
  std::unique_ptr<pending> sum(std::span<float>, std::shared_ptr<void>, float_sum) override {
    return std::make_unique<nothing_pending>();
  }
  std::unique_ptr<pending> exchange_blocks(shared_floats blocks, shared_floats into) override {
    std::ranges::fill(*into, 0.0F);
    std::copy_n(blocks->begin(), blocks->size() / size_, into->begin());
    return std::make_unique<nothing_pending>();
  }
  std::vector<std::uint8_t> broadcast(std::uint32_t, std::span<const std::uint8_t> bytes) override {
    return {bytes.begin(), bytes.end()};
  }
  void leave(std::uint64_t) noexcept override {}

private:
  std::uint32_t size_;
};

/// With the servers, who follow the members.
place with_servers(place all) {
  all.members.insert(all.members.end(), all.servers.begin(), all.servers.end());
  return all;
}

/// The same on all of `all`, of whom the first `workers` are members.
summing_plan plan_sums(ring_group& all, std::size_t workers, summing how, const interruption& stop) {
  if (workers < 2)
    return {};
  summing_plan made{.link_rates = measure_link_rates(all, stop), .servers = {}};
  std::vector<cluster::exchange_host> hosts;
  for (const auto rate : made.link_rates)
    hosts.push_back({.link_rate = rate, .works = hosts.size() < workers});
  made.servers = cluster::plan_measured(std::move(hosts));
  made.by_servers = how == summing::parameter_server || (how == summing::automatic && cluster::pays(made.servers));
  return made;
}

/// Of those who sum; nothing where only the ring does.
std::vector<double> shares_of(const summing_plan& plan, summing how) {
  return plan.by_servers || how == summing::automatic ? plan.servers.shares : std::vector<double>{};
}

} // namespace

void throw_if_raised(const interruption& stop) {
  if (stop.raised())
    throw error(stop.reason());
}

std::unique_ptr<group> make_silent_group(std::uint32_t size) {
  return std::make_unique<silent_group>(size);
}

std::unique_ptr<group> join(const place& own, store& rendezvous, const interruption& stop, summing how,
                            summing_plan* plan, choice_teller told) {
  throw_if_raised(stop);
  const bool alone = own.members.size() == 1;
  if (alone && own.servers.empty())
    return make_silent_group(1);
  auto all = join_ring(with_servers(own), rendezvous, stop);
  if (how == summing::ring && own.servers.empty())
    return all;
  const auto made = plan_sums(*all, own.members.size(), how, stop);
  if (plan != nullptr)
    *plan = made;
  auto* members = all.get();
  std::unique_ptr<group> workers; // where others only serve
  if (!own.servers.empty() && alone)
    workers = make_silent_group(1);
  else if (!own.servers.empty()) {
    auto without_servers = own;
    without_servers.store_prefix += "/members";
    auto joined = join_ring(without_servers, rendezvous, stop);
    members = joined.get();
    workers = std::move(joined);
  }
  auto served = sum_by_servers(std::move(all), shares_of(made, how), stop, std::move(workers));
  return how == summing::automatic && !alone ? choose_ways(std::move(served), *members, made, std::move(told))
                                             : std::move(served);
}

std::uint64_t serve(const place& own, store& rendezvous, const interruption& stop, summing how,
                    const std::function<void(const summing_plan&)>& ready) {
  throw_if_raised(stop);
  const auto all = join_ring(with_servers(own), rendezvous, stop);
  const auto plan = plan_sums(*all, own.members.size(), how, stop);
  ready(plan);
  const auto word = serve_members(*all, static_cast<std::uint32_t>(own.members.size()), shares_of(plan, how), stop);
  all->leave();
  return word;
}

} // namespace dynamix::exchange
