#pragma once

/// What an aggregator does to others. The actor does it with messages
/// (actors/aggregator/aggregator_switchboard.hpp), a test takes notes. Knows no CAF.

#include "messages/types.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::actors {

/// The way to a worker: the host of the child that it is reached through; empty where it is connected to the
/// aggregator.
using route = std::string;

/// What an attempt to attach came to.
struct attach_answer {
  std::optional<std::uint64_t> term; ///< the parent's; nothing: it was not reached, or refuses
  std::string leader;                ///< where a replica that does not lead says so: who does, as far as it knows
};

/// Nothing happens where the receiver is not there (any more).
class aggregator_links {
public:
  virtual ~aggregator_links() = default;
  /// On the actor system's clock.
  virtual double now_seconds() const = 0;

  // Down the tree.
  /// The place of a generation, and the store through which it meets.
  virtual void place(const route& way, const std::vector<std::uint32_t>& workers,
                     const messages::placement& placement) = 0;
  virtual void notify(const route& way, const std::vector<std::uint32_t>& workers,
                      const messages::generation_notice& notice) = 0;
  /// To a worker that is connected here.
  virtual void decide(const messages::decision& decision) = 0;
  virtual void guide(const std::string& child, const messages::guidance& known) = 0;
  virtual void order(const std::string& child, const messages::shard_order& order) = 0;
  /// All workers and children are to end training.
  virtual void stop_all() = 0;
  virtual void stop(std::uint32_t worker) = 0;
  /// Training is over: those who wait for a place of an open cluster need not ask again.
  virtual void dismiss_waiting(const messages::generation_notice& notice) = 0;
  /// The worker's connection here is nobody's any more.
  virtual void disconnect(std::uint32_t worker) = 0;

  // The arbitrator beside this aggregator.
  virtual bool has_arbitrator() const = 0;
  virtual void decide_on(const messages::shard_report& window) = 0;
  virtual void judge(const messages::shard_window& window) = 0;
  virtual void raise_term(std::uint64_t term) = 0;
  virtual void enter(const messages::placement& generation) = 0;
  virtual void lose(std::uint32_t worker) = 0;
  /// Calls back once it has decided all that it was given, or does not answer.
  virtual void finish_arbitrator(std::function<void()> done) = 0;

  // This aggregator, later.
  virtual void look_soon() = 0;
  /// In so many gather time-outs.
  virtual void await_deadline(std::uint64_t generation, std::uint64_t window, std::uint32_t timeouts) = 0;

  // At the root.
  /// A new store, in which so many members meet: a worker that meets twice counts twice. The one before stays until the
  /// next.
  virtual void open_store(std::size_t meeting) = 0;
  /// To be called, on any thread, when the journal has settled what the token stands for.
  virtual std::function<void(std::uint64_t token, bool kept)> settled() = 0;

  // Up the tree.
  virtual bool has_parent() const = 0;
  virtual void attach(const messages::shard_hello& hello, std::function<void(const attach_answer&)> answered) = 0;
  virtual void attach_later(double seconds) = 0;
  virtual void detach() = 0;
  /// At this host; empty: at the next place where one may be.
  virtual void try_parent(const std::string& host) = 0;
  virtual void relay(const messages::hello& hello, std::function<void(std::optional<messages::welcome>)> answered) = 0;
  virtual void relay(const messages::farewell& farewell, std::function<void(bool taken)> answered) = 0;
  virtual void report_absent(const messages::absence& gone) = 0;
  virtual void report(const messages::evaluation_report& evaluation) = 0;
  virtual void report(const messages::beat_summary& beats, std::function<void()> unanswered) = 0;
  /// As far as the parent keeps up: the newest takes the place of one that still waits.
  virtual void report(const messages::shard_window& window) = 0;
  /// This aggregator ends, and its supervisor starts it anew.
  virtual void begin_anew() = 0;
};

/// How an aggregator answers a worker that says hello, perhaps later.
struct hello_reply {
  std::function<void(std::uint32_t rank)>
      connect;                        ///< who said hello is this worker; only for one that is connected here
  std::function<void()> keep_waiting; ///< who said hello has no place, and hears of it when training is over
  std::function<void(const messages::welcome&)> answer;
  std::function<void()> fail; ///< nothing can be said now; it tries again
};

} // namespace dynamix::actors
