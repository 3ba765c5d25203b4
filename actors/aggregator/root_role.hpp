#pragma once

/// The aggregator at the root: who belongs to the cluster, which generation trains, under which term is decided, and
/// when the run is over. Without aggregators below it is the aggregator of all workers. Knows no CAF.

#include "actors/aggregator/aggregator_role.hpp"
#include "actors/aggregator/layout_decision.hpp"
#include "actors/aggregator/membership.hpp"
#include "actors/arbitrator/decision_journal.hpp"
#include "actors/host_events.hpp"
#include "actors/network/worker_names.hpp"
#include "cluster/tree_plan.hpp"
#include "ledger/file.hpp"

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::actors {

struct root_options {
  std::string host; ///< that holds it; empty: the cluster file's only arbitrator
  std::shared_ptr<ledger::writer> run_ledger;
  std::shared_ptr<host_events> events;
  double ledger_origin_seconds = 0; ///< on the actor system's clock
  // Of a replicated arbitrator.
  std::shared_ptr<decision_journal> journal;                ///< null: what is decided holds at once
  std::shared_ptr<const replication::journal_state> before; ///< what the leader before left; null: nothing
  std::uint64_t voter = 1;                                  ///< this host's
  std::shared_ptr<worker_names> names;                      ///< of those who have places; null: none are known
  cluster::tree_plan plan;                                  ///< of the tree below; without nodes: none
  shard_layout layout;                                      ///< of its shards, where no journal knows; else as planned
  std::function<std::string(const shard_layout&)>
      write_layout; ///< keeps it where there is no journal; an error message

  bool tree() const { return !plan.nodes.empty(); }
};

class root_role final : public aggregator_role {
public:
  root_role(const std::shared_ptr<const cluster::cluster_file>& file, const cluster::timeouts& timeouts,
            root_options options, aggregator_links& links);

  void take_hello(const messages::hello& hello, const route& way, hello_reply reply) override;
  bool take_beat(const messages::heartbeat& sign) override;
  void take_farewell(const messages::farewell& farewell, std::function<void(bool taken)> answered) override;
  void take_evaluation(const messages::evaluation_report& evaluation) override;
  void lost_worker(std::uint32_t rank) override;

  bool takes_children() const override { return options_.tree(); }
  void take_child(const messages::shard_hello& hello, std::function<void(const messages::welcome&)> answer) override;
  void take_absence(const messages::absence& gone, const route& way) override;
  void take_beats(const messages::beat_summary& summary) override;
  /// Its workers look for another; only the one on its own host goes with it.
  void lost_child(const std::string& host, bool broken) override;

  void serve_arbitrator() override;
  /// All workers are to end training; those that have not joined are not waited for.
  void stop() override;
  void tick() override { look(); }
  /// Does what the membership wants done by now, and looks whether the run is over.
  void look() override;
  void settle(std::uint64_t token, bool kept) override { kept_.settle(token, kept); }
  /// Of a person (node/commands/command_arbitrators.cpp): "list" or a shard_command. Answers in JSON, once it holds.
  void take_command(const std::string& line, std::function<void(std::string)> answer) override;

private:
  std::uint32_t levels_below() const override { return options_.tree() ? options_.plan.depth - 1 : 0; }
  void pass_on(const std::vector<closed_window>& closed) override;
  void write_row(ledger::entry entry);
  bool write_refusal(const messages::hello& hello, const messages::welcome& welcome);
  void write_shard(const std::string& host, ledger::shard_state state);
  const std::string& host_of(std::uint32_t rank) const { return members_.state().members[rank].host; }

  messages::welcome take_in(const messages::hello& hello, const route& way);
  void send_kept_decision(const messages::hello& hello, std::uint32_t rank);
  void adopt_windows();
  void lose(std::uint32_t rank, const std::string& detail);
  void tell_loss(std::uint32_t rank, const std::string& detail);
  void tell_false_completion(std::uint32_t rank, const std::string& detail);
  void keep_completion();

  /// Does it once the journal keeps it, never if it does not.
  void keep(journal_content content, std::function<void()> action);
  /// Does it once every term that was raised so far is in force.
  void once_in_force(std::function<void()> action);
  void admit_worker(const messages::hello& hello, const messages::welcome& welcome, const route& way,
                    const hello_reply& reply);
  /// The arbitrator decides under a term above every one that a worker has obeyed or that was kept.
  void raise_term();
  void carry_out(const membership_change& change);
  void begin_generation(const membership_change& change);
  void announce(const membership_change& change, const std::string& reason);
  void look_whether_over();
  void finish(const part_outcome& outcome);

  std::uint32_t shard_of(std::uint32_t rank) const { return rank < layout_.homes.size() ? layout_.homes[rank] : 0; }
  std::pair<std::string, std::string> home_of(std::uint32_t rank) const;
  bool is_there(const std::string& child) const;
  bool takes_workers(const std::string& child) const;
  bool comes_from_home(std::uint32_t rank, const route& way) const;
  bool is_in_place(std::uint32_t rank, const route& way) const;
  std::map<std::string, std::size_t> count_loads(const std::string& without = {}) const;
  bool is_crowded(const route& way, const std::string& child, const std::string& worker) const;
  std::string find_home(const std::string& worker, const route& way);
  std::pair<std::string, std::string> find_room(std::uint32_t rank) const;
  void call_home(const std::string& host);
  void follow_route(const messages::heartbeat& sign, const std::string& child);
  void find_late_children();

  tree_view view() const;
  std::uint32_t shard_reached(const route& way, std::uint32_t rank) const;
  std::string describe_arbitrators() const;
  /// Answers what became of it, once it holds.
  void lay_out(layout_change change, std::function<void(std::string)> answer);
  void replace_lost_shards();

  const root_options options_;
  membership members_;
  messages::placement newest_;     ///< generation 0: none was formed here
  std::set<std::uint32_t> unsure_; ///< ranks that may not have heard of it
  std::vector<messages::farewell> farewells_;
  std::set<std::pair<std::string, messages::welcome_verdict>> refused_; ///< hellos that were told of, by host
  struct departure {
    double at_seconds = 0;
    std::string child; ///< through which it is to come again
  };
  std::map<std::string, departure> sent_home_; ///< workers that were last sent to a shard, and have not come from there
  shard_layout layout_;                        ///< in force; without a tree empty
  bool laying_out_ = false;                    ///< another one is being kept
  std::map<std::uint32_t, double> away_since_; ///< shards right below the root that take workers and are not there
  kept_actions kept_;
  std::uint64_t proposed_term_ = 0;                                            ///< in force once the journal keeps it
  std::deque<std::pair<std::uint64_t, std::function<void()>>> awaiting_terms_; ///< what is to be done then, rising
  std::uint64_t terms_ = 0; ///< each arbitrator that serves here and each generation has one of its own
  bool stop_requested_ = false;
  bool completion_kept_ = false; ///< in the journal
};

} // namespace dynamix::actors
