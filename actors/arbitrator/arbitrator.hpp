#pragma once

#include "actors/arbitrator/decision_journal.hpp"
#include "actors/interfaces.hpp"
#include "ledger/file.hpp"
#include "policy/deliberation.hpp"
#include "policy/parameter_archive.hpp"

#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace dynamix::actors {

/// Where an arbitrator stands.
enum class arbitrator_seat : std::uint8_t {
  alone, ///< decides for all workers
  root,  ///< of a tree: judges what the shards have decided, and guides them
  shard  ///< decides for its workers by the newest guidance, at once
};

struct arbitrator_options {
  std::shared_ptr<const cluster::cluster_file> file;
  cluster::timeouts timeouts;
  std::vector<std::uint8_t> parameters;       ///< of the policy; empty: fresh ones
  std::shared_ptr<ledger::writer> run_ledger; ///< null: of a shard, whose root writes
  double ledger_origin_seconds = 0;
  std::shared_ptr<policy::parameter_archive> archive; ///< of what decides; null: it is not kept
  arbitrator_seat seat = arbitrator_seat::alone;
  std::uint64_t incarnation = 0; ///< of a shard's, by which its windows are told from those of the one before it
  std::shared_ptr<decision_journal> journal; ///< of a replicated arbitrator; null: what is decided holds at once
};

/// Decides or judges every window that its aggregator closes, and keeps the learner fed.
struct arbitrator_state {
  static constexpr const char* name = "arbitrator";
  arbitrator_options options;
  std::optional<policy::deliberation> judge;
  aggregator_local aggregator;
  learner_actor learner; ///< null for policies that do not learn
  kept_actions kept;
  std::vector<caf::typed_response_promise<atom::finish>> finishing; ///< who waits until nothing is to be kept any more
  std::map<std::uint32_t, std::uint64_t> doubted; ///< generation in which a worker's steps were last told of, by rank
  bool learning = false; ///< a rollout is with the learner; rollouts that come meanwhile are dropped
};

arbitrator_actor::behavior_type arbitrator(arbitrator_actor::stateful_pointer<arbitrator_state> self,
                                           arbitrator_options options, aggregator_local aggregator,
                                           learner_actor learner);

} // namespace dynamix::actors
