#include "tests/simulation/worker_model.hpp"

#include "tests/simulation/simulation.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::simulation {

void simulated_worker::start(std::uint64_t checkpoint_steps) {
  if (alive_ || finished())
    return;
  incarnation_ = world_.next_incarnation++;
  alive_ = true;
  hung_ = false;
  now_ = phase::idle;
  link_ = nullptr;
  connect_delay_us_ = 0;
  has_gateway_ = greeting_under_way_ = false;
  hub_ = nullptr;
  unheard_.reset();
  slot_ = nullptr;
  watch_.emplace(world_.timeouts);
  newest_ = {};
  known_generation_ = 0;
  known_training_ = false;
  checkpoint_steps_ = checkpoint_steps;
  greeting_delay_seconds_ = 0;
  duplicate_since_seconds_ = -1;
  leave_asked_seconds_.reset();
  thread = {};
  log([&] { return fmt::format("starts, incarnation {}, checkpoint of step {}", incarnation_, checkpoint_steps); });
  attempt();
  tick();
}

void simulated_worker::crash() {
  if (!alive_)
    return;
  log([] { return "dies"; });
  alive_ = false;
  deferred_.clear();
  pending_.clear();
  hub_ = nullptr;
  link_ = nullptr;
  world_.net.worker_gone(rank_, incarnation_);
  if (auto place = std::exchange(thread.place, nullptr); place && thread.entered)
    place->died(rank_);
}

void simulated_worker::hang() {
  if (!alive_ || hung_)
    return;
  log([] { return "is stopped"; });
  hung_ = true;
  world_.net.await_silence(rank_);
}

void simulated_worker::wake() {
  if (!alive_ || !std::exchange(hung_, false))
    return;
  log([] { return "goes on"; });
  for (auto& action : std::exchange(deferred_, {}))
    run(incarnation_, std::move(action));
  if (!world_.net.is_cut(rank_))
    world_.net.settle(rank_);
  world_.retry_rings();
}

void simulated_worker::ask_to_leave(std::int64_t restart_delay_us) {
  const bool alone = std::ranges::none_of(newest_.members,
                                          [this](auto rank) { return rank != rank_ && !world_.workers[rank]->away_; });
  if (!alive_ || leaves() || alone || now_ < phase::waiting || now_ >= phase::leaving)
    return;
  log([] { return "is asked to leave"; });
  away_ = true;
  restart_delay_us_ = restart_delay_us;
  leave_asked_seconds_ = static_cast<double>(world_.time.now_us()) / us_per_second;
  run(incarnation_, [this] {
    if (now_ == phase::waiting)
      part();
    else
      look_after_leave();
  });
}

void simulated_worker::run(std::uint64_t incarnation, std::function<void()> action) {
  if (!alive_ || incarnation != incarnation_)
    return;
  if (hung_)
    deferred_.push_back(std::move(action));
  else
    action();
}

void simulated_worker::after(std::int64_t delay_us, std::function<void()> action) {
  world_.time.after(delay_us, [this, incarnation = incarnation_, action = std::move(action)]() mutable {
    run(incarnation, std::move(action));
  });
}

void simulated_worker::request(const std::function<void(const connection_ptr&, std::uint64_t)>& ask,
                               std::int64_t timeout_us, std::function<void(const answer&)> then) {
  const auto ticket = ++tickets_;
  pending_[ticket] = std::move(then);
  after(timeout_us, [this, ticket] { answered(ticket, {}); });
  if (link_)
    world_.net.to_hub(link_, [ask, link = link_, ticket] { ask(link, ticket); });
}

void simulated_worker::answered(std::uint64_t ticket, const answer& said) {
  if (const auto found = pending_.find(ticket); found != pending_.end()) {
    const auto then = std::move(found->second);
    pending_.erase(found);
    then(said);
  }
}

// connector.cpp

void simulated_worker::attempt() {
  link_ = world_.net.connect(rank_, incarnation_);
  if (!link_) {
    connect_delay_us_ = std::clamp(connect_delay_us_ * 2, 100 * us_per_ms, 2 * us_per_second);
    return after(connect_delay_us_, [this] { attempt(); });
  }
  connect_delay_us_ = 0;
  // The handshake takes a moment.
  after(world_.random.between(500, 10'000), [this, link = link_] {
    if (link != link_ || !link->worker.up)
      return;
    log([] { return "has connected"; });
    has_gateway_ = true;
    greeting_under_way_ = false;
    greet();
  });
}

void simulated_worker::connection_lost(const connection_ptr& one) {
  if (one != link_)
    return;
  log([] { return "its connection breaks"; });
  link_ = nullptr;
  has_gateway_ = false;
  orphan();
  after(100 * us_per_ms, [this] { attempt(); });
}

/// DOWN of the gateway or of an aggregator.
void simulated_worker::actor_gone(const connection_ptr& through, const caf::actor_addr& gone) {
  if (through != link_)
    return;
  if (gone == through->gateway.address()) {
    log([] { return "the gateway is gone"; });
    has_gateway_ = false;
    orphan();
    after(100 * us_per_ms, [this, through] {
      if (through == link_)
        attempt();
    });
  } else if (hub_ && gone == hub_.address()) {
    log([] { return "its aggregator is gone"; });
    orphan();
    greet();
  }
}

} // namespace dynamix::simulation
