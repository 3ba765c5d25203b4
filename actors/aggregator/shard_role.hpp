#pragma once

/// The aggregator of a shard, or of one above shards:
///
///     detached --parent's gateway reached, taken in--> attached
///        ^                                               |
///        +------ the parent is gone, or silent ----------+
///
/// A shard gathers its workers' reports and hands its arbitrator's decisions out, whether attached or not. What
/// concerns membership goes through it: hellos, farewells and absences up, places and notices down; signs of life end
/// here, and go up summed. One above shards does the same for those, and joins their windows. Attached again, it begins
/// anew, and with it its workers: then each says where it stands, and the parent knows them, whatever it knew before.
/// Knows no CAF.

#include "actors/aggregator/aggregator_role.hpp"
#include "actors/aggregator/roster.hpp"
#include "actors/host_events.hpp"
#include "actors/network/worker_names.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace dynamix::actors {

struct shard_options {
  std::string host;   ///< which holds it, and by which it goes
  std::string parent; ///< the host of the one above
  std::uint64_t incarnation = 0;
  std::uint32_t first_rank = 0;        ///< of the workers that it is planned for, which follow each other
  std::uint32_t workers = 0;           ///< that it is planned for; 0: it stands by, for whoever comes
  std::uint32_t levels_below = 0;      ///< of arbitrators; 0: it is a shard
  std::shared_ptr<worker_names> names; ///< of those who have places; null: none are known
  std::shared_ptr<host_events> events; ///< null: the host's end does not depend on it
};

class shard_role final : public aggregator_role {
public:
  shard_role(const std::shared_ptr<const cluster::cluster_file>& file, const cluster::timeouts& timeouts,
             shard_options options, aggregator_links& links);

  void take_hello(const messages::hello& hello, const route& way, hello_reply reply) override;
  bool take_beat(const messages::heartbeat& sign) override;
  void take_farewell(const messages::farewell& farewell, std::function<void(bool taken)> answered) override;
  void take_evaluation(const messages::evaluation_report& evaluation) override { links_.report(evaluation); }
  void lost_worker(std::uint32_t rank) override;

  bool takes_children() const override { return links_.has_parent(); }
  void take_child(const messages::shard_hello& hello, std::function<void(const messages::welcome&)> answer) override;
  void take_absence(const messages::absence& gone, const route& way) override;
  void take_beats(const messages::beat_summary& summary) override;
  /// Its workers come again through others.
  void lost_child(const std::string& host, bool broken) override;

  void take_placement(const std::vector<std::uint32_t>& workers, const messages::placement& placement) override;
  void take_order(const messages::shard_order& order) override;

  void serve_arbitrator() override;
  void tick() override;
  void find_parent() override;
  void reached_parent() override;
  void lost_parent(const char* why) override;

private:
  std::uint32_t levels_below() const override { return options_.levels_below; }
  void pass_on(const std::vector<closed_window>& closed) override;
  bool is_young() const;
  bool has_own_end() const;
  bool trains(std::uint32_t rank) const;
  void send_on(const hello_reply& reply) const;
  void joined(const messages::hello& hello, std::uint32_t rank, const route& way);
  void follow_generation(std::uint64_t generation, std::uint32_t rank, const std::vector<std::uint32_t>& members);
  void await_own(const std::vector<std::uint32_t>& members);
  void forget(std::uint32_t rank);
  void attached(std::uint64_t term);
  void attach_later(const std::string& leader);
  void raise_term(std::uint64_t term);
  void find_silent_workers();
  void end(const part_outcome& how);

  const shard_options options_;
  roster workers_;
  std::optional<messages::placement> placement_; ///< newest
  std::uint64_t attachments_ = 0;                ///< so far
  bool attaching_ = false;
  std::uint32_t refused_attaches_ = 0; ///< in a row
  double began_seconds_;
  std::uint64_t farewells_ = 0;
  std::uint64_t ticks_ = 0;
};

} // namespace dynamix::actors
