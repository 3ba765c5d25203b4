#include "replication/probation.hpp"

#include <algorithm>

namespace dynamix::replication {

void probation::heard(std::uint64_t peer, std::uint64_t term, bool pristine) {
  if (phase_ == phase::over)
    return;
  auto& voice = voices_[peer];
  voice.term = std::max(voice.term, term);
  // Once is enough, and late is not too late: a log only grows, so it held nothing when this process began either.
  voice.pristine = voice.pristine || pristine;
  const auto quorum = (voters_ + 1) / 2;
  if (voices_.size() < quorum)
    return;
  std::uint64_t highest = 0;
  std::size_t pristine_voices = 0;
  for (const auto& [id, one] : voices_) {
    highest = std::max(highest, one.term);
    pristine_voices += one.pristine ? 1 : 0;
  }
  if (phase_ == phase::asking) {
    phase_ = phase::catching_up;
    term_ = highest + 1;
  }
  if (pristine_voices >= quorum)
    phase_ = phase::over;
}

void probation::sent(std::uint64_t index, std::uint64_t term) {
  if (phase_ != phase::catching_up)
    return;
  if (term >= term_)
    goal_ = goal_ == 0 ? index : std::min(goal_, index);
  else if (index >= goal_)
    goal_ = 0; // another leader has put an older entry in its place
}

void probation::applied(std::uint64_t index) {
  if (phase_ == phase::catching_up && goal_ > 0 && index >= goal_)
    phase_ = phase::over;
}

} // namespace dynamix::replication
