#include "replication/probation.hpp"

#include <algorithm>

namespace dynamix::replication {

void probation::heard(std::uint64_t peer, std::uint64_t term, bool pristine, std::uint64_t now_ms) {
  if (phase_ == phase::over)
    return;
  auto& voice = voices_[peer];
  voice.term = std::max(voice.term, term);
  // Once is enough, and late is not too late: a log only grows, so it held nothing when this process began either.
  voice.pristine = voice.pristine || pristine;
  const auto quorum = (voters_ + 1) / 2;
  if (voices_.size() < quorum)
    return;
  std::size_t pristine_voices = 0;
  for (const auto& [id, one] : voices_) {
    term_ = std::max(term_, one.term);
    pristine_voices += one.pristine ? 1 : 0;
  }
  if (pristine_voices >= quorum) {
    phase_ = phase::over;
  } else if (phase_ == phase::asking) {
    phase_ = phase::catching_up;
    since_ms_ = now_ms;
  }
}

void probation::told(std::uint64_t committed, std::uint64_t now_ms) {
  if (phase_ == phase::catching_up && now_ms >= since_ms_ + settle_ms_ && goal_ == 0)
    goal_ = committed;
}

void probation::applied(std::uint64_t applied) {
  if (phase_ == phase::catching_up && goal_ > 0 && applied >= goal_)
    phase_ = phase::over;
}

} // namespace dynamix::replication
