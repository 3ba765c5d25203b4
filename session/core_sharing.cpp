#include "session/core_sharing.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace dynamix::session {
namespace {

constexpr double demand_margin = 1.25;

} // namespace

std::uint64_t encode_core_use(const core_use& use) {
  return std::uint64_t{use.set} << 32U | std::uint64_t{use.cpus} << 16U | use.demand_percent;
}

core_use decode_core_use(std::uint64_t number) {
  return {.set = static_cast<std::uint32_t>(number >> 32U),
          .cpus = static_cast<std::uint16_t>(number >> 16U),
          .demand_percent = static_cast<std::uint16_t>(number)};
}

std::optional<std::vector<shared_cores>> judge_cores(std::span<const core_use> members) {
  struct core_set {
    std::uint32_t members = 0;
    std::uint32_t cpus = 0;
    double demand = 0;
  };
  std::map<std::uint32_t, core_set> sets;
  for (const auto& member : members) {
    if (member.cpus == 0)
      return std::nullopt;
    auto& set = sets[member.set];
    ++set.members;
    set.cpus = std::max<std::uint32_t>(set.cpus, member.cpus);
    set.demand += std::min<double>(member.demand_percent / 100.0, member.cpus);
  }
  std::vector<shared_cores> shared(members.size());
  for (std::size_t i = 0; i < members.size(); ++i) {
    const auto& set = sets.at(members[i].set);
    if (members[i].set != 0 && set.members > 1 && set.demand > demand_margin * set.cpus)
      shared[i] = {.set = members[i].set, .cpus = set.cpus, .demand = set.demand};
  }
  return shared;
}

std::string describe_sharing(std::span<const shared_cores> members, std::size_t member) {
  const auto& own = members[member];
  if (own.cpus == 0)
    return {};
  std::string who;
  for (std::size_t i = 0; i < members.size(); ++i)
    if (members[i].cpus > 0 && members[i].set == own.set)
      who += (who.empty() ? "" : ", ") + std::to_string(i);
  const auto tenths = std::lround(10 * own.demand);
  return "members " + who + " share " + std::to_string(own.cpus) + (own.cpus == 1 ? " CPU" : " CPUs") +
         " and would keep " + std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) +
         " busy: their shares follow decisions alone (balance = \"on\" has them follow paces all the same)";
}

} // namespace dynamix::session
