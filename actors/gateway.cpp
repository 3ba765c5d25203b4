#include "actors/gateway.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "actors/store_table.hpp"

#include <spdlog/spdlog.h>

#include <memory>

namespace dynamix::actors {

gateway_local::behavior_type gateway(gateway_local::stateful_pointer<gateway_state> self, std::string host,
                                     bool arbitrates) {
  install_handlers(self, gateway_state::name);
  return {
      [self, host, arbitrates](atom::hello, const frame& hello,
                               const worker_actor& caller) -> caf::result<frame, aggregator_actor> {
        auto& aggregator = self->state.aggregator;
        if (aggregator)
          return self->delegate(aggregator, atom::hello_v, hello, caller);
        if (arbitrates)
          return caf::sec::request_receiver_down;
        messages::welcome refusal;
        refusal.verdict = messages::welcome_verdict::unknown_host;
        refusal.detail = "host " + host + " is no arbitrator; all hosts must read the same cluster file";
        return {pack(refusal), aggregator_actor{}};
      },
      [self](atom::serve, aggregator_local aggregator) { self->state.aggregator = std::move(aggregator); },
  };
}

store_actor::behavior_type store(store_actor::pointer self) {
  install_handlers(self, "store");
  return {
      [table = std::make_shared<store_table>()](atom::apply, const frame& operation) -> caf::result<frame> {
        const auto wanted = unpack<messages::store_operation>(operation, "store");
        if (!wanted)
          return caf::sec::invalid_argument;
        return pack(table->apply(*wanted));
      },
  };
}

} // namespace dynamix::actors
