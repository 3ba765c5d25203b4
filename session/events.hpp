#pragma once

/// What a worker learns, and what it then does: the plain values that go into `worker_protocol` and come out of it.
/// Whoever runs the machine knows the handles behind them (gateway, aggregator, store); the machine knows none.

#include "messages/types.hpp"
#include "session/decision_slot.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dynamix::session {

/// What the machine reads besides an event.
struct moment {
  double seconds = 0;      ///< on a clock that never goes back
  std::uint64_t steps = 0; ///< that training has completed
};

namespace events {

// Of the way to the arbitrator.

/// A gateway is in reach.
struct connected {};
/// It is not any more, and with it the aggregator.
struct disconnected {};
/// The aggregator that took this worker in has ended; its gateway may still be there.
struct aggregator_down {};
/// As effects::greet_later asked for.
struct greeting_due {};
struct hello_answered {
  std::uint64_t number = 0;                 ///< of the hello
  std::optional<messages::welcome> welcome; ///< none: no valid answer within the time-out
};
struct heartbeat_answered {
  bool heard = false;        ///< otherwise it failed, or time is over. Only of the aggregator that is followed now
  std::uint32_t reports = 0; ///< as in the heartbeat
};
/// The aggregator has sent all decisions on the reports before, or nobody knows.
struct aggregator_settled {};
struct farewell_answered {
  bool heard = false;
};

// Of the arbitrator.

struct decision_received {
  messages::decision decision;
};
struct placement_received {
  std::shared_ptr<const messages::placement> placement;
  bool same_store = false; ///< it meets through the store of the placement that was taken last
};
struct notice_received {
  messages::generation_notice notice;
};
/// Training is to end at the next agreement of the workers.
struct stop_requested {};

// Of this host.

/// The host leaves; the others go on.
struct leave_requested {};
/// To be given every beat interval.
struct tick {};

// Of training, in the order in which they happened.

/// Where another process trains (worker_options::external_trainer): it is there, and ready for a generation.
struct trainer_ready {
  std::uint32_t group = 0; ///< processes in its group, itself among them; 0: not known
};
/// It is not any more. The generation that it was in follows as events::generation_left.
struct trainer_lost {
  std::string reason;
};
/// The first step of a generation is completed, which must not wait for the next tick to be known.
struct training_began {};
struct window_completed {
  messages::window_report report; ///< complete, with what telemetry measured
};
struct evaluated {
  messages::evaluation_report report;
};
/// The training thread has left its generation, or has ended after effects::finish_training.
struct generation_left {
  bool goes_on = false;              ///< in another generation; otherwise training is over for this worker
  std::uint64_t attempted_steps = 0; ///< completed, and one more if one was in flight
  messages::farewell account;        ///< succeeded, reason, steps and all else that only training knows
};

} // namespace events

using event = std::variant<events::connected, events::disconnected, events::aggregator_down, events::greeting_due,
                           events::hello_answered, events::heartbeat_answered, events::aggregator_settled,
                           events::farewell_answered, events::decision_received, events::placement_received,
                           events::notice_received, events::stop_requested, events::leave_requested, events::tick,
                           events::trainer_ready, events::trainer_lost, events::training_began,
                           events::window_completed, events::evaluated, events::generation_left>;

namespace effects {

// To the arbitrator. A request is answered by an event, also when it fails or its time is over.

struct say_hello {
  std::uint64_t number = 0;
  messages::hello hello;
  std::uint32_t timeout_ms = 0;
};
/// Give events::greeting_due after so long.
struct greet_later {
  double seconds = 0;
};
/// This gateway is of no use: on to the one of this host, or, where the name is empty or unknown, to the next.
struct redirect {
  std::string leader;
};
/// The aggregator that came with the answer to the newest hello is the one to talk to.
struct follow_aggregator {};
/// There is none for now.
struct forget_aggregator {};
struct send_report {
  messages::window_report report;
};
struct send_evaluation {
  messages::evaluation_report report;
};
struct send_heartbeat {
  messages::heartbeat heartbeat;
  std::uint32_t reports = 0; ///< that were under way before it; its answer says that they have arrived
  std::uint32_t timeout_ms = 0;
};
/// This worker is of no use until its next hello: the aggregator that took it in is not followed any more.
struct send_absence {
  messages::absence absence;
};
struct settle_aggregator {
  std::uint32_t timeout_ms = 0;
};
struct say_farewell {
  messages::farewell farewell;
  std::uint32_t timeout_ms = 0;
};

// To training.

/// This worker is one of the cluster: training gets ready, and takes its decisions from the slot.
struct join {
  std::uint32_t rank = 0;
  std::shared_ptr<decision_slot> decisions;
};
/// Train in this generation, and meet through the store that came with the placement.
struct enter_generation {
  std::shared_ptr<const messages::placement> placement;
};
/// Leave the generation with all others at the next agreement.
struct ask_to_regroup {};
/// End training with all others at the next agreement.
struct ask_to_stop {};
/// Leave the generation at once, and drop the step in flight.
struct interrupt {
  std::string reason;
};
/// No other placement will come: write a checkpoint and end, which events::generation_left tells.
struct finish_training {
  std::string reason;
};

// To the host.

/// What became of a decision, for whoever watches.
struct decision_offered {
  messages::decision decision;
  offer_verdict verdict = offer_verdict::accepted;
};
/// The worker has ended.
struct end {
  bool succeeded = false;
  std::string reason;
  messages::farewell farewell;
};
/// The process cannot go on: its training thread does not let go.
struct fail {
  std::string reason;
};
enum class log_level : std::uint8_t { info, warning, error };
struct log {
  log_level level = log_level::info;
  std::string text;
};

} // namespace effects

using effect =
    std::variant<effects::say_hello, effects::greet_later, effects::redirect, effects::follow_aggregator,
                 effects::forget_aggregator, effects::send_report, effects::send_evaluation, effects::send_heartbeat,
                 effects::send_absence, effects::settle_aggregator, effects::say_farewell, effects::join,
                 effects::enter_generation, effects::ask_to_regroup, effects::ask_to_stop, effects::interrupt,
                 effects::finish_training, effects::decision_offered, effects::end, effects::fail, effects::log>;

} // namespace dynamix::session
