#include "tests/simulation/network.hpp"

#include "tests/simulation/simulation.hpp"

#include <algorithm>

namespace dynamix::simulation {

network::network(simulation& world, std::uint32_t workers) : world_(world), cut_(workers), silences_(workers) {}

network::~network() {
  for (const auto& one : connections_)
    if (one->hub.up)
      caf::anon_send_exit(one->proxy, caf::exit_reason::kill);
}

std::int64_t network::latency_us() {
  auto& random = world_.random;
  if (longest_delay_us > 0 && random.chance(0.3))
    return random.between(0, longest_delay_us);
  return random.chance(0.02) ? random.between(1000, 80'000) : random.between(200, 3000);
}

connection_ptr network::connect(std::uint32_t rank, std::uint64_t incarnation) {
  auto& host = world_.host;
  if (cut_[rank] || !host.reachable())
    return nullptr;
  // A process has one connection to another; a second is made when the first is gone on both sides.
  for (const auto& one : connections_) {
    if (one->rank != rank || one->incarnation != incarnation)
      continue;
    if (!stands(*one))
      return nullptr;
    one->gateway = host.gateway();
    host.watch_gateway(*one);
    return one;
  }
  auto made = std::make_shared<connection>();
  made->rank = rank;
  made->incarnation = incarnation;
  made->host_life = host.life();
  made->gateway = host.gateway();
  made->proxy = host.spawn_proxy(made);
  connections_.push_back(made);
  return made;
}

void network::to_hub(const connection_ptr& through, std::function<void()> deliver) {
  if (through->worker.up)
    send(through, true, std::move(deliver));
}

void network::to_worker(const connection_ptr& through, std::function<void()> deliver) {
  if (through->hub.up)
    send(through, false, std::move(deliver));
}

void network::send(const connection_ptr& through, bool to_hub, std::function<void()> deliver) {
  auto& end = to_hub ? through->hub : through->worker;
  end.arrives_us = std::max(end.arrives_us, world_.time.now_us() + latency_us());
  world_.time.at(end.arrives_us,
                 [this, through, to_hub, deliver = std::move(deliver)] { arrive(through, to_hub, deliver); });
}

void network::arrive(const connection_ptr& through, bool at_hub, const std::function<void()>& deliver) {
  auto& end = at_hub ? through->hub : through->worker;
  if (!end.up)
    return;
  if (cut_[through->rank])
    return end.held.push_back(deliver);
  if (at_hub)
    world_.host.run([through, deliver] {
      if (through->hub.up)
        deliver();
    });
  else
    world_.workers[through->rank]->run(through->incarnation, [through, deliver] {
      if (through->worker.up)
        deliver();
    });
}

void network::break_hub_side(const connection_ptr& one) {
  world_.host.run([this, one] {
    if (!one->hub.up)
      return;
    one->hub.up = false;
    one->hub.held.clear();
    world_.log([&] { return fmt::format("hub: the connection to w{} breaks", one->rank); });
    caf::anon_send_exit(one->proxy, caf::exit_reason::kill);
    if (!cut_[one->rank])
      settle(one->rank);
    std::erase_if(connections_, [](const auto& each) { return !each->hub.up && !each->worker.up; });
  });
}

void network::break_worker_side(const connection_ptr& one) {
  world_.workers[one->rank]->run(one->incarnation, [this, one] {
    if (!one->worker.up)
      return;
    one->worker.up = false;
    one->worker.held.clear();
    world_.workers[one->rank]->connection_lost(one);
    if (!cut_[one->rank])
      settle(one->rank);
    std::erase_if(connections_, [](const auto& each) { return !each->hub.up && !each->worker.up; });
  });
}

void network::settle(std::uint32_t rank) {
  for (const auto& one : connections_) {
    if (one->rank != rank || one->hub.up == one->worker.up)
      continue;
    // The end comes behind what was sent before it.
    const auto& left = one->hub.up ? one->hub : one->worker;
    const auto end_us = std::max(left.arrives_us, world_.time.now_us() + world_.random.between(100, 20'000));
    world_.time.at(end_us, [this, one] {
      if (cut_[one->rank])
        return;
      break_hub_side(one);
      break_worker_side(one);
    });
  }
}

void network::reset(std::uint32_t rank) {
  for (const auto& one : connections_)
    if (one->rank == rank) {
      auto& random = world_.random;
      world_.time.after(random.between(0, 20'000), [this, one] { break_hub_side(one); });
      world_.time.after(random.between(0, 20'000), [this, one] { break_worker_side(one); });
    }
}

void network::await_silence(std::uint32_t rank) {
  const auto silence = ++silences_[rank];
  const std::int64_t timeout_us = world_.timeouts.connection_timeout_ms * us_per_ms;
  for (const auto& one : connections_) {
    if (one->rank != rank)
      continue;
    const auto silent = [this, rank, silence] {
      return silences_[rank] == silence && (cut_[rank] || world_.workers[rank]->hung() || world_.time.frozen());
    };
    // Heartbeats are looked after once an interval.
    const std::int64_t interval_us = world_.timeouts.heartbeat_interval_ms * us_per_ms;
    world_.time.after(timeout_us + world_.random.between(0, interval_us), [this, one, silent] {
      if (silent())
        break_hub_side(one);
    });
    world_.time.after(timeout_us + world_.random.between(0, interval_us), [this, one, silent] {
      if (silent())
        break_worker_side(one);
    });
  }
}

void network::cut(std::uint32_t rank) {
  if (cut_[rank])
    return;
  cut_[rank] = true;
  await_silence(rank);
}

void network::heal(std::uint32_t rank) {
  if (!cut_[rank])
    return;
  cut_[rank] = false;
  for (const auto& one : std::vector(connections_)) {
    if (one->rank != rank)
      continue;
    // At once: the rest of what was sent is still on its way, and must not overtake it.
    for (const bool hub : {true, false})
      for (const auto& held : std::exchange((hub ? one->hub : one->worker).held, {}))
        arrive(one, hub, held);
  }
  settle(rank);
}

void network::worker_gone(std::uint32_t rank, std::uint64_t incarnation) {
  for (const auto& one : connections_)
    if (one->rank == rank && one->incarnation == incarnation)
      one->worker.up = false;
  std::erase_if(connections_, [](const auto& each) { return !each->hub.up && !each->worker.up; });
  if (!cut_[rank])
    settle(rank);
}

void network::hub_gone() {
  for (const auto& one : connections_) {
    if (!one->hub.up)
      continue;
    one->hub.up = false;
    one->hub.held.clear();
    caf::anon_send_exit(one->proxy, caf::exit_reason::kill);
  }
  std::erase_if(connections_, [](const auto& each) { return !each->hub.up && !each->worker.up; });
  for (std::uint32_t rank = 0; rank < cut_.size(); ++rank)
    if (!cut_[rank])
      settle(rank);
}

} // namespace dynamix::simulation
