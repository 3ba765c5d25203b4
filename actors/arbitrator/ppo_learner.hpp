#pragma once

#include "actors/interfaces.hpp"
#include "cluster/cluster_file.hpp"
#include "storage/atomic_file.hpp"
#include "trainer/training_module.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::actors {

/// Runs detached: an update computes for milliseconds to seconds.
struct ppo_learner_state {
  static constexpr const char* name = "ppo_learner";
  std::unique_ptr<policy::learner> learner;
  storage::file_writer write_file;
  std::string checkpoint; ///< written after every update, so that nothing learned is lost; empty: none
};

/// Starts from the checkpoint if there is one (after a restart), else from `saved` (a saved learner or parameters; may
/// be empty).
learner_actor::behavior_type ppo_learner(learner_actor::stateful_pointer<ppo_learner_state> self,
                                         const trainer::training_module* training,
                                         const std::shared_ptr<const cluster::cluster_file>& file,
                                         std::vector<std::uint8_t> saved, std::string checkpoint,
                                         storage::file_writer write_file);

} // namespace dynamix::actors
