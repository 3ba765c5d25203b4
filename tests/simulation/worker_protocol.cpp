/// What of a modelled worker follows actors/worker.cpp, worker_end.cpp and worker_state.cpp line by line.

#include "actors/leave.hpp"
#include "actors/packing.hpp"
#include "messages/leave.hpp"
#include "tests/simulation/simulation.hpp"

#include <algorithm>

namespace dynamix::simulation {

using actors::pack;
using actors::unpack;
using messages::welcome_verdict;

messages::hello simulated_worker::hello() const {
  messages::hello said;
  said.cluster = world_.file.name;
  said.cluster_digest = world_.digest;
  said.host = world_.name_of(rank_);
  said.incarnation = incarnation_;
  said.heartbeat_interval_ms = world_.timeouts.heartbeat_interval_ms;
  said.checkpoint_steps = checkpoint_steps_;
  if (!slot_)
    return said;
  said.generation = newest_.generation;
  said.last_decision = slot_->newest();
  said.training = now_ == phase::training;
  if (said.training)
    said.members = newest_.members;
  said.steps = said.attempted_steps = thread.state.steps;
  if (!said.training && said.generation > 0)
    said.attempted_steps = std::max(said.steps, thread.attempted_steps);
  return said;
}

void simulated_worker::greet_later() {
  greeting_delay_seconds_ = std::clamp(greeting_delay_seconds_ * 2, 0.1, 0.5);
  after(static_cast<std::int64_t>(greeting_delay_seconds_ * us_per_second), [this] { greet(); });
}

void simulated_worker::say_hello() {
  greeting_under_way_ = true;
  const auto number = ++greetings_;
  const auto said = hello();
  log([&] {
    return fmt::format("says hello, generation {}{}, steps {}, attempted {}, term {}", said.generation,
                       said.training ? " in training" : "", said.steps, said.attempted_steps, said.last_decision.term);
  });
  request([packed = pack(said)](const connection_ptr& link,
                                std::uint64_t ticket) { caf::anon_send(link->proxy, atom::hello_v, ticket, packed); },
          world_.timeouts.request_timeout_ms * us_per_ms,
          [this, said, number](const answer& heard) {
            if (number != greetings_ || now_ == phase::ended)
              return;
            greeting_under_way_ = false;
            const auto welcome = heard.heard ? unpack<messages::welcome>(heard.said, "worker") : std::nullopt;
            if (!welcome)
              return greet_later();
            if (welcome->verdict != welcome_verdict::accepted || !heard.hub)
              return refused(*welcome);
            accepted(*welcome, heard.hub);
            known_generation_ = said.generation;
            known_training_ = said.training;
            const bool settled = known(now_ == phase::training) || now_ > phase::training;
            if (has_gateway_ && (!settled || slot_->newest().term > welcome->term))
              say_hello();
          });
}

void simulated_worker::greet() {
  const bool wanted = now_ < phase::training || (now_ == phase::training && orphaned());
  if (!has_gateway_ || !wanted || greeting_under_way_)
    return;
  if (now_ == phase::idle)
    now_ = phase::greeting;
  say_hello();
}

void simulated_worker::accepted(const messages::welcome& welcome, const actors::aggregator_actor& hub) {
  greeting_delay_seconds_ = 0;
  duplicate_since_seconds_ = -1;
  hub_ = hub;
  log([&] { return fmt::format("is welcome, term {}, generation {}", welcome.term, welcome.generation); });
  if (const auto unheard = std::exchange(unheard_, std::nullopt); unheard && link_)
    world_.net.to_hub(link_, [hub, packed = pack(*unheard)] { caf::anon_send(hub, atom::report_v, packed); });
  if (welcome.rank != rank_)
    world_.checks.violated(fmt::format("w{} was given rank {}", rank_, welcome.rank));
  if (now_ != phase::greeting)
    return;
  now_ = phase::waiting;
  slot_ = std::make_unique<trainer::decision_slot>(rank_, world_.file.batch.lowest, world_.file.batch.highest);
}

void simulated_worker::refused(const messages::welcome& welcome) {
  const double now = static_cast<double>(world_.time.now_us()) / us_per_second;
  log([&] { return "is refused: " + welcome.detail; });
  if (welcome.verdict == welcome_verdict::not_leader)
    return greet_later();
  if (now_ >= phase::training)
    return;
  if (duplicate_since_seconds_ < 0)
    duplicate_since_seconds_ = now;
  const double patience_seconds = 2 * world_.timeouts.connection_timeout_ms / 1000.0;
  if (welcome.verdict == welcome_verdict::duplicate_host && now - duplicate_since_seconds_ < patience_seconds)
    return greet_later();
  end(welcome.verdict == welcome_verdict::generation_closed, welcome.detail);
}

void simulated_worker::orphan() {
  hub_ = nullptr;
}

void simulated_worker::take_decision(const frame& received) {
  const auto decision = unpack<messages::decision>(received, "worker");
  if (!decision || !slot_)
    return world_.checks.violated("a decision reached a worker that was never welcome");
  world_.checks.offered(*this, *decision, slot_->offer(*decision));
}

void simulated_worker::take_place(const frame& received, const meeting_point& where) {
  const auto place = unpack<messages::placement>(received, "worker");
  if (place && now_ == phase::training && place->generation == newest_.generation && thread.place &&
      thread.place->where() != where)
    return interrupt("another generation of the same number was formed");
  const bool fits = place && now_ == phase::waiting && place->generation > newest_.generation && known(false) &&
                    std::ranges::binary_search(place->members, rank_);
  log([&] { return fmt::format("{} place in generation {}", fits ? "takes" : "leaves", place->generation); });
  if (!fits)
    return;
  now_ = phase::training;
  away_ = false;
  watch_->entered(static_cast<double>(world_.time.now_us()) / us_per_second);
  newest_ = *place;
  thread.place = world_.ring_at(where, *place);
  thread.interrupted = thread.regroup = thread.entered = false;
  after(world_.random.between(100, 30'000), [this, mine = thread.place] {
    if (thread.place == mine)
      mine->enter(*this);
  });
}

void simulated_worker::interrupt(const std::string& reason) {
  watch_->interrupted(static_cast<double>(world_.time.now_us()) / us_per_second);
  if (const auto place = thread.place)
    place->interrupt(*this, reason);
}

void simulated_worker::generation_changes(const frame& received) {
  const auto notice = unpack<messages::generation_notice>(received, "worker");
  if (!notice || !slot_)
    return;
  log([&] {
    return fmt::format("hears that generation {} {}: {}", notice->generation,
                       notice->change == messages::generation_change::regroup ? "regroups" : "ends", notice->reason);
  });
  if (now_ == phase::waiting)
    return greet();
  if (now_ != phase::training || notice->generation != newest_.generation)
    return;
  if (notice->change == messages::generation_change::regroup)
    thread.regroup = true;
  else
    interrupt(notice->reason);
}

void simulated_worker::generation_left() {
  watch_->left();
  log([&] {
    return fmt::format("has left generation {} at step {} of {}: {}", newest_.generation, thread.state.steps,
                       thread.attempted_steps, thread.reason);
  });
  if (thread.how == thread_ending::completed)
    return conclude();
  now_ = phase::waiting;
  if (leaves())
    return part();
  greet();
}

void simulated_worker::report(const messages::window_report& record) {
  world_.checks.reported(record);
  if (!hub_)
    unheard_ = record;
  else if (link_)
    world_.net.to_hub(link_, [hub = hub_, packed = pack(record)] { caf::anon_send(hub, atom::report_v, packed); });
}

void simulated_worker::beat() {
  if (orphaned() || !slot_ || now_ >= phase::leaving || !link_)
    return;
  const messages::heartbeat sign{.rank = rank_,
                                 .incarnation = incarnation_,
                                 .generation = now_ == phase::training ? newest_.generation : 0,
                                 .steps = thread.state.steps};
  world_.net.to_hub(link_, [hub = hub_, packed = pack(sign)] { caf::anon_send(hub, atom::beat_v, packed); });
}

void simulated_worker::tick() {
  after(world_.timeouts.beat_interval_ms * us_per_ms, [this] { tick(); });
  beat();
  if (!slot_)
    return;
  look_after_leave();
  const auto finding =
      watch_->look(static_cast<double>(world_.time.now_us()) / us_per_second, thread.state.steps, orphaned());
  if (finding.verdict == actors::watch_verdict::fine)
    return;
  log([&] { return finding.reason; });
  if (finding.verdict == actors::watch_verdict::stuck)
    world_.restart_worker(rank_, 500 * us_per_ms);
  else
    interrupt(finding.reason);
}

void simulated_worker::look_after_leave() {
  if (!leaves() || now_ != phase::training)
    return;
  const auto next = actors::decide_leave(static_cast<double>(world_.time.now_us()) / us_per_second,
                                         *leave_asked_seconds_, newest_.members.size(), world_.timeouts);
  if (next.step == actors::leave_step::ask)
    thread.regroup = true;
  else
    interrupt(next.reason);
}

/// In no generation any more: the farewell, and then the process's end.
void simulated_worker::part() {
  now_ = phase::leaving;
  slot_->close();
  log([&] { return fmt::format("leaves after step {}", thread.state.steps); });
  const messages::farewell said{.host = world_.name_of(rank_),
                                .rank = rank_,
                                .reason = std::string{messages::leave_mark} + "its host was asked to end",
                                .steps = thread.state.steps,
                                .parameter_checksum = thread.state.digest,
                                .decisions = slot_->counts(),
                                .incarnation = incarnation_};
  const auto go = [this](const answer&) {
    after(world_.random.between(1, 100) * us_per_ms, [this] { world_.restart_worker(rank_, restart_delay_us_); });
  };
  if (orphaned())
    return go({});
  request(
      [hub = hub_, packed = pack(said)](const connection_ptr& link, std::uint64_t ticket) {
        caf::anon_send(link->proxy, atom::farewell_v, ticket, hub, packed);
      },
      world_.timeouts.request_timeout_ms * us_per_ms, go);
}

void simulated_worker::conclude() {
  now_ = phase::leaving;
  if (orphaned())
    return say_farewell();
  request([hub = hub_](const connection_ptr& link,
                       std::uint64_t ticket) { caf::anon_send(link->proxy, atom::settle_v, ticket, hub); },
          world_.timeouts.request_timeout_ms * us_per_ms,
          [this](const answer& heard) {
            if (heard.heard && link_)
              link_->parted = true;
            say_farewell();
          });
}

void simulated_worker::say_farewell() {
  slot_->close();
  messages::farewell said{.host = world_.name_of(rank_),
                          .rank = rank_,
                          .succeeded = true,
                          .reason = thread.reason,
                          .steps = thread.state.steps,
                          .parameter_checksum = thread.state.digest,
                          .decisions = slot_->counts(),
                          .incarnation = incarnation_};
  if (orphaned())
    return end(true, thread.reason);
  request(
      [hub = hub_, packed = pack(said)](const connection_ptr& link, std::uint64_t ticket) {
        caf::anon_send(link->proxy, atom::farewell_v, ticket, hub, packed);
      },
      world_.timeouts.request_timeout_ms * us_per_ms,
      [this](const answer& heard) {
        farewell_heard_ = heard.heard;
        end(true, thread.reason);
      });
}

void simulated_worker::end(bool succeeded, const std::string& reason) {
  if (now_ == phase::ended)
    return;
  now_ = phase::ended;
  succeeded_ = succeeded;
  log([&] { return fmt::format("ends {}: {}", succeeded ? "well" : "in failure", reason); });
  world_.checks.worker_ended(*this, succeeded, reason);
  after(world_.random.between(1, 100) * us_per_ms, [this] { crash(); });
}

} // namespace dynamix::simulation
