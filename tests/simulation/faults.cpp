#include "tests/simulation/faults.hpp"

#include "tests/simulation/simulation.hpp"

#include <algorithm>
#include <array>

namespace dynamix::simulation {

namespace {

constexpr std::array<const char*, tree_fault_kinds> fault_names = {"reset",
                                                                   "cut",
                                                                   "cut_half",
                                                                   "cut_peers",
                                                                   "crash",
                                                                   "hang",
                                                                   "leave",
                                                                   "slow_network",
                                                                   "kill_arbitrator",
                                                                   "kill_aggregator",
                                                                   "kill_gateway",
                                                                   "crash_host",
                                                                   "freeze_host",
                                                                   "kill_shard",
                                                                   "kill_shard_arbitrator",
                                                                   "kill_shard_gateway",
                                                                   "cut_parent",
                                                                   "command"};

/// Mostly shorter than what anybody would notice, or about as long, sometimes much longer.
std::int64_t draw_duration_us(random_source& random) {
  switch (random.below(4)) {
  case 0:
    return random.between(1, 300) * us_per_ms;
  case 1:
    return random.between(300, 2000) * us_per_ms;
  case 2:
    return random.between(1200, 1900) * us_per_ms;
  default:
    return random.between(2000, 9000) * us_per_ms;
  }
}

} // namespace

void fault_injector::plan(std::int64_t horizon_us, std::uint32_t most) {
  auto& random = world_.random;
  const auto count = 1 + random.below(most);
  // Some seeds know few kinds, so that each kind is also seen alone.
  const bool narrow = random.chance(0.4);
  const auto kinds = world_.is_tree() ? tree_fault_kinds : fault_kinds;
  const std::array<fault_kind, 2> chosen = {static_cast<fault_kind>(random.below(kinds)),
                                            static_cast<fault_kind>(random.below(kinds))};
  const bool commanded = world_.is_tree() && random.chance(0.3);
  for (std::uint64_t i = 0; i < count + (commanded ? 1 : 0); ++i) {
    planned_fault fault;
    fault.kind = i == count ? fault_kind::command
                 : narrow   ? chosen[random.below(2)]
                            : static_cast<fault_kind>(random.below(kinds));
    fault.trigger = random.chance(0.4) ? fault_trigger::time : static_cast<fault_trigger>(random.below(fault_triggers));
    fault.at_us = random.between(0, horizon_us);
    fault.delay_us = random.chance(0.5) ? random.between(0, 5000) : random.between(0, 200'000);
    fault.duration_us = draw_duration_us(random);
    fault.rank = static_cast<std::uint32_t>(random.below(world_.workers.size()));
    fault.other = static_cast<std::uint32_t>(random.below(world_.workers.size()));
    fault.preempts = random.chance(0.5);
    plan_.push_back(fault);
  }
  for (std::size_t i = 0; i < plan_.size(); ++i)
    if (plan_[i].trigger == fault_trigger::time)
      world_.time.at(plan_[i].at_us, [this, i] { strike(plan_[i]); });
}

void fault_injector::notice(fault_trigger what) {
  if (stopped_)
    return;
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    auto& fault = plan_[i];
    if (fault.trigger != what || fault.done || fault.at_us > world_.time.now_us())
      continue;
    fault.done = true;
    world_.time.after(fault.delay_us, [this, i] { strike(plan_[i]); });
  }
}

void fault_injector::felt() {
  last_us_ = world_.time.now_us();
}

void fault_injector::strike(const planned_fault& fault) {
  if (stopped_ || world_.host.ended())
    return;
  ++struck_;
  orderly_ &= fault.kind == fault_kind::leave || fault.kind == fault_kind::command;
  last_us_ = world_.time.now_us();
  world_.log([&] {
    return fmt::format("fault: {} w{} w{} for {} ms", fault_names[static_cast<std::size_t>(fault.kind)], fault.rank,
                       fault.other, fault.duration_us / us_per_ms);
  });
  if (fault.kind >= fault_kind::kill_shard)
    strike_tree(fault);
  else if (fault.kind >= fault_kind::kill_arbitrator)
    strike_host(fault);
  else
    strike_worker(fault);
}

void fault_injector::end_later(const planned_fault& fault, std::function<void()> undo) {
  world_.time.after(fault.duration_us, [this, undo = std::move(undo)] {
    last_us_ = world_.time.now_us();
    undo();
  });
}

void fault_injector::cut_from_all(std::uint32_t host, const planned_fault& fault) {
  const auto hosts = static_cast<std::uint32_t>(world_.file.hosts.size());
  for (std::uint32_t other = 0; other < hosts; ++other)
    world_.net.cut(host, other);
  end_later(fault, [this, host, hosts] {
    for (std::uint32_t other = 0; other < hosts; ++other)
      world_.net.heal(host, other);
  });
}

void fault_injector::strike_worker(const planned_fault& fault) {
  auto& world = world_;
  const auto rank = fault.rank;
  const auto other = fault.other;
  switch (fault.kind) {
  case fault_kind::reset:
    return world.net.reset(host_of(rank));
  case fault_kind::cut:
    return cut_from_all(host_of(rank), fault);
  case fault_kind::cut_half: {
    const auto most = std::min(rank, other);
    const auto each_pair = [&world, most](auto action) {
      for (std::uint32_t one = 0; one <= most; ++one)
        for (auto peer = most + 1; peer < world.workers.size(); ++peer)
          action(one, peer);
    };
    for (std::uint32_t one = 0; one <= most; ++one)
      world.net.cut(root_host, host_of(one));
    each_pair([&world](auto one, auto peer) {
      world.net.cut(host_of(one), host_of(peer));
      world.cut_peers(one, peer);
    });
    return end_later(fault, [&world, most, each_pair] {
      for (std::uint32_t one = 0; one <= most; ++one)
        world.net.heal(root_host, host_of(one));
      each_pair([&world](auto one, auto peer) {
        world.net.heal(host_of(one), host_of(peer));
        world.heal_peers(one, peer);
      });
    });
  }
  case fault_kind::cut_peers:
    if (rank == other)
      return;
    world.cut_peers(rank, other);
    return end_later(fault, [&world, rank, other] { world.heal_peers(rank, other); });
  case fault_kind::crash:
    return world.restart_worker(rank, fault.duration_us);
  case fault_kind::hang:
    for (const auto mate : world.mates(rank)) {
      world.workers[mate]->hang();
      if (world.node_at(host_of(mate)) != nullptr) // its actors run on, but nobody hears of them
        cut_from_all(host_of(mate), fault);
    }
    return end_later(fault, [&world, rank] {
      for (const auto mate : world.mates(rank))
        world.workers[mate]->wake();
    });
  case fault_kind::leave:
    return ask_to_leave(fault);
  default:
    world.net.longest_delay_us = std::min<std::int64_t>(fault.duration_us, 2 * us_per_second);
    return end_later(fault, [&world] { world.net.longest_delay_us = 0; });
  }
}

/// A provider's notice (cluster::host::preemption) is one more way to be asked, after which the host has only so much
/// time.
void fault_injector::ask_to_leave(const planned_fault& fault) {
  auto& world = world_;
  const auto mates = world.mates(fault.rank);
  for (const auto mate : mates)
    world.workers[mate]->ask_to_leave(fault.duration_us);
  // Those that do not leave end with the host all the same.
  const auto leaving = std::ranges::count_if(mates, [&](auto mate) { return world.workers[mate]->leaves(); });
  orderly_ &= leaving == 0 || static_cast<std::size_t>(leaving) == mates.size();
  if (!fault.preempts)
    return;
  world.log([&] { return fmt::format("w{} is preempted", fault.rank); });
  end_later(fault, [this, &fault, process = world.workers[fault.rank]->incarnation()] {
    const auto& worker = *world_.workers[fault.rank];
    if (stopped_ || !worker.alive() || worker.incarnation() != process)
      return;
    orderly_ = false;
    world_.restart_worker(fault.rank, fault.duration_us);
  });
}

void fault_injector::strike_host(const planned_fault& fault) {
  auto& world = world_;
  switch (fault.kind) {
  case fault_kind::kill_arbitrator:
    return world.host.kill_arbitrator();
  case fault_kind::kill_aggregator:
    if (world.host.kill_aggregator())
      end_later(fault, [&world] { world.host.start(); });
    return;
  case fault_kind::kill_gateway:
    return world.host.kill_gateway();
  case fault_kind::crash_host:
    world.host.crash();
    return end_later(fault, [&world] { world.host.start(); });
  default:
    if (world.is_tree()) // one scheduler runs the actors of all hosts
      return cut_from_all(root_host, fault);
    world.host.freeze();
    return end_later(fault, [&world] { world.host.thaw(); });
  }
}

/// About one of the shards, mostly what can be; the root refuses the rest.
void fault_injector::command(const planned_fault& fault) {
  std::vector<const cluster::tree_node*> shards;
  for (const auto& node : world_.plan.nodes)
    if (node.is_shard())
      shards.push_back(&node);
  const auto& one = *shards[fault.rank % shards.size()];
  const auto& other = *shards[fault.other % shards.size()];
  const bool unplanned = fault.duration_us / us_per_ms % 4 == 0; // after another command that can be, too
  if (one.stands_by != unplanned)
    return world_.host.command("add " + one.host);
  if (other.stands_by != unplanned)
    return world_.host.command(fmt::format("move {} {}", one.host, other.host));
  world_.host.command("drain " + one.host);
}

void fault_injector::strike_tree(const planned_fault& fault) {
  auto& world = world_;
  const auto index = fault.rank % world.nodes.size();
  auto& node = *world.nodes[index];
  switch (fault.kind) {
  case fault_kind::kill_shard:
    return node.kill_shard();
  case fault_kind::kill_shard_arbitrator:
    return node.kill_arbitrator();
  case fault_kind::kill_shard_gateway:
    return node.kill_gateway();
  case fault_kind::command:
    return command(fault);
  default: {
    const auto parent = world.host_of_node(world.plan.nodes[index].parent);
    world.net.cut(node.host(), parent);
    return end_later(fault, [&world, &node, parent] { world.net.heal(node.host(), parent); });
  }
  }
}

} // namespace dynamix::simulation
