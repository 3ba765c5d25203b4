#include "actors/deciding_rows.hpp"

#include <spdlog/fmt/fmt.h>

namespace dynamix::actors {

ledger_deciding describe_deciding(const cluster::cluster_file& file, const std::vector<std::uint8_t>& parameters,
                                  policy::parameter_archive* archive, std::string& problem) {
  problem = archive == nullptr ? "" : archive->keep(parameters);
  return {.cluster_digest = fmt::format("{:016x}", file.digest()), .parameters = policy::digest_of(parameters)};
}

ledger_policy describe_policy(const messages::policy_version& version, policy::parameter_archive* archive,
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
