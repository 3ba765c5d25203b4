#include "session/agreement.hpp"

#include <algorithm>

namespace dynamix::session {

namespace {

const messages::decision* find(const step_row& row, messages::decision_key key) {
  const auto found = std::ranges::find(row.held, key, &messages::decision::key);
  return found == row.held.end() ? nullptr : &*found;
}

/// The decisions of all rows under `key`, or nothing when it cannot be put in force at `next_step`.
std::vector<messages::decision> collect(std::span<const step_row> rows, messages::decision_key key,
                                        std::uint64_t next_step) {
  std::vector<messages::decision> decisions;
  decisions.reserve(rows.size());
  std::uint64_t global_batch = 0;
  for (const auto& row : rows) {
    const auto* decision = find(row, key);
    if (decision == nullptr || decision->first_step > next_step)
      return {};
    decisions.push_back(*decision);
    global_batch += decision->batch;
  }
  if (global_batch == 0)
    return {};
  return decisions;
}

} // namespace

agreement agree(std::span<const step_row> rows, messages::decision_key last_applied, std::uint64_t next_step) {
  agreement result;
  result.request = std::ranges::max(rows, {}, &step_row::request).request;
  // Every row must hold the key, so the first row's keys are all the candidates there are.
  std::array<messages::decision_key, 2> keys{rows[0].held[0].key, rows[0].held[1].key};
  std::ranges::sort(keys, std::ranges::greater{});
  for (const auto key : keys) {
    if (key <= last_applied)
      break;
    auto decisions = collect(rows, key, next_step);
    if (decisions.empty())
      continue;
    result.key = key;
    result.decisions = std::move(decisions);
    break;
  }
  return result;
}

} // namespace dynamix::session
