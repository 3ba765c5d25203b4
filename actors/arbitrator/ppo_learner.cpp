#include "actors/arbitrator/ppo_learner.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"
#include "storage/atomic_file.hpp"
#include "storage/json_text.hpp"

#include <spdlog/spdlog.h>

#include <sys/resource.h>
#include <unistd.h>

namespace dynamix::actors {

namespace {

using ppo_learner_pointer = learner_actor::stateful_pointer<ppo_learner_state>;

caf::result<message<messages::policy_version>> learn(ppo_learner_pointer self,
                                                     const std::vector<message<messages::trajectory>>& trajectories) {
  std::vector<messages::trajectory> rollout;
  for (const auto& one : trajectories) {
    auto trajectory = unpack<messages::trajectory>(one, "ppo_learner");
    if (!trajectory)
      return caf::sec::invalid_argument;
    rollout.push_back(*trajectory);
  }
  auto& state = self->state;
  const auto version = state.learner->update(rollout);
  spdlog::info("policy_updated version={} policy_loss={:.4f} value_loss={:.4f} entropy={:.3f} kl={:.5f}",
               version.version, version.policy_loss, version.value_loss, version.entropy, version.approximate_kl);
  if (!state.checkpoint.empty())
    if (const auto error = state.write_file(state.checkpoint, state.learner->save()); !error.empty())
      spdlog::warn("policy_checkpoint_failed error={}", storage::quoted(error));
  return pack_checked(version);
}

/// Learning waits for nobody and nobody waits for it, so on a shared machine it takes what training leaves over. The
/// thread is the actor's own.
void yield_to_training() {
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), 19);
}

} // namespace

learner_actor::behavior_type ppo_learner(ppo_learner_pointer self, const trainer::training_module* training,
                                         const std::shared_ptr<const cluster::cluster_file>& file,
                                         std::vector<std::uint8_t> saved, std::string checkpoint,
                                         storage::file_writer write_file) {
  install_handlers(self, ppo_learner_state::name);
  yield_to_training();
  auto& state = self->state;
  state.checkpoint = std::move(checkpoint);
  state.write_file = std::move(write_file);
  std::string restored;
  if (!state.checkpoint.empty() && storage::read_file(state.checkpoint, messages::max_policy_bytes, restored).empty())
    saved.assign(restored.begin(), restored.end());
  state.learner = training->make_learner(*file, saved);
  return {
      [self](atom::learn, const std::vector<message<messages::trajectory>>& rollout) { return learn(self, rollout); },
      [self](atom::save) { return self->state.learner->save(); },
      [self](atom::current) { return pack(self->state.learner->current()); },
  };
}

} // namespace dynamix::actors
