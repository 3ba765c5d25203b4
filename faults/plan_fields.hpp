#pragma once

/// The one table of a plan's fields: parsing, range checks and docs/faults.md read it. Internal to the room.

#include "cluster/fields.hpp"
#include "faults/plan.hpp"

#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace dynamix::faults {

/// A [[fault]] as the file writes it.
struct rule_entry {
  fault_rule rule;
  std::vector<std::string> kinds;
  std::vector<std::string> targets;
  std::string direction = "both";
};

using place = std::variant<double*, std::uint64_t*, std::uint32_t*, bool*, std::string*, std::vector<std::string>*>;

template <class Record>
struct plan_field {
  std::string_view name;
  place (*locate)(Record& record);
  std::string_view doc;
  cluster::range allowed = {}; ///< of a number
  bool required = false;
  std::uint8_t kinds = 0; ///< fault_field bits: only kinds with one of them have it; 0: all
};

std::span<const plan_field<fault_plan>> plan_fields();    ///< [plan]
std::span<const plan_field<fault_limits>> limit_fields(); ///< [limits]
std::span<const plan_field<rule_entry>> rule_fields();    ///< [[fault]]

} // namespace dynamix::faults
