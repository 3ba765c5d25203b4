#pragma once

#include "actors/interfaces.hpp"
#include "policy/deliberation.hpp"

#include <optional>
#include <vector>

namespace dynamix::actors {

/// Decides a shard's windows by the newest guidance, at once, and tells its hub what it has decided.
struct shard_arbitrator_state {
  static constexpr const char* name = "shard_arbitrator";
  std::optional<policy::deliberation> judge;
  shard_local hub;
};

/// `parameters` of the policy; empty: fresh ones. Throws std::invalid_argument when they do not fit.
shard_arbitrator_actor::behavior_type
shard_arbitrator(shard_arbitrator_actor::stateful_pointer<shard_arbitrator_state> self,
                 const cluster::cluster_file& file, const std::vector<std::uint8_t>& parameters,
                 const shard_local& hub);

} // namespace dynamix::actors
