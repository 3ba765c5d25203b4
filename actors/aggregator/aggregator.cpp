#include "actors/aggregator/aggregator.hpp"

#include "actors/aggregator/aggregator_switchboard.hpp"
#include "actors/handlers.hpp"
#include "actors/packing.hpp"

#include <chrono>
#include <utility>

namespace dynamix::actors {

aggregator_state::aggregator_state() = default;
aggregator_state::~aggregator_state() = default;

namespace {

std::unique_ptr<aggregator_role> make_role(aggregator_options& options, aggregator_links& links) {
  if (auto* root = std::get_if<root_options>(&options.role))
    return std::make_unique<root_role>(options.file, options.timeouts, std::move(*root), links);
  return std::make_unique<shard_role>(options.file, options.timeouts, std::move(std::get<shard_options>(options.role)),
                                      links);
}

caf::result<message<messages::welcome>, aggregator_actor>
take_hello(aggregator_pointer self, const message<messages::hello>& said, const worker_actor& caller) {
  const auto* hello = unpack(said, aggregator_state::name);
  if (!hello || !caller)
    return caf::sec::invalid_argument;
  auto promise = self->make_response_promise<message<messages::welcome>, aggregator_actor>();
  const auto answer = [self, promise](const messages::welcome& welcome) mutable {
    const bool accepted = welcome.verdict == messages::welcome_verdict::accepted;
    promise.deliver(pack(welcome), accepted ? aggregator_actor{aggregator_local{self}} : aggregator_actor{});
  };
  self->state.role->take_hello(
      *hello, {},
      {.connect = [self, caller,
                   host = hello->host](std::uint32_t rank) { self->state.links->connect(rank, caller, host); },
       .keep_waiting = [self, caller] { self->state.links->keep_waiting(caller); },
       .answer = answer,
       .fail = [promise]() mutable { promise.deliver(caf::make_error(caf::sec::request_receiver_down)); }});
  return promise;
}

caf::result<message<messages::welcome>>
take_relayed_hello(aggregator_pointer self, const message<messages::hello>& said, const child_actor& child) {
  const auto* hello = unpack(said, aggregator_state::name);
  const auto way = child ? self->state.links->find_child(child.address()) : std::string{};
  if (!hello || way.empty())
    return caf::sec::invalid_argument;
  auto promise = self->make_response_promise<message<messages::welcome>>();
  self->state.role->take_hello(
      *hello, way,
      {.connect = [](std::uint32_t) {},
       .keep_waiting = [] {},
       .answer = [promise](const messages::welcome& welcome) mutable { promise.deliver(pack(welcome)); },
       .fail = [promise]() mutable { promise.deliver(caf::make_error(caf::sec::request_receiver_down)); }});
  return promise;
}

caf::result<atom::beat> take_beat(aggregator_pointer self, const message<messages::heartbeat>& received) {
  const auto* sign = unpack(received, aggregator_state::name);
  if (!sign)
    return caf::sec::invalid_argument;
  if (!self->state.role->take_beat(*sign))
    return caf::sec::request_receiver_down;
  return atom::beat_v;
}

caf::result<atom::farewell> take_farewell(aggregator_pointer self, const message<messages::farewell>& received) {
  const auto* farewell = unpack(received, aggregator_state::name);
  if (!farewell)
    return caf::sec::invalid_argument;
  auto promise = self->make_response_promise<atom::farewell>();
  self->state.role->take_farewell(*farewell, [promise](bool taken) mutable {
    if (taken)
      promise.deliver(atom::farewell_v);
    else
      promise.deliver(caf::make_error(caf::sec::request_receiver_down));
  });
  return promise;
}

caf::result<message<messages::welcome>, parent_actor>
take_child(aggregator_pointer self, const message<messages::shard_hello>& said, const child_actor& child) {
  const auto* hello = unpack(said, aggregator_state::name);
  if (!hello || !child)
    return caf::sec::invalid_argument;
  if (!self->state.role->takes_children())
    return caf::sec::request_receiver_down;
  const auto judged = self->state.role->judge_child(*hello);
  if (judged.verdict != messages::welcome_verdict::accepted)
    return {pack(judged), parent_actor{}};
  self->state.links->adopt(hello->node, child);
  auto promise = self->make_response_promise<message<messages::welcome>, parent_actor>();
  self->state.role->take_child(*hello, [self, promise, protocol = judged.protocol](messages::welcome welcome) mutable {
    welcome.protocol = protocol;
    promise.deliver(pack(welcome), parent_actor{aggregator_local{self}});
  });
  return promise;
}

void take_evaluation(aggregator_pointer self, const message<messages::evaluation_report>& received) {
  const auto* evaluation = unpack(received, aggregator_state::name);
  const auto sender = self->current_sender();
  if (evaluation)
    self->state.role->hear_evaluation(*evaluation,
                                      sender ? self->state.links->find_sender(sender->address()) : evaluation_sender{});
}

void take_absence(aggregator_pointer self, const message<messages::absence>& received) {
  const auto* gone = unpack(received, aggregator_state::name);
  const auto sender = self->current_sender();
  if (!gone || !sender)
    return;
  const auto way = self->state.links->find_child(sender->address());
  if (!way.empty() || self->state.links->is_worker(gone->rank, sender->address()))
    self->state.role->take_absence(*gone, way);
}

/// An aggregator that is not a child here any more, since another took its place, hears nothing: it is to attach anew.
caf::result<atom::beats> take_beats(aggregator_pointer self, const message<messages::beat_summary>& received) {
  const auto child = self->current_sender();
  if (!child || self->state.links->find_child(child->address()).empty())
    return caf::sec::request_receiver_down;
  if (const auto* summary = unpack(received, aggregator_state::name))
    self->state.role->take_beats(*summary);
  return atom::beats_v;
}

/// Answers once the arbitrator, if there is one, has decided all that it was given.
caf::result<atom::settle> settle(aggregator_pointer self) {
  auto promise = self->make_response_promise<atom::settle>();
  const auto& links = *self->state.links;
  if (!links.arbitrator) {
    promise.deliver(atom::settle_v);
    return promise;
  }
  self->request(links.arbitrator, links.patience(), atom::finish_v)
      .then([promise](atom::finish) mutable { promise.deliver(atom::settle_v); },
            [promise](const caf::error&) mutable { promise.deliver(atom::settle_v); });
  return promise;
}

void went_down(aggregator_pointer self, const caf::down_msg& down) {
  auto& [links, role] = self->state;
  if (links->parent && down.source == links->parent.address()) {
    role->lost_parent("it is gone");
    self->send(self, atom::greet_v);
  } else if (const auto host = links->find_child(down.source); !host.empty()) {
    links->children.erase(host);
    role->lost_child(host, down.reason == caf::exit_reason::remote_link_unreachable);
  } else if (const auto rank = links->find_worker(down.source)) {
    role->lost_worker(*rank);
  } else {
    links->forget_waiting(down.source);
  }
}

void take_placement(aggregator_pointer self, const message<messages::recipients>& to,
                    const message<messages::placement>& received, const store_actor& store) {
  const auto* workers = unpack(to, aggregator_state::name);
  const auto* placement = unpack(received, aggregator_state::name);
  if (!workers || !placement)
    return;
  self->state.links->store = store;
  self->state.role->take_placement(workers->ranks, *placement);
}

void take_notice(aggregator_pointer self, const message<messages::recipients>& to,
                 const message<messages::generation_notice>& received) {
  const auto* workers = unpack(to, aggregator_state::name);
  const auto* notice = unpack(received, aggregator_state::name);
  if (workers && notice)
    self->state.role->take_notice(workers->ranks, *notice);
}

/// Of the parent, or of the root's arbitrator.
void take_guidance(aggregator_pointer self, const message<messages::guidance>& received) {
  auto& [links, role] = self->state;
  if (!links->at_root && links->arbitrator)
    self->send(links->arbitrator, atom::guide_v, received);
  if (links->children.empty())
    return;
  if (const auto* known = unpack(received, aggregator_state::name))
    role->guide(*known);
}

/// The same.
void take_policy(aggregator_pointer self, const message<messages::policy_version>& version) {
  auto& links = *self->state.links;
  if (!links.at_root && links.arbitrator)
    self->send(links.arbitrator, atom::policy_v, version);
  links.publish(version);
}

/// One that was started again is told what the one before it was.
void serve(aggregator_pointer self, const arbitrator_actor& arbitrator) {
  auto& [links, role] = self->state;
  links->arbitrator = arbitrator;
  if (!links->at_root && links->policy)
    self->send(arbitrator, atom::policy_v, *links->policy);
  role->serve_arbitrator();
}

void reach(aggregator_pointer self, const gateway_actor& gateway) {
  self->state.links->gateway = gateway;
  self->state.role->reached_parent();
}

void lose_gateway(aggregator_pointer self) {
  self->state.links->gateway = nullptr;
  self->state.role->lost_parent("its host is gone");
}

void find_parent(aggregator_pointer self) {
  if (self->state.links->gateway)
    self->state.role->find_parent();
}

void tick(aggregator_pointer self, std::chrono::milliseconds interval) {
  self->delayed_send(self, interval, atom::tick_v);
  self->state.role->tick();
}

/// Hands the value of a message to the role.
template <class Tag, class T>
auto hand_on(aggregator_pointer self, Tag, void (aggregator_role::*take)(T)) {
  return [self, take](Tag, const message<std::decay_t<T>>& received) {
    if (const auto* value = unpack(received, aggregator_state::name))
      (self->state.role.get()->*take)(*value);
  };
}

/// The same, and answers that it has come.
template <class Tag, class T>
auto hand_on_and_answer(aggregator_pointer self, Tag tag, void (aggregator_role::*take)(T)) {
  return [tag, hand = hand_on(self, tag, take)](Tag, const message<std::decay_t<T>>& received) {
    hand(tag, received);
    return tag;
  };
}

} // namespace

aggregator_local::behavior_type aggregator(aggregator_pointer self, aggregator_options options) {
  install_handlers(self, aggregator_state::name);
  auto& [links, role] = self->state;
  links = std::make_unique<aggregator_switchboard>(self, options.timeouts);
  links->at_root = std::holds_alternative<root_options>(options.role);
  role = make_role(options, *links);
  self->set_down_handler([self](const caf::down_msg& down) { went_down(self, down); });
  self->set_exit_handler([self](const caf::exit_msg& exit) {
    self->state.links->end_stores();
    self->quit(exit.reason);
  });
  const std::chrono::milliseconds interval(options.timeouts.beat_interval_ms / (links->at_root ? 2 : 1));
  self->send(self, atom::tick_v);
  return {
      // Of a worker.
      [self](atom::hello, const message<messages::hello>& hello, const worker_actor& caller) {
        return take_hello(self, hello, caller);
      },
      hand_on(self, atom::report_v, &aggregator_role::take_report),
      [self](atom::evaluation, const message<messages::evaluation_report>& said) { take_evaluation(self, said); },
      [self](atom::beat, const message<messages::heartbeat>& sign) { return take_beat(self, sign); },
      [self](atom::settle) { return settle(self); },
      [self](atom::farewell, const message<messages::farewell>& farewell) { return take_farewell(self, farewell); },
      // Of an aggregator below.
      [self](atom::attach, const message<messages::shard_hello>& hello, const child_actor& child) {
        return take_child(self, hello, child);
      },
      [self](atom::relay, const message<messages::hello>& hello, const child_actor& child) {
        return take_relayed_hello(self, hello, child);
      },
      [self](atom::absent, const message<messages::absence>& gone) { take_absence(self, gone); },
      [self](atom::beats, const message<messages::beat_summary>& summary) { return take_beats(self, summary); },
      hand_on_and_answer(self, atom::window_v, &aggregator_role::take_window),
      // Of the parent.
      [self](atom::place, const message<messages::recipients>& to, const message<messages::placement>& placement,
             const store_actor& store) { take_placement(self, to, placement, store); },
      [self](atom::closed, const message<messages::recipients>& to,
             const message<messages::generation_notice>& notice) { take_notice(self, to, notice); },
      hand_on(self, atom::order_v, &aggregator_role::take_order),
      [self](atom::guide, const message<messages::guidance>& guidance) { take_guidance(self, guidance); },
      [self](atom::policy, const message<messages::policy_version>& version) { take_policy(self, version); },
      [self](atom::stop) { self->state.role->stop(); },
      // Of this host.
      [self](atom::serve, connector_actor connector) { self->state.links->connector = std::move(connector); },
      [self](atom::connected, const gateway_actor& gateway) { reach(self, gateway); },
      [self](atom::lost) { lose_gateway(self); },
      [self](atom::greet) { find_parent(self); },
      [self, interval](atom::tick) { tick(self, interval); },
      [self](atom::look) { self->state.role->look(); },
      [self](atom::serve, const arbitrator_actor& arbitrator) { serve(self, arbitrator); },
      [self](atom::decide, std::uint32_t rank, const message<messages::decision>& made) {
        self->state.links->decide(rank, made);
      },
      [self](atom::upstream, const message<messages::shard_window>& window) { self->state.links->send_up(window); },
      [self](atom::kept, std::uint64_t token, bool kept) { self->state.role->settle(token, kept); },
      [self](atom::command, const std::string& line) {
        auto promise = self->make_response_promise<std::string>();
        self->state.role->take_command(line,
                                       [promise](std::string answer) mutable { promise.deliver(std::move(answer)); });
        return promise;
      },
      [self](atom::deadline, std::uint64_t generation, std::uint64_t window) {
        self->state.role->end_gathering(generation, window);
      },
  };
}

} // namespace dynamix::actors
