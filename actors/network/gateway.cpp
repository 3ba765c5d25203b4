#include "actors/network/gateway.hpp"

#include "actors/handlers.hpp"
#include "actors/network/store_table.hpp"
#include "actors/packing.hpp"
#include "messages/leave.hpp"
#include "storage/json_text.hpp"

#include <spdlog/spdlog.h>

#include <memory>

namespace dynamix::actors {

namespace {

messages::welcome refuse(const gateway_state& state, const std::string& host) {
  messages::welcome refusal;
  if (state.leader) {
    refusal.verdict = messages::welcome_verdict::not_leader;
    refusal.detail = "the replica of host " + host + " does not lead";
    refusal.leader = *state.leader;
  } else {
    refusal.verdict = messages::welcome_verdict::unknown_host;
    refusal.detail = "host " + host + " is not an arbitrator; all hosts must read the same cluster file";
  }
  return refusal;
}

} // namespace

gateway_local::behavior_type gateway(gateway_local::stateful_pointer<gateway_state> self, gateway_options options,
                                     std::shared_ptr<host_events> events) {
  install_handlers(self, gateway_state::name);
  return {
      [self, options](atom::hello, const message<messages::hello>& hello,
                      const worker_actor& caller) -> caf::result<message<messages::welcome>, aggregator_actor> {
        if (self->state.greeter)
          return self->delegate(self->state.greeter, atom::hello_v, hello, caller);
        if (options.arbitrates && !self->state.leader)
          return caf::sec::request_receiver_down;
        return {pack(refuse(self->state, options.host)), aggregator_actor{}};
      },
      [self, options](atom::attach, const message<messages::shard_hello>& hello,
                      const child_actor& caller) -> caf::result<message<messages::welcome>, parent_actor> {
        if (self->state.attacher)
          return self->delegate(self->state.attacher, atom::attach_v, hello, caller);
        if (options.arbitrates && !self->state.leader)
          return caf::sec::request_receiver_down;
        return {pack(refuse(self->state, options.host)), parent_actor{}};
      },
      [self, events](atom::finish, const message<messages::farewell>& received) {
        const auto said = unpack<messages::farewell>(received, "gateway");
        if (said && self->state.leader && events) {
          spdlog::info("run_over leader={} reason={}", said->host, storage::quoted(said->reason));
          events->arbitrator_ended({said->succeeded, said->reason, messages::tells_stop(*said)}, {});
        }
        return atom::finish_v;
      },
      [self, in_tree = options.in_tree](atom::serve, greeter_actor greeter) {
        self->state.greeter = std::move(greeter);
        if (!in_tree)
          self->state.leader.reset();
      },
      [self](atom::serve, attacher_actor attacher) {
        self->state.attacher = std::move(attacher);
        self->state.leader.reset();
      },
      [self, in_tree = options.in_tree](atom::redirect, const std::string& leader) {
        if (in_tree)
          self->state.attacher = nullptr;
        else
          self->state.greeter = nullptr;
        self->state.leader = leader;
      },
  };
}

store_actor::behavior_type store(store_actor::stateful_pointer<store_state> self, std::size_t workers) {
  install_handlers(self, store_state::name);
  return {
      [table = std::make_shared<store_table>(workers)](atom::apply, const message<messages::store_operation>& operation)
          -> caf::result<message<messages::store_result>> {
        const auto wanted = unpack<messages::store_operation>(operation, "store");
        if (!wanted)
          return caf::sec::invalid_argument;
        return pack(table->apply(*wanted));
      },
  };
}

} // namespace dynamix::actors
