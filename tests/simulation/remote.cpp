#include "tests/simulation/remote.hpp"

#include "actors/packing.hpp"
#include "tests/simulation/simulation.hpp"

#include <caf/actor_proxy.hpp>

#include <utility>

namespace dynamix::simulation {

namespace {

using actors::child_actor;
using actors::message;
using actors::parent_actor;

side other_of(side one) {
  return one == side::client ? side::server : side::client;
}

template <class Handle>
Handle handle_at(simulation& world, const connection_ptr& through, side where, const Handle& target) {
  if (!target)
    return target;
  return caf::actor_cast<Handle>(remote_at(world, through, where, caf::actor_cast<caf::strong_actor_ptr>(target)));
}

/// The message as it arrives at that side. Stores are known by their ids alone, and nobody sends to them.
caf::message arrived(simulation& world, const connection_ptr& through, side where, caf::message said) {
  const auto with_child = [&](const auto& content) {
    return caf::make_message(said.get_as<caf::atom_value>(0), content,
                             handle_at(world, through, where, said.get_as<child_actor>(2)));
  };
  if (said.match_elements<caf::atom_value, message<messages::shard_hello>, child_actor>())
    return with_child(said.get_as<message<messages::shard_hello>>(1));
  if (said.match_elements<caf::atom_value, message<messages::hello>, child_actor>()) {
    const auto& hello = said.get_as<message<messages::hello>>(1);
    if (through->server().host == root_host)
      world.checks.asked(*actors::unpack<messages::hello>(hello, "simulation"));
    return with_child(hello);
  }
  if (said.match_elements<message<messages::welcome>, parent_actor>())
    return caf::make_message(said.get_as<message<messages::welcome>>(0),
                             handle_at(world, through, where, said.get_as<parent_actor>(1)));
  return said;
}

class remote_actor final : public caf::actor_proxy {
public:
  remote_actor(caf::actor_config& config, simulation* world, connection_ptr through, side where,
               caf::strong_actor_ptr target)
      : actor_proxy(config), world_(world), through_(std::move(through)), where_(where), target_(std::move(target)) {}

  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override {
    if (!target_)
      return;
    const auto to = other_of(where_);
    world_->net.send(through_, to,
                     [world = world_, through = through_, to, target = target_, sender = what->sender, id = what->mid,
                      said = what->move_content_to_message()]() mutable {
                       auto from = sender ? remote_at(*world, through, to, sender) : nullptr;
                       target->enqueue(std::move(from), id, arrived(*world, through, to, std::move(said)), nullptr);
                     });
  }

  void kill_proxy(caf::execution_unit* unit, caf::error reason) override {
    target_ = nullptr;
    through_ = nullptr;
    cleanup(std::move(reason), unit);
  }

private:
  simulation* world_;
  connection_ptr through_;
  side where_;
  caf::strong_actor_ptr target_; ///< null once the way to it is gone
};

void end_remote(const caf::strong_actor_ptr& remote, caf::error reason) {
  static_cast<caf::actor_proxy*>(caf::actor_cast<caf::abstract_actor*>(remote))->kill_proxy(nullptr, std::move(reason));
}

} // namespace

caf::strong_actor_ptr remote_at(simulation& world, const connection_ptr& through, side where,
                                const caf::strong_actor_ptr& target) {
  auto& known = through->at(where).remotes[target->id()];
  if (known)
    return known;
  auto& system = shared_actor_system();
  caf::actor_config config;
  known = caf::make_actor<remote_actor, caf::strong_actor_ptr>(system.next_actor_id(), system.node(), &system, config,
                                                               &world, through, where, target);
  // Its end is told behind what it has sent.
  target->get()->attach_functor(
      [&world, token = std::weak_ptr(world.token), through, where, id = target->id()](const caf::error& why) {
        if (token.expired())
          return;
        world.net.send(through, where, [through, where, id, why] {
          const auto found = through->at(where).remotes.find(id);
          if (found == through->at(where).remotes.end())
            return;
          const auto remote = std::move(found->second);
          through->at(where).remotes.erase(found);
          end_remote(remote, why);
        });
      });
  return known;
}

void end_remotes(connection_end& end) {
  for (const auto& [id, remote] : std::exchange(end.remotes, {}))
    end_remote(remote, caf::exit_reason::remote_link_unreachable);
}

} // namespace dynamix::simulation
