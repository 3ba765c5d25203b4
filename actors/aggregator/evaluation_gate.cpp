#include "actors/aggregator/evaluation_gate.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

namespace dynamix::actors {

void evaluation_gate::closed(std::size_t windows) {
  earned_ += windows * window_steps_;
}

std::uint64_t evaluation_gate::formed(std::uint64_t generation, std::uint32_t first_member) {
  first_member_ = first_member;
  if (generation == generation_)
    return 0;
  generation_ = generation;
  for (auto& [host, sender] : accounts_) {
    sender.newest_step.reset();
    sender.refused = 0;
  }
  return std::exchange(refused_, 0);
}

evaluation_gate::verdict evaluation_gate::judge(const evaluation_sender& from, std::uint64_t step) {
  const auto [found, is_new] = accounts_.try_emplace(from.host);
  auto& sender = found->second;
  if (is_new)
    sender.left = most_;
  else
    sender.left = std::min(most_, sender.left + earned_ - sender.used_at);
  sender.used_at = earned_;
  verdict result{.refusal = refuse(sender, from, step)};
  if (result.refusal.empty()) {
    --sender.left;
    sender.newest_step = step;
  } else {
    ++refused_;
    result.first = ++sender.refused == 1;
  }
  return result;
}

std::string evaluation_gate::refuse(account& sender, const evaluation_sender& from, std::uint64_t step) {
  if (from.host.empty())
    return "it comes from nobody who is connected here";
  if (first_member_only_ && from.rank && first_member_ && *from.rank != *first_member_)
    return fmt::format("only the generation's first member, of rank {}, evaluates", *first_member_);
  if (from.rank && sender.newest_step && step < *sender.newest_step)
    return fmt::format("step {} is before step {}, which it has evaluated", step, *sender.newest_step);
  if (sender.left == 0)
    return "it tells of more evaluations than its generation has trained steps";
  return "";
}

} // namespace dynamix::actors
