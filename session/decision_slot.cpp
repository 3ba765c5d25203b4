#include "session/decision_slot.hpp"

#include <algorithm>
#include <cstddef>

namespace dynamix::session {

namespace {

constexpr messages::decision_key none{};

} // namespace

decision_slot::decision_slot(std::uint32_t rank, std::uint32_t lowest_batch, std::uint32_t highest_batch)
    : rank_(rank), lowest_batch_(lowest_batch), highest_batch_(highest_batch) {}

void decision_slot::enter_generation(std::uint64_t generation) {
  const std::lock_guard lock(mutex_);
  if (generation == generation_)
    return;
  generation_ = generation;
  drop_held();
}

offer_verdict decision_slot::offer(const messages::decision& decision) {
  const std::lock_guard lock(mutex_);
  if (decision.generation != generation_ || generation_ == 0) {
    ++counts_.stale_refused;
    return offer_verdict::wrong_generation;
  }
  if (decision.rank != rank_ || decision.batch < lowest_batch_ || decision.batch > highest_batch_)
    return offer_verdict::out_of_bounds;
  if (decision.key != none &&
      (decision.key == newest_ || decision.key == held_[1].key || decision.key == last_applied_)) {
    ++counts_.duplicated;
    return offer_verdict::duplicate;
  }
  if (decision.key <= newest_) {
    ++counts_.stale_refused;
    return offer_verdict::stale;
  }
  newest_ = decision.key;
  ++counts_.received;
  if (closed_) {
    ++counts_.unapplied;
    return offer_verdict::accepted;
  }
  if (held_[1].key != none)
    ++counts_.superseded;
  held_[1] = held_[0];
  held_[0] = decision;
  return offer_verdict::accepted;
}

std::array<messages::decision, 2> decision_slot::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

void decision_slot::applied(const messages::decision& decision, std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  if (auto* dropped = std::ranges::find(dropped_, decision.key); dropped != dropped_.end()) {
    --counts_.unapplied; // its generation ended before it came into force
    *dropped = none;
  } else if (decision.key != held_[0].key && decision.key != held_[1].key) {
    --counts_.superseded; // newer ones displaced it while the workers were agreeing on it
  }
  ++counts_.applied;
  if (step > decision.first_step)
    ++counts_.late;
  last_applied_ = decision.key;
  for (auto& held : held_) {
    if (held.key == none || held.key > decision.key)
      continue;
    if (held.key != decision.key)
      ++counts_.superseded;
    held = {};
  }
}

messages::decision_counts decision_slot::close() {
  const std::lock_guard lock(mutex_);
  closed_ = true;
  drop_held();
  return counts_;
}

void decision_slot::drop_held() {
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (held_[i].key != none)
      ++counts_.unapplied;
    dropped_[i] = held_[i].key;
    held_[i] = {};
  }
}

messages::decision_counts decision_slot::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

messages::decision_key decision_slot::newest() const {
  const std::lock_guard lock(mutex_);
  return newest_;
}

} // namespace dynamix::session
