// How a run goes on from a state, and with other members.

#include "client/run.hpp"

#include <fmt/core.h>

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

} // namespace dynamix::client
