#pragma once

#include "cluster/cluster_file.hpp"

namespace dynamix::node {

/// Another policy may have been chosen than the file was written for: forgets parameters that are of another kind, or
/// that the policy has no use for. What is not a policy file stays, for whoever loads it says why.
void drop_foreign_parameters(cluster::cluster_file& file);

} // namespace dynamix::node
