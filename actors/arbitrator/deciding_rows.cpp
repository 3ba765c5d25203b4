#include "actors/arbitrator/deciding_rows.hpp"

#include "cluster/places.hpp"
#include "policy/state.hpp"

#include <spdlog/fmt/fmt.h>

namespace dynamix::actors {

ledger::start describe_file(const cluster::cluster_file& file) {
  ledger::start start{.cluster = file.name,
                      .policy = std::string(cluster::to_string(file.arbitrator.policy)),
                      .mode = std::string(cluster::to_string(file.arbitrator.mode)),
                      .seed = file.seed,
                      .window_steps = file.arbitrator.window_steps,
                      .epochs = file.training.epochs,
                      .target_accuracy = file.training.target_accuracy,
                      .workers = {},
                      .state_fields = {},
                      .actions = file.arbitrator.actions,
                      .scales = file.arbitrator.scales,
                      .started_at = {}};
  for (const auto* worker : file.workers())
    if (!cluster::is_place(*worker)) // whoever comes is told of then
      start.workers.push_back(worker->name);
  for (const auto& field : policy::state_fields())
    start.state_fields.emplace_back(field.name);
  return start;
}

ledger::deciding describe_deciding(const cluster::cluster_file& file, const std::vector<std::uint8_t>& parameters,
                                   policy::parameter_archive* archive, std::string& problem) {
  problem = archive == nullptr ? "" : archive->keep(parameters);
  return {.cluster_digest = fmt::format("{:016x}", file.digest()), .parameters = policy::digest_of(parameters)};
}

ledger::policy_version describe_policy(const messages::policy_version& version, policy::parameter_archive* archive,
                                       std::string& problem) {
  problem = archive == nullptr ? "" : archive->keep(version.parameters);
  return {.version = version.version,
          .policy_loss = version.policy_loss,
          .value_loss = version.value_loss,
          .entropy = version.entropy,
          .approximate_kl = version.approximate_kl,
          .clip_fraction = version.clip_fraction,
          .parameters = policy::digest_of(version.parameters)};
}

} // namespace dynamix::actors
