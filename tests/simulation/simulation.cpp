#include "tests/simulation/simulation.hpp"

#include "cluster/places.hpp"

#include <algorithm>
#include <limits>

namespace dynamix::simulation {

namespace {

/// Virtual time within which a cluster without faults must be together, and then come to its end.
constexpr std::int64_t reunion_us = 30 * us_per_second;
constexpr std::int64_t end_us = 60 * us_per_second;
constexpr std::uint64_t events_most = 400'000;

cluster::cluster_file draw_file(random_source& random, std::uint64_t seed, arbitration_form form) {
  cluster::cluster_file file;
  file.name = "simulated";
  file.seed = seed;
  file.arbitrator.window_steps = static_cast<std::uint32_t>(random.between(5, 8));
  file.arbitrator.policy = cluster::policy_kind::static_batch;
  if (seed % 256 == 7)
    file.arbitrator.policy = cluster::policy_kind::ppo;
  else if (seed % 16 == 3)
    file.arbitrator.policy = cluster::policy_kind::lb_bsp;
  file.hosts = {{.name = "north", .port = 1, .roles = {cluster::role::arbitrator}}};
  auto workers = random.between(2, 5);
  if (form == arbitration_form::tree) {
    file.arbitrator.topology = cluster::arbitration_topology::tree;
    file.arbitrator.fanout = 2;
    workers = random.between(3, 8);
  }
  for (std::int64_t rank = 0; rank < workers; ++rank)
    file.hosts.push_back({.name = "w" + std::to_string(rank), .port = static_cast<std::uint16_t>(rank + 2)});
  return file;
}

/// Several workers a host, which come and go with it. Of a tree, in one seed of six.
std::uint32_t slots_a_host(std::uint64_t seed, arbitration_form form) {
  return form == arbitration_form::tree && seed % 6 == 4 ? 2 + seed / 6 % 2 : 1;
}

/// The file of hosts that each have so many workers, but the last, which may have fewer.
cluster::cluster_file with_slots(cluster::cluster_file file, std::uint32_t count) {
  if (count < 2)
    return file;
  std::vector<cluster::host> hosts = {file.hosts[0]};
  for (std::size_t rank = 0; rank + 1 < file.hosts.size(); ++rank) {
    if (rank % count == 0)
      hosts.push_back(file.hosts[rank + 1]);
    auto slot = file.hosts[rank + 1];
    slot.name = fmt::format("{}/{}", hosts.back().name, rank % count);
    hosts.back().slots.push_back(std::move(slot));
  }
  for (auto& host : hosts)
    host.workers = static_cast<std::uint32_t>(host.slots.size());
  file.hosts = std::move(hosts);
  file.arbitrator.fanout = 4; // so few hosts have no room for three levels
  return file;
}

/// What all hosts know of the cluster. In one seed of eight it is open: some of the workers, without a tree perhaps
/// all, are guests, training begins with few of them, and there is a place too many.
cluster::cluster_file known_file(cluster::cluster_file file, std::uint64_t seed, arbitration_form form) {
  const auto workers = file.hosts.size() - 1;
  file = with_slots(std::move(file), slots_a_host(seed, form));
  if (seed % 8 != 2)
    return file;
  const std::uint64_t least = form == arbitration_form::tree ? 1 : 0;
  file.membership = cluster::membership_kind::open;
  file.workers_min = static_cast<std::uint32_t>(1 + seed / 8 % workers);
  file.workers_max = static_cast<std::uint32_t>(workers + 1);
  file.hosts.resize(1 + std::min<std::uint64_t>(std::max(least, seed / 64 % workers), file.hosts.size() - 1));
  return cluster::with_places(std::move(file));
}

cluster::tree_plan plan_of(const cluster::cluster_file& file) {
  auto plan = cluster::plan_tree(file);
  return plan.central() ? cluster::tree_plan{} : plan;
}

} // namespace

simulation::simulation(std::uint64_t number, arbitration_form form, bool keep_log)
    : seed(number), random(number), time(shared_actor_system(), random), file(draw_file(random, number, form)),
      shared_file(std::make_shared<const cluster::cluster_file>(known_file(file, number, form))),
      names(std::make_shared<actors::worker_names>(*shared_file)),
      plan(form == arbitration_form::tree ? plan_of(*shared_file) : cluster::tree_plan{}),
      digest(shared_file->digest()), timeouts(cluster::derive_timeouts(1000)),
      total_steps(std::numeric_limits<std::uint64_t>::max()), checks(*this), host(*this), net(*this), faults(*this),
      keep_log_(keep_log) {
  for (std::uint32_t rank = 0; rank + 1 < file.hosts.size(); ++rank) {
    const auto& known = *shared_file->workers()[rank];
    const bool guest = cluster::is_place(known);
    machines_.push_back(guest ? rank : rank - rank % slots_a_host(number, form));
    names_.push_back(guest ? file.hosts[rank + 1].name : known.name);
    names->give(rank, names_.back()); // guests have been there before: what a rank means depends on no order
    workers.push_back(std::make_unique<simulated_worker>(*this, rank));
  }
  for (std::size_t index = 0; index < plan.nodes.size(); ++index)
    nodes.push_back(std::make_unique<tree_node>(*this, index));
  // Also of an open cluster and of hosts of several workers, which other remainders by even numbers draw.
  if (number % 4 == 1 || number % 7 == 3)
    host.replicate();
}

simulation::~simulation() {
  // While all that actors call back still stands.
  keep_log_ = false;
  token = nullptr;
  for (const auto& node : nodes)
    node->crash();
  host.crash();
}

bool simulation::step(std::int64_t until_us) {
  if (!checks.violation().empty())
    return false;
  if (time.count() > events_most)
    checks.violated("it runs away");
  return time.step(until_us);
}

simulation_result simulation::run() {
  const bool harmless = random.chance(0.05);
  const bool ends_under_faults = random.chance(0.3);
  const auto horizon_us = random.between(1500, 5000) * us_per_ms;
  if (harmless || ends_under_faults)
    total_steps = static_cast<std::uint64_t>(random.between(10, 60));
  time.after(random.between(0, 500) * us_per_ms, [this] { host.start(); });
  for (std::uint32_t rank = 0; rank < workers.size(); ++rank)
    time.after(random.between(0, 500) * us_per_ms, [this, rank] { workers[rank]->start(0); });
  if (!harmless)
    faults.plan(horizon_us, 5);
  while (!(all_ended() && host.ended()) && step(horizon_us))
    continue;
  heal();
  if (total_steps == std::numeric_limits<std::uint64_t>::max())
    run_until_together();
  run_to_the_end();
  if (checks.violation().empty())
    checks.finish();
  return {.violation = checks.violation(),
          .log = std::move(log_),
          .virtual_us = time.now_us(),
          .events = time.count(),
          .generations = checks.generations(),
          .decisions = checks.decisions(),
          .faults = faults.struck()};
}

void simulation::heal() {
  log([] { return "all faults are over"; });
  faults.stop();
  net.longest_delay_us = 0;
  host.thaw();
  net.heal_all();
  for (std::uint32_t rank = 0; rank < workers.size(); ++rank) {
    workers[rank]->wake();
    start_worker(rank);
  }
  cut_pairs_.clear();
  host.start();
  retry_rings();
  time.run_jobs();
}

bool simulation::all_together() const {
  const auto& place = workers[0]->thread.place;
  return place && place->goes_on() && place->place().members.size() == workers.size() &&
         std::ranges::all_of(workers, [&](const auto& one) {
           return one->alive() && one->thread.place == place && !one->thread.interrupted;
         });
}

/// All are in one generation again, and a window of it is decided.
void simulation::run_until_together() {
  const auto until_us = time.now_us() + reunion_us;
  // What the faults have brought about may show only now.
  const auto settled_us = time.now_us() + 2 * timeouts.silence_ms * us_per_ms;
  std::uint64_t generation = 0;
  std::uint64_t decided = 0;
  while (step(until_us)) {
    if (!all_together())
      continue;
    const auto now = workers[0]->newest().generation;
    if (generation != now) {
      generation = now;
      decided = checks.decided_in(now);
    }
    if (checks.decided_in(now) > decided && time.now_us() > settled_us)
      break;
  }
  if (checks.violation().empty() && (generation == 0 || checks.decided_in(generation) == decided))
    checks.violated("without faults, the workers have not come together and had a window decided");
  std::uint64_t furthest = 0;
  for (const auto& one : workers)
    furthest = std::max(furthest, one->thread.state.steps);
  total_steps = furthest + static_cast<std::uint64_t>(random.between(1, 2 * file.arbitrator.window_steps));
  log([&] { return fmt::format("all are together; training ends with step {}", total_steps); });
  must_end_well_ = true;
}

void simulation::run_to_the_end() {
  auto until_us = time.now_us() + end_us;
  while (!host.ended() && !all_ended() && step(until_us))
    continue;
  // Where all that had a state have ended unheard, the others wait as they do at first.
  until_us += timeouts.join_timeout_ms * us_per_ms;
  if (!must_end_well_ && std::ranges::any_of(workers, [](const auto& one) { return one->finished(); }))
    while (!host.ended() && !all_ended() && step(until_us))
      continue;
  if (!checks.violation().empty())
    return;
  if (!host.ended() && !all_ended())
    return checks.violated("without faults, the run has not come to its end");
  // The last of either side goes.
  const auto last_us = time.now_us() + 10 * us_per_second;
  while (!(host.ended() && all_ended()) && step(last_us))
    continue;
  if (!host.ended() && (checks.farewells() > 0 || host.began_after_the_end()))
    return checks.violated("all workers have ended, and the arbitrator's host has not");
  if (!must_end_well_ && !faults.harmless())
    return;
  if (!host.ended() || !host.outcome().succeeded)
    checks.violated("the run ended in failure: " + host.outcome().reason);
  for (const auto& one : workers)
    if (!one->finished() || !one->succeeded() ||
        !(one->farewell_heard() || is_tree())) // a shard may end before it answers
      checks.violated(fmt::format("w{} did not come to a good end", one->rank()));
}

bool simulation::all_ended() const {
  return std::ranges::all_of(workers, [](const auto& one) { return one->finished(); });
}

const std::string& simulation::host_name(std::uint32_t number) const {
  return file.hosts[number].name;
}

std::uint64_t simulation::life(std::uint32_t number) const {
  return number == root_host ? host.life() : workers[number - 1]->incarnation();
}

bool simulation::stopped(std::uint32_t number) const {
  return number == root_host ? time.frozen() : workers[number - 1]->hung();
}

bool simulation::reachable(std::uint32_t number) const {
  if (number == root_host)
    return host.reachable();
  const auto* node = node_at(number);
  return node != nullptr && node->reachable() && !stopped(number);
}

actors::gateway_actor simulation::gateway(std::uint32_t number) const {
  return number == root_host ? host.gateway() : node_at(number)->gateway();
}

void simulation::run_at(std::uint32_t number, std::uint64_t process, std::function<void()> action) {
  if (number == root_host)
    host.run(std::move(action));
  else
    workers[number - 1]->run(process, std::move(action));
}

std::uint32_t simulation::host_of_node(std::size_t node) const {
  const auto found = std::ranges::find(file.hosts, plan.nodes[node].host, &cluster::host::name);
  return static_cast<std::uint32_t>(found - file.hosts.begin());
}

tree_node* simulation::node_at(std::uint32_t number) const {
  for (std::size_t index = 1; index < nodes.size(); ++index)
    if (plan.nodes[index].host == host_name(number))
      return nodes[index].get();
  return nullptr;
}

std::vector<std::uint32_t> simulation::places_for(std::uint32_t rank) const {
  if (!is_tree())
    return {root_host};
  std::vector<std::uint32_t> hosts;
  for (const auto node : plan.places_for_worker(rank))
    hosts.push_back(host_of_node(node));
  return hosts;
}

std::shared_ptr<ring> simulation::ring_at(const meeting_point& where, const messages::placement& place) {
  auto& found = rings_[where];
  if (!found)
    found = std::make_shared<ring>(*this, place, where);
  if (found->place() != place)
    checks.violated(fmt::format("two placements of generation {} meet in one store", place.generation));
  return found;
}

void simulation::retry_rings() {
  for (const auto& [where, one] : rings_)
    one->retry();
}

void simulation::heal_peers(std::uint32_t one, std::uint32_t other) {
  cut_pairs_.erase(std::minmax(one, other));
  retry_rings();
}

void simulation::write_checkpoint(const training_state& state) {
  checkpoints_[state.steps] = state;
}

training_state simulation::load_checkpoint(const simulated_worker& worker) const {
  const auto found = checkpoints_.find(worker.checkpoint_steps());
  return found == checkpoints_.end() ? training_state{} : found->second;
}

std::vector<std::uint32_t> simulation::mates(std::uint32_t rank) const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t other = 0; other < machines_.size(); ++other)
    if (machines_[other] == machines_[rank])
      found.push_back(other);
  return found;
}

void simulation::restart_worker(std::uint32_t rank, std::int64_t delay_us) {
  for (const auto mate : mates(rank)) {
    workers[mate]->crash();
    time.after(delay_us, [this, mate] { start_worker(mate); });
  }
}

void simulation::start_worker(std::uint32_t rank) {
  const bool finds_one = !checkpoints_.empty() && random.chance(0.6);
  workers[rank]->start(finds_one ? checkpoints_.rbegin()->first : 0);
}

} // namespace dynamix::simulation
