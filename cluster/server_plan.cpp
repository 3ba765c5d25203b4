#include "cluster/server_plan.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <numeric>

namespace dynamix::cluster {

namespace {

/// Rates within this factor of a group's lowest one count as equal.
constexpr double equal_rates = 1.25;
constexpr double worthwhile = 1.1;

/// The largest share that a host can sum where a byte of gradients may take so many seconds.
struct capacity {
  double link = 0;
  double sums = 0;
  double share() const { return std::clamp(std::min(link, sums), 0.0, 1.0); }
};

capacity capacity_of(const exchange_host& host, double workers, double seconds) {
  if (!host.serves)
    return {};
  if (!host.works)
    return {seconds * host.link_rate / workers, seconds * host.sum_rate / workers};
  // With two workers a server moves no more than a worker.
  return {workers > 2 ? (seconds * host.link_rate - 1) / (workers - 2) : 1, seconds * host.sum_rate / (workers - 1)};
}

double total_share(std::span<const exchange_host> hosts, double workers, double seconds) {
  return std::accumulate(hosts.begin(), hosts.end(), 0.0, [&](double sum, const exchange_host& host) {
    return sum + capacity_of(host, workers, seconds).share();
  });
}

/// The shortest time, within a relative 1e-12, from `least` on in which the shares reach 1.
double shortest(std::span<const exchange_host> hosts, double workers, double least) {
  double low = least;
  double high = least;
  while (total_share(hosts, workers, high) < 1) {
    low = high;
    high *= 2;
  }
  while (high - low > 1e-12 * high) {
    const double middle = std::midpoint(low, high);
    (total_share(hosts, workers, middle) < 1 ? low : high) = middle;
  }
  return high;
}

} // namespace

std::string_view to_string(exchange_bound value) {
  constexpr std::array<std::string_view, 4> names = {"nothing to exchange", "the slowest worker's link",
                                                     "all links together", "the servers' additions"};
  return names.at(static_cast<std::size_t>(value));
}

server_plan plan_servers(std::span<const exchange_host> hosts) {
  assert(std::ranges::any_of(hosts, &exchange_host::works) && std::ranges::any_of(hosts, &exchange_host::serves));
  server_plan plan;
  const auto workers = static_cast<double>(std::ranges::count_if(hosts, &exchange_host::works));
  const auto rate_of_worker = [](const exchange_host& host) {
    return host.works ? host.link_rate : std::numeric_limits<double>::infinity();
  };
  plan.slowest = static_cast<std::size_t>(std::ranges::min_element(hosts, {}, rate_of_worker) - hosts.begin());
  plan.shares.resize(hosts.size());
  if (workers < 2) {
    plan.shares[static_cast<std::size_t>(std::ranges::find_if(hosts, &exchange_host::serves) - hosts.begin())] = 1;
    return plan;
  }
  const double least = 1 / hosts[plan.slowest].link_rate;
  plan.ring_seconds_per_byte = 2 * (workers - 1) / workers * least;
  plan.seconds_per_byte = shortest(hosts, workers, least);
  plan.bound = plan.seconds_per_byte == least ? exchange_bound::worker_link : exchange_bound::server_links;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto most = capacity_of(hosts[i], workers, plan.seconds_per_byte);
    plan.shares[i] = most.share();
    if (plan.bound == exchange_bound::server_links && hosts[i].serves && most.sums < std::min(most.link, 1.0))
      plan.bound = exchange_bound::server_sums;
  }
  const double total = std::accumulate(plan.shares.begin(), plan.shares.end(), 0.0);
  for (auto& share : plan.shares)
    share /= total;
  return plan;
}

double seconds_per_byte(std::span<const exchange_host> hosts, std::span<const double> shares) {
  const auto workers = static_cast<double>(std::ranges::count_if(hosts, &exchange_host::works));
  double longest = 0;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto& host = hosts[i];
    const double moved = host.works ? 1 + (workers - 2) * shares[i] : workers * shares[i];
    const double added = (host.works ? workers - 1 : workers) * shares[i];
    longest = std::max({longest, moved / host.link_rate, added / host.sum_rate});
  }
  return longest;
}

bool pays(const server_plan& plan) {
  return worthwhile * plan.seconds_per_byte < plan.ring_seconds_per_byte;
}

std::vector<double> even_out(std::span<const double> rates) {
  std::vector<std::size_t> order(rates.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return rates[i]; });
  std::vector<double> even(rates.size());
  for (std::size_t first = 0, last = 0; first < order.size(); first = last) {
    double sum = rates[order[first]]; // whatever its rate is, each round takes one
    for (last = first + 1; last < order.size() && rates[order[last]] <= equal_rates * rates[order[first]]; ++last)
      sum += rates[order[last]];
    for (std::size_t i = first; i < last; ++i)
      even[order[i]] = sum / static_cast<double>(last - first);
  }
  return even;
}

server_plan plan_measured(std::vector<exchange_host> hosts) {
  std::vector<double> rates(hosts.size());
  std::ranges::transform(hosts, rates.begin(), &exchange_host::link_rate);
  rates = even_out(rates);
  for (std::size_t i = 0; i < hosts.size(); ++i)
    hosts[i].link_rate = rates[i];
  return plan_servers(hosts);
}

} // namespace dynamix::cluster
