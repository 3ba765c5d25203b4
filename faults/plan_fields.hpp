#pragma once

/// The one table of a plan's fields: parsing, range checks and docs/faults.md read it. Internal to the room.

#include "faults/plan.hpp"
#include "settings/field.hpp"

#include <span>

namespace dynamix::faults {

std::span<const settings::field<fault_plan>> plan_fields(); ///< [plan], [limits]
/// [[fault]]; `mark` holds fault_field bits: only kinds with one of them have the field; 0: all.
std::span<const settings::field<fault_rule>> rule_fields();

} // namespace dynamix::faults
