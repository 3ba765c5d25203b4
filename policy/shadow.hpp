#pragma once

/// Shadow mode: a controller decides, and nothing changes. Includes no Torch.

#include "policy/controller.hpp"

#include <memory>

namespace dynamix::policy {

/// Decides as `decider` does on what it sees, and keeps every batch size: a choice says what would have been set as
/// `proposed`, and that no action was taken. It does not learn. All else is passed through, the guard's interventions
/// too.
std::unique_ptr<controller> make_shadow(std::unique_ptr<controller> decider);

} // namespace dynamix::policy
