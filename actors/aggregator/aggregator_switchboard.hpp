#pragma once

#include "actors/aggregator/aggregator.hpp"
#include "actors/aggregator/credit.hpp"
#include "actors/handlers.hpp"
#include "actors/interfaces.hpp"
#include "actors/packing.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::actors {

using aggregator_pointer = aggregator_local::stateful_pointer<aggregator_state>;

/// The handles of whoever an aggregator talks to.
class aggregator_switchboard final : public aggregator_links {
public:
  aggregator_switchboard(aggregator_pointer self, const cluster::timeouts& timeouts)
      : self_(self), timeouts_(timeouts) {}

  double now_seconds() const override { return seconds_now(self_); }

  // Down the tree.
  void place(const route& way, const std::vector<std::uint32_t>& workers,
             const messages::placement& placement) override;
  void notify(const route& way, const std::vector<std::uint32_t>& workers,
              const messages::generation_notice& notice) override;
  void decide(const messages::decision& decision) override { decide(decision.rank, pack(decision)); }
  void guide(const std::string& child, const messages::guidance& known) override;
  void order(const std::string& child, const messages::shard_order& order) override;
  void stop_all() override;
  void stop(std::uint32_t worker) override;
  void dismiss_waiting(const messages::generation_notice& notice) override;
  void keep_waiting(const worker_actor& caller);
  void forget_waiting(const caf::actor_addr& address);
  bool is_worker(std::uint32_t rank, const caf::actor_addr& address) const;
  void disconnect(std::uint32_t worker) override;

  // The arbitrator beside this aggregator.
  bool has_arbitrator() const override { return static_cast<bool>(arbitrator); }
  void decide_on(const messages::shard_report& window) override { to_arbitrator(atom::shard_v, pack(window)); }
  void judge(const messages::shard_window& window) override { to_arbitrator(atom::window_v, pack(window)); }
  void raise_term(std::uint64_t term) override { to_arbitrator(atom::term_v, term); }
  void enter(const messages::placement& generation) override { to_arbitrator(atom::place_v, pack(generation)); }
  void lose(std::uint32_t worker) override { to_arbitrator(atom::lost_v, worker); }
  void finish_arbitrator(std::function<void()> done) override;

  // This aggregator, later.
  void look_soon() override { self_->send(self_, atom::look_v); }
  void await_deadline(std::uint64_t generation, std::uint64_t window, std::uint32_t timeouts) override;

  // At the root.
  /// Members of the generation before may still be asking the one before.
  void open_store(std::size_t meeting) override;
  std::function<void(std::uint64_t token, bool kept)> settled() override;
  /// Stores are known to other hosts, so they do not end by themselves.
  void end_stores();

  // Up the tree.
  bool has_parent() const override { return static_cast<bool>(parent); }
  void attach(const messages::shard_hello& hello, std::function<void(const attach_answer&)> answered) override;
  void attach_later(double seconds) override { self_->delayed_send(self_, to_milliseconds(seconds), atom::greet_v); }
  void detach() override;
  void try_parent(const std::string& host) override { self_->send(connector, atom::redirect_v, host); }
  void relay(const messages::hello& hello, std::function<void(std::optional<messages::welcome>)> answered) override;
  void relay(const messages::farewell& farewell, std::function<void(bool taken)> answered) override;
  void report_absent(const messages::absence& gone) override;
  void report(const messages::evaluation_report& evaluation) override;
  void report(const messages::beat_summary& beats, std::function<void()> unanswered) override;
  void report(const messages::shard_window& window) override { send_up(pack(window)); }
  void begin_anew() override { self_->quit(caf::exit_reason::unreachable); }

  void send_up(message<messages::shard_window> window);

  // Who is connected.
  void connect(std::uint32_t rank, const worker_actor& caller, const std::string& host);
  void decide(std::uint32_t rank, const message<messages::decision>& decision);

  /// Takes the place of one from the same host, and is sent the policy in force.
  void adopt(const std::string& host, const child_actor& child);
  void publish(const message<messages::policy_version>& version);

  /// Who sends, by its connection.
  evaluation_sender find_sender(const caf::actor_addr& address) const;
  std::optional<std::uint32_t> find_worker(const caf::actor_addr& address) const;
  /// The host of an aggregator below; empty: it is none.
  std::string find_child(const caf::actor_addr& address) const;
  std::chrono::milliseconds patience() const { return std::chrono::milliseconds(timeouts_.request_timeout_ms); }

  std::map<std::string, child_actor> children; ///< by host
  arbitrator_actor arbitrator;
  store_actor store; ///< through which the newest generation meets
  bool at_root = false;
  std::optional<message<messages::policy_version>> policy; ///< newest version
  connector_actor connector;
  gateway_actor gateway;
  parent_actor parent; ///< null while detached, and at the root

private:
  /// To workers here as it is, and through a child with the ranks that it is for.
  template <class Tag, class... Content>
  void pass_down(const route& way, const std::vector<std::uint32_t>& workers, Tag tag, const Content&... content) {
    if (!way.empty())
      return to_child(way, tag, pack(messages::recipients{workers}), content...);
    for (const auto rank : workers)
      if (const auto found = workers_.find(rank); found != workers_.end())
        self_->send(found->second, tag, content...);
  }
  template <class... Content>
  void to_child(const std::string& host, const Content&... content) {
    if (const auto found = children.find(host); found != children.end())
      self_->send(found->second, content...);
  }
  template <class... Content>
  void to_arbitrator(const Content&... content) {
    if (arbitrator)
      self_->send(arbitrator, content...);
  }
  void end_store(const store_actor& one);
  void send_up_now(message<messages::shard_window> window);

  aggregator_pointer self_;
  const cluster::timeouts timeouts_;
  static constexpr std::size_t waiting_most = 1024; ///< others find out by themselves

  std::map<std::uint32_t, worker_actor> workers_; ///< whose connections stand, by rank
  std::map<std::uint32_t, std::string> hosts_;    ///< whose they are or were
  std::vector<worker_actor> waiting_;             ///< for a place of an open cluster
  store_actor store_before_;                      ///< of the generation before
  credit<message<messages::shard_window>> windows_up_ = credit<message<messages::shard_window>>(2); ///< to the parent
};

} // namespace dynamix::actors
