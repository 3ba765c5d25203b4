#include "trainer/state_transfer.hpp"

namespace dynamix::trainer {

std::string take_state_of_source(training_state& state, const membership& place, exchange& peers,
                                 std::span<const std::uint8_t> bytes) {
  const auto sent = broadcast_bytes(peers, position_of(place, place.source), bytes);
  if (sent.numel() == 0)
    return "rank " + std::to_string(place.source) + " cannot read the checkpoint to resume from";
  checkpoint start;
  auto problem = decode({sent.data_ptr<std::uint8_t>(), static_cast<std::size_t>(sent.numel())}, start);
  if (problem.empty())
    problem = state.restore(start);
  if (!problem.empty())
    return "the state of rank " + std::to_string(place.source) + " cannot be resumed from: " + problem;
  state.regroup(place.members);
  return {};
}

} // namespace dynamix::trainer
