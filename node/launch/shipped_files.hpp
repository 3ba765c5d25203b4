#pragma once

#include "cluster/cluster_file.hpp"

/// What comes with the program: the trained policy, clusters, profiles.

#include <string>
#include <string_view>

namespace dynamix::node {

/// Path of a file or directory that is named as below deployments/ ("policies/ppo.dynamix"): in share/dynamix where the
/// program is installed, in deployments/ where it runs in its source tree. Empty: there is none.
std::string find_shipped(std::string_view name);

/// Whether the file at `path` is the shipped one of that name, and so as trustworthy as the program.
bool is_shipped(const std::string& path, std::string_view name);

/// Path of the parameters of ppo that come with the program, where the file leaves arbitrator.policy_file out and they
/// fit it; else empty. Those drawn from a seed decide badly, and the guard blames the cluster.
std::string find_default_parameters(const cluster::cluster_file& file);

} // namespace dynamix::node
