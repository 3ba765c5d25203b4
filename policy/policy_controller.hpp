#pragma once

#include "policy/controller.hpp"

namespace dynamix::policy {

/// `ppo` and `ppo-simple`. As make_controller.
std::unique_ptr<controller> make_policy_controller(const cluster::cluster_file& file,
                                                   const std::vector<std::uint8_t>& parameters);

} // namespace dynamix::policy
