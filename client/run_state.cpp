// How a run goes on from a state, with other members, and without the agents of some.

#include "client/run.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <utility>
#include <vector>

namespace dynamix::client {

std::string run::restore(std::span<const std::uint64_t> words, std::span<const std::uint32_t> highest) {
  if (steps_->dealt() != steps_->step())
    return "restore comes before start_epoch";
  if (!highest.empty() && highest.size() != members_)
    return fmt::format("there are {} members, not {}", members_, highest.size());
  std::uint64_t given = 0;
  for (const auto& member : steps_->options().members)
    given += member.initial;
  if (auto problem = steps_->restore(words, highest); !problem.empty())
    return "the state cannot be restored: " + problem;
  if (given != steps_->base_batch() && position_ == 0)
    notice(
        fmt::format("warning: the restored state's batch sizes stand ({} samples per step, {} of them here), as far as "
                    "limits allow, and not those given ({} in all, where the training began with {})",
                    steps_->batches_at(steps_->step()).total(), steps_->batches_at(steps_->step()).batches[0], given,
                    steps_->base_batch()));
  begin_behind_state();
  return {};
}

std::string run::catch_up(std::span<const std::uint64_t> words) {
  if (steps_->dealt() != steps_->step())
    return "catch_up comes behind begin, or behind regroup";
  if (auto problem = steps_->catch_up(words); !problem.empty())
    return "the others' state cannot be taken: " + problem;
  begin_behind_state();
  return {};
}

void run::begin_behind_state() {
  awaited_.clear();
  sums_ = {.first_step = steps_->step()};
  timed_batches_ = steps_->batches_at(steps_->step()).batches;
}

std::string run::regroup(std::span<const std::uint32_t> present) {
  if (present.size() != members_ || present[position_] == 0)
    return fmt::format("{} members, of which this one ({}) has to be present, expected {}", present.size(), position_,
                       members_);
  std::vector<bool> taking_part;
  for (const auto each : present)
    taking_part.push_back(each != 0);
  steps_->regroup(taking_part);
  cores_ = {};
  own_weight_.reset();
  awaited_.clear();
  sums_.restart_times();
  timed_batches_ = steps_->batches_at(steps_->step()).batches;
  tell_group();
  return {};
}

/// An elastic group that has been formed anew, or members whose agents have gone: what decides for the others is not to
/// wait for those.
void run::tell_group() {
  if (!link_ || !link_->connected() || !steps_)
    return;
  auto said = hello_;
  said.position = said.members = 0;
  for (std::uint32_t member = 0; member < members_; ++member) {
    const bool counts = steps_->is_present(member) && (steps_->has_agent(member) || member == position_);
    said.position += counts && member < position_ ? 1 : 0;
    said.members += counts ? 1 : 0;
  }
  if (said.members == std::exchange(told_members_, said.members))
    return;
  link_->send(said);
}

std::vector<std::uint32_t> run::without_agent() const {
  std::vector<std::uint32_t> found;
  for (std::uint32_t member = 0; member < members_; ++member)
    if (!steps_->has_agent(member))
      found.push_back(member);
  return found;
}

/// `lacked`: who was without an agent before. The first member says what has changed; whose agent it is has said that
/// it is gone.
void run::tell_agents(const std::vector<std::uint32_t>& lacked) {
  const auto lacks = without_agent();
  if (lacks == lacked)
    return;
  tell_group();
  const bool own_is_back = lacks.empty() && std::ranges::binary_search(lacked, position_);
  if (position_ != 0 && !own_is_back)
    return;
  bool somebody_has_one = false;
  for (std::uint32_t member = 0; member < members_; ++member)
    somebody_has_one = somebody_has_one || (steps_->is_present(member) && steps_->has_agent(member));
  if (lacks.empty())
    notice("all members have their agents again, and decisions are for all of them");
  else if (somebody_has_one)
    notice(fmt::format("warning: the agent of member {} is gone: decisions are for the other members alone until it is "
                       "back",
                       fmt::join(lacks, ", of member ")));
}

/// The base batch of those whom decisions are for, as their share of the global batch is: the others keep theirs.
std::uint64_t run::decided_base_batch(const planned_batches& planned) const {
  std::uint64_t decided = 0;
  for (std::uint32_t member = 0; member < members_; ++member)
    decided += steps_->has_agent(member) ? planned.batches[member] : 0;
  const auto share = static_cast<double>(decided) / static_cast<double>(planned.total());
  return static_cast<std::uint64_t>(std::max(1LL, std::llround(share * static_cast<double>(steps_->base_batch()))));
}

} // namespace dynamix::client
