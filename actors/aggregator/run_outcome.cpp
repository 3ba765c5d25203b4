#include "actors/aggregator/run_outcome.hpp"

#include "messages/leave.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

namespace dynamix::actors {

part_outcome judge_run(const membership& members, const std::vector<messages::farewell>& farewells, bool stop_requested,
                       const std::string& why) {
  const auto succeeded = std::ranges::count(farewells, true, &messages::farewell::succeeded);
  if (const auto doubts = members.doubts(); succeeded > 0 && !doubts.empty())
    return {false, fmt::format("{} said that training was complete, and {}, who trained with it, were lost",
                               members.names(member_state::departed), doubts)};
  if (succeeded > 0 && std::ranges::none_of(farewells, messages::tells_completion)) {
    const auto stopped = *std::ranges::max_element(farewells, {}, [](const auto& said) {
      return std::pair(said.succeeded, said.steps);
    });
    return {true,
            fmt::format("training was stopped after step {}{}", stopped.steps,
                        stopped.reason == messages::stopped_reason ? "" : ": " + stopped.reason),
            true};
  }
  if (succeeded > 0)
    return {true, static_cast<std::size_t>(succeeded) == members.state().members.size()
                      ? "all workers have finished"
                      : fmt::format("{} finished", members.names(member_state::departed))};
  if (const auto rank = members.state().finished_before)
    return {true, fmt::format("{} finished under a previous arbitrator", members.state().members[*rank].host)};
  if (!farewells.empty() && std::ranges::all_of(farewells, messages::tells_leave) &&
      members.count(member_state::lost) == 0)
    return {true, fmt::format("{} left", members.names(member_state::left))};
  const auto failed =
      std::ranges::find_if(farewells, [](const auto& said) { return !said.succeeded && !messages::tells_leave(said); });
  if (failed != farewells.end())
    return {false, failed->host + ": " + failed->reason};
  if (members.count(member_state::lost) > 0)
    return {false, fmt::format("lost {} in mid-training", members.names(member_state::lost))};
  if (stop_requested)
    return {false, fmt::format("{}before all workers had joined", messages::stop_mark), true};
  return {false, why};
}

bool ends_run(const host_events::snapshot& ended, bool left, bool stop_asked) {
  return !left && (ended.arbitrator || stop_asked);
}

} // namespace dynamix::actors
