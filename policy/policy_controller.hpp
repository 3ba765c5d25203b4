#pragma once

#include "policy/controller.hpp"

namespace dynamix::policy {

/// `ppo` and `ppo-simple`. As make_controller.
std::unique_ptr<controller> make_policy_controller(const cluster::cluster_file& file,
                                                   const std::vector<std::uint8_t>& parameters);

/// Throws std::invalid_argument unless there is one assigned batch size a report.
void check_assigned(const observation& observed);

} // namespace dynamix::policy
