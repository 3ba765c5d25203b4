#pragma once

/// What an aggregator does in every place of a tree of arbitrators: it knows its workers and the aggregators below it,
/// gathers the windows of both, and passes down what is meant for them. What it does with hellos, losses and closed
/// windows follows from its role: at the root (actors/aggregator/root_role.hpp) it knows who belongs to the cluster,
/// below (actors/aggregator/shard_role.hpp) it asks its parent. One arbitrator for all is a root without aggregators
/// below. Knows no CAF.

#include "actors/aggregator/aggregator_links.hpp"
#include "actors/aggregator/evaluation_gate.hpp"
#include "actors/aggregator/gather.hpp"
#include "actors/network/worker_names.hpp"
#include "cluster/cluster_file.hpp"
#include "cluster/timeouts.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::actors {

class aggregator_role {
public:
  aggregator_role(std::shared_ptr<const cluster::cluster_file> file, const cluster::timeouts& timeouts,
                  aggregator_links& links)
      : file_(std::move(file)), timeouts_(timeouts), links_(links),
        evaluations_(file_->arbitrator.window_steps, file_->training.trainer == cluster::trainer_kind::built_in) {}
  aggregator_role(const aggregator_role&) = delete;
  aggregator_role& operator=(const aggregator_role&) = delete;
  virtual ~aggregator_role() = default;

  // Of a worker, or of an aggregator below for one of its workers.
  virtual void take_hello(const messages::hello& hello, const route& way, hello_reply reply) = 0;
  /// False for a worker that is to look for another aggregator.
  virtual bool take_beat(const messages::heartbeat& sign) = 0;
  virtual void take_farewell(const messages::farewell& farewell, std::function<void(bool taken)> answered) = 0;
  /// As far as `from` is believed: the rest is counted, and said once a sender and generation.
  void hear_evaluation(messages::evaluation_report evaluation, const evaluation_sender& from);
  /// One that is believed.
  virtual void take_evaluation(const messages::evaluation_report& evaluation) = 0;
  /// The connection to a worker here broke.
  virtual void lost_worker(std::uint32_t rank) = 0;
  void take_report(messages::window_report report);

  // Of an aggregator below.
  /// Now; later perhaps.
  virtual bool takes_children() const = 0;
  /// Accepted, or refused with the reason: one that read another cluster file, or runs another release.
  messages::welcome judge_child(const messages::shard_hello& hello) const;
  /// One that was accepted; it takes the place of one from the same host. Answers once it may decide, perhaps later.
  virtual void take_child(const messages::shard_hello& hello, std::function<void(const messages::welcome&)> answer) = 0;
  /// Ignored where the worker has come through another aggregator than `way` since; empty: it says so itself.
  virtual void take_absence(const messages::absence& gone, const route& way) = 0;
  virtual void take_beats(const messages::beat_summary& summary) = 0;
  /// `broken`: the connection to its host.
  virtual void lost_child(const std::string& host, bool broken) = 0;
  void take_window(const messages::shard_window& window);

  // Of the parent.
  virtual void take_placement(const std::vector<std::uint32_t>& workers, const messages::placement& placement);
  virtual void take_order(const messages::shard_order& order);
  void take_notice(const std::vector<std::uint32_t>& workers, const messages::generation_notice& notice);

  // Of this host.
  /// The arbitrator that decides from now on.
  virtual void serve_arbitrator() = 0;
  virtual void stop();
  virtual void tick() = 0;
  virtual void look() {}
  virtual void settle(std::uint64_t token, bool kept);
  virtual void find_parent() {}
  virtual void reached_parent() {}
  virtual void lost_parent(const char* why);
  /// A command of a person about the arbitrators of the tree. Answers in JSON.
  virtual void take_command(const std::string& line, std::function<void(std::string)> answer);
  void guide(messages::guidance known);
  void end_gathering(std::uint64_t generation, std::uint64_t window);

protected:
  /// Of arbitrators: what they gather reaches this one once it has closed there, at a deadline perhaps.
  virtual std::uint32_t levels_below() const = 0;
  /// Refused by an open cluster, of which a place may become free.
  bool waits_for_place(const messages::welcome& welcome) const {
    return welcome.verdict == messages::welcome_verdict::unknown_host &&
           file_->membership == cluster::membership_kind::open;
  }
  struct child {
    double seen_seconds = 0; ///< last sign of life
    bool late = false;       ///< it has been silent for too long
  };

  /// Of a worker that says hello here itself: refused where the others are to call it at an address that is not its
  /// own. Nothing: it is its own, or cannot be told.
  static std::optional<messages::welcome> refuse_address(const messages::hello& hello, const route& way,
                                                         const worker_names* names);
  /// Closed windows go to the arbitrator or up.
  virtual void pass_on(const std::vector<closed_window>& closed) = 0;
  void adopt_child(const std::string& host);
  /// A worker's farewell has been taken. `below`: it came through an aggregator below, which may still be gathering
  /// windows that the worker has reported; they are waited for.
  void end_reports(const messages::farewell& farewell, bool below);
  std::map<route, std::vector<std::uint32_t>> split(const std::vector<std::uint32_t>& workers) const;
  void place(const std::vector<std::uint32_t>& workers, const messages::placement& placement);
  void order(const std::string& host, messages::shard_order order);
  /// The window that a worker trains in which has completed these steps.
  std::uint64_t window_after(std::uint64_t steps) const { return steps / file_->arbitrator.window_steps + 1; }
  /// A sign of life of the generation that is gathered says how far it is.
  void follow_progress(const messages::heartbeat& sign);

  const std::shared_ptr<const cluster::cluster_file> file_;
  const cluster::timeouts timeouts_;
  aggregator_links& links_;
  std::map<std::uint32_t, route> routes_; ///< to workers that are connected, by rank
  std::map<std::string, child> children_; ///< aggregators right below, by host
  std::optional<gather> windows_;         ///< of the newest generation
  std::uint64_t term_ = 0;                ///< in force
  bool ended_ = false;

private:
  template <class Part>
  void take_part(Part part);
  /// By what has come since `before` was the open window.
  void pass_on_gathered(const std::vector<closed_window>& closed, std::uint64_t before);

  evaluation_gate evaluations_;
};

} // namespace dynamix::actors
