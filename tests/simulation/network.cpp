#include "tests/simulation/network.hpp"

#include "tests/simulation/remote.hpp"
#include "tests/simulation/simulation.hpp"

#include <algorithm>

namespace dynamix::simulation {

namespace {

constexpr std::array both = {side::server, side::client};

} // namespace

network::~network() {
  for (const auto& one : connections_)
    for (const auto which : both)
      take_down(*one, which);
}

std::int64_t network::latency_us() {
  auto& random = world_.random;
  if (longest_delay_us > 0 && random.chance(0.3))
    return random.between(0, longest_delay_us);
  return random.chance(0.02) ? random.between(1000, 80'000) : random.between(200, 3000);
}

connection_ptr network::connect(connection_owner& owner, std::uint32_t client, std::uint32_t server) {
  if (cut_.contains(std::minmax(client, server)) || !world_.reachable(server))
    return nullptr;
  // A process has one connection to another; a second is made when the first is gone on both sides.
  for (const auto& one : connections_) {
    if (one->owner != &owner || one->server().host != server || one->client().life != world_.life(client))
      continue;
    if (!one->stands())
      return nullptr;
    one->gateway = world_.gateway(server);
    if (one->proxy)
      caf::anon_send(one->proxy, atom::connected_v, one->gateway);
    return one;
  }
  auto made = std::make_shared<connection>();
  made->client().host = client;
  made->client().life = world_.life(client);
  made->server().host = server;
  made->server().life = world_.life(server);
  made->owner = &owner;
  made->gateway = world_.gateway(server);
  connections_.push_back(made);
  return made;
}

void network::send(const connection_ptr& through, side to, std::function<void()> deliver) {
  if (!through->at(to == side::client ? side::server : side::client).up)
    return;
  auto& end = through->at(to);
  const auto delay_us = through->local() ? world_.random.between(0, 100) : latency_us();
  end.arrives_us = std::max(end.arrives_us, world_.time.now_us() + delay_us);
  world_.time.at(end.arrives_us, [this, through, to, deliver = std::move(deliver)] { arrive(through, to, deliver); });
}

void network::arrive(const connection_ptr& through, side at, const std::function<void()>& deliver) {
  auto& end = through->at(at);
  if (!end.up)
    return;
  if (is_cut(*through))
    return end.held.push_back(deliver);
  world_.run_at(end.host, end.life, [through, at, deliver] {
    if (through->at(at).up)
      deliver();
  });
}

/// What stands on that side for the other ends with it.
void network::take_down(connection& one, side which) {
  auto& end = one.at(which);
  end.up = false;
  end.held.clear();
  if (which == side::server && one.proxy)
    caf::anon_send_exit(one.proxy, caf::exit_reason::kill);
  end_remotes(end);
}

void network::forget_broken() {
  std::erase_if(connections_, [](const auto& each) { return !each->ends[0].up && !each->ends[1].up; });
}

void network::break_side(const connection_ptr& one, side which) {
  world_.run_at(one->at(which).host, one->at(which).life, [this, one, which] {
    if (!one->at(which).up)
      return;
    world_.log([&] {
      return fmt::format("network: {} loses its connection to {}", world_.host_name(one->at(which).host),
                         world_.host_name(one->at(which == side::client ? side::server : side::client).host));
    });
    take_down(*one, which);
    if (which == side::client)
      one->owner->connection_lost(one);
    settle(one);
    forget_broken();
  });
}

void network::settle(const connection_ptr& one) {
  if (one->ends[0].up == one->ends[1].up || is_cut(*one))
    return;
  // The end comes behind what was sent before it.
  const auto& left = one->server().up ? one->server() : one->client();
  const auto end_us = std::max(left.arrives_us, world_.time.now_us() + world_.random.between(100, 20'000));
  world_.time.at(end_us, [this, one] {
    if (is_cut(*one))
      return;
    for (const auto which : both)
      break_side(one, which);
  });
}

void network::settle(std::uint32_t host) {
  for (const auto& one : connections_)
    if (touches(*one, host))
      settle(one);
}

void network::reset(std::uint32_t host) {
  for (const auto& one : connections_)
    if (touches(*one, host) && !one->local())
      for (const auto which : both)
        world_.time.after(world_.random.between(0, 20'000), [this, one, which] { break_side(one, which); });
}

bool network::is_silent(const connection& one) const {
  return is_cut(one) || world_.stopped(one.ends[0].host) || world_.stopped(one.ends[1].host);
}

void network::await_silence(const connection_ptr& one) {
  const auto silence = ++one->silences;
  const std::int64_t timeout_us = world_.timeouts.connection_timeout_ms * us_per_ms;
  // Heartbeats are looked after once an interval.
  const std::int64_t interval_us = world_.timeouts.heartbeat_interval_ms * us_per_ms;
  for (const auto which : both)
    world_.time.after(timeout_us + world_.random.between(0, interval_us), [this, one, which, silence] {
      if (one->silences == silence && is_silent(*one))
        break_side(one, which);
    });
}

void network::await_silence(std::uint32_t host) {
  for (const auto& one : connections_)
    if (touches(*one, host) && !one->local())
      await_silence(one);
}

void network::cut(std::uint32_t one, std::uint32_t other) {
  if (one == other || !cut_.insert(std::minmax(one, other)).second)
    return;
  for (const auto& each : connections_)
    if (touches(*each, one) && touches(*each, other))
      await_silence(each);
}

void network::heal(std::uint32_t one, std::uint32_t other) {
  if (cut_.erase(std::minmax(one, other)) == 0)
    return;
  for (const auto& each : std::vector(connections_)) {
    if (!touches(*each, one) || !touches(*each, other) || each->local())
      continue;
    // At once: the rest of what was sent is still on its way, and must not overtake it.
    for (const auto which : both)
      for (const auto& held : std::exchange(each->at(which).held, {}))
        arrive(each, which, held);
    settle(each);
  }
}

void network::heal_all() {
  for (const auto& [one, other] : std::set(cut_))
    heal(one, other);
}

void network::host_gone(std::uint32_t host) {
  for (const auto& one : connections_)
    for (const auto which : both)
      if (one->at(which).host == host && one->at(which).up)
        take_down(*one, which);
  forget_broken();
  settle(host);
}

} // namespace dynamix::simulation
