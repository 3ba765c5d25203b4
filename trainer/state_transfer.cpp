#include "trainer/state_transfer.hpp"

namespace dynamix::trainer {

std::string take_state_of_source(training_state& state, const membership& place, exchange::group& peers,
                                 std::span<const std::uint8_t> bytes) {
  const auto sent = peers.broadcast(place.position_of(place.source), bytes);
  if (sent.empty())
    return "rank " + std::to_string(place.source) + " cannot read the checkpoint to resume from";
  checkpoint start;
  auto problem = decode(sent, start);
  if (problem.empty())
    problem = state.restore(start);
  if (!problem.empty())
    return "the state of rank " + std::to_string(place.source) + " cannot be resumed from: " + problem;
  state.regroup(place.members);
  return {};
}

} // namespace dynamix::trainer
