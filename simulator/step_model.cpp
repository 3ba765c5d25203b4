#include "simulator/step_model.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

namespace dynamix::simulator {

void share_cores(std::span<const double> ready, std::span<const double> work, std::uint32_t cores,
                 std::span<double> finished) {
  if (cores == 0 || work.size() <= cores) {
    std::ranges::transform(ready, work, finished.begin(), std::plus());
    return;
  }
  std::vector<double> left(work.begin(), work.end());
  std::vector<std::size_t> waiting(work.size());
  std::iota(waiting.begin(), waiting.end(), std::size_t{0});
  std::ranges::sort(waiting, std::greater(), [&](std::size_t job) { return ready[job]; });
  std::vector<std::size_t> active;
  double now = 0;
  while (!waiting.empty() || !active.empty()) {
    if (active.empty())
      now = std::max(now, ready[waiting.back()]);
    for (; !waiting.empty() && ready[waiting.back()] <= now; waiting.pop_back())
      active.push_back(waiting.back());
    const double rate = std::min(1.0, static_cast<double>(cores) / static_cast<double>(active.size()));
    const auto next = std::ranges::min_element(active, {}, [&](std::size_t job) { return left[job]; });
    const auto ending = *next;
    const double end = now + left[ending] / rate;
    const bool ends = waiting.empty() || end <= ready[waiting.back()];
    const double until = ends ? end : ready[waiting.back()];
    for (const auto job : active)
      left[job] -= (until - now) * rate;
    now = until;
    if (ends) {
      finished[ending] = now;
      active.erase(next);
    }
  }
}

double shared_cores::step_seconds(std::span<const double> work, std::span<const double> slowdown,
                                  double exchange_seconds, double overlap, std::span<double> computing) {
  share_cores(ready_, work, cores_, finished_);
  const double seconds = simulator::step_seconds(std::ranges::max(finished_), exchange_seconds, overlap);
  for (std::size_t i = 0; i < ready_.size(); ++i) {
    computing[i] = finished_[i] - ready_[i];
    ready_[i] = std::max(0.0, ready_[i] + computing[i] * slowdown[i] - seconds);
  }
  return seconds;
}

std::vector<double> planned_shares(std::span<const cluster::exchange_host> hosts, cluster::exchange_kind how) {
  if (how == cluster::exchange_kind::ring || std::ranges::count_if(hosts, &cluster::exchange_host::works) < 2)
    return {};
  auto plan = cluster::plan_measured({hosts.begin(), hosts.end()});
  if (how == cluster::exchange_kind::automatic && !cluster::pays(plan))
    return {};
  return std::move(plan.shares);
}

namespace {

double ring_copies(const network& now) {
  const auto workers = static_cast<double>(now.workers);
  return 2 * (workers - 1) / workers;
}

double slowest_link(const network& now) {
  return std::ranges::min(std::span(now.hosts).first(now.workers), {}, &cluster::exchange_host::link_rate).link_rate;
}

/// Seconds of a byte that is summed, by whoever does.
double byte_seconds(const network& now) {
  return now.shares.empty() ? ring_copies(now) / slowest_link(now) : cluster::seconds_per_byte(now.hosts, now.shares);
}

/// The rows' load, and how long servers take in relation to a ring.
exchange::form_load load_of(const network& now) {
  auto load = now.sparse;
  load.members = static_cast<std::uint32_t>(now.workers);
  load.servers_time = now.shares.empty() ? 0 : byte_seconds(now) * slowest_link(now) / ring_copies(now);
  return load;
}

/// What rows send over the slowest link, or as many bytes as a ring would in the same time.
double sparse_bytes(const network& now) {
  return now.sparse.items == 0 ? 0 : exchange::bytes_of(route_of(now), load_of(now));
}

} // namespace

exchange::route route_of(const network& now) {
  using exchange::form;
  const auto load = load_of(now);
  std::vector<form> forms = {now.compression};
  if (now.compression == form::automatic)
    forms = {form::none, form::union_of_items, form::gather, form::lhc};
  std::vector<exchange::route> routes;
  for (const auto how : forms)
    routes.push_back({how, load.servers_time > 0 && how != form::gather});
  return std::ranges::min(routes, {}, [&](const exchange::route& by) { return exchange::bytes_of(by, load); });
}

double sent_bytes(const network& now) {
  if (now.workers < 2)
    return 0;
  const auto workers = static_cast<double>(now.workers);
  double summed = 0; // by workers
  for (std::size_t i = 0; i < std::min(now.shares.size(), now.workers); ++i)
    summed += now.shares[i];
  const double copies = now.shares.empty() ? ring_copies(now) : 1 + (workers - 2) / workers * summed;
  return now.gradient_bytes * copies + sparse_bytes(now);
}

double exchange_seconds(const network& now) {
  if (now.workers < 2)
    return 0;
  const double messages = now.shares.empty() ? 2 * static_cast<double>(now.workers - 1) : 2;
  const double lossless =
      now.gradient_bytes * byte_seconds(now) + sparse_bytes(now) / slowest_link(now) + messages * now.latency_seconds;
  return lossless / (1 - now.loss_rate);
}

double step_seconds(double computing_seconds, double exchange_seconds, double overlap) {
  if (overlap == 1 || exchange_seconds == 0)
    return computing_seconds + exchange_seconds;
  const double longer = std::max(computing_seconds, exchange_seconds);
  const double shorter = std::min(computing_seconds, exchange_seconds);
  return longer * std::pow(1 + std::pow(shorter / longer, overlap), 1 / overlap);
}

} // namespace dynamix::simulator
