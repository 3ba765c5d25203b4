#pragma once

/// Rows of the ledger that tell what is decided by. Includes no CAF.

#include "cluster/cluster_file.hpp"
#include "ledger/rows.hpp"
#include "policy/parameter_archive.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::actors {

/// What the first row of a run says of its cluster file; what is not in the file is left out.
ledger::start describe_file(const cluster::cluster_file& file);
/// The row that an arbitrator begins with. Keeps the parameters, where there is an archive; `problem` says why they
/// could not be.
ledger::deciding describe_deciding(const cluster::cluster_file& file, const std::vector<std::uint8_t>& parameters,
                                   policy::parameter_archive* archive, std::string& problem);
/// The row of a published version; the same.
ledger::policy_version describe_policy(const messages::policy_version& version, policy::parameter_archive* archive,
                                       std::string& problem);

} // namespace dynamix::actors
