#pragma once

/// What a voter with an empty directory may say. It cannot know whether it is new or was wiped, and a wiped one has
/// forgotten its votes and the entries that it acknowledged: if it spoke as a voter at once, it could elect a leader
/// that lacks what it helped to commit.
///
///     asking       It only asks, by pre-votes, which promise nothing. Once q = (n + 1) / 2 others have told their
///     terms,
///                  it knows a term above all that it may ever have voted in: whoever it helped to win had q - 1 others
///                  behind it, and any q of the n - 1 others include one of those. If those q have never held an entry,
///                  nothing was ever committed, and probation is over: the cluster is new.
///     catching up  It acknowledges entries of leaders from that term on, so that they send it their log, but neither
///                  votes nor stands. When it has applied all that such a leader has committed, it holds again what it
///                  once acknowledged, and probation is over.
///     over         It takes its votes up to `promised_term` as given, and is a voter like the others.
///
/// So a cluster's first leader takes q others besides each voter: all of three, four of five. Pure.

#include <cstddef>
#include <cstdint>
#include <map>

namespace dynamix::replication {

class probation {
public:
  enum class phase { asking, catching_up, over };

  /// `settle_ms`: how long an acknowledgement of the life before may still be under way to a leader.
  probation(std::size_t voters, std::uint64_t settle_ms) : voters_(voters), settle_ms_(settle_ms) {
    if (voters_ < 2)
      phase_ = phase::over;
  }

  phase now() const { return phase_; }
  /// Once over: the highest term heard of, in which and before which it must not vote.
  std::uint64_t promised_term() const { return term_; }

  /// Another voter has told its term; `pristine` if also that its log holds nothing but the configuration.
  void heard(std::uint64_t peer, std::uint64_t term, bool pristine, std::uint64_t now_ms);
  /// Whether to listen to a leader of this term at all.
  bool follows(std::uint64_t leader_term) const {
    return phase_ == phase::over || (phase_ == phase::catching_up && leader_term >= term_);
  }
  /// A leader that it follows has committed up to `committed`.
  void told(std::uint64_t committed, std::uint64_t now_ms);
  /// This voter has applied up to `applied`.
  void applied(std::uint64_t applied);

private:
  struct voice {
    std::uint64_t term = 0;
    bool pristine = false;
  };
  std::size_t voters_;
  std::uint64_t settle_ms_;
  phase phase_ = phase::asking;
  std::map<std::uint64_t, voice> voices_;
  std::uint64_t term_ = 0;
  std::uint64_t since_ms_ = 0;
  std::uint64_t goal_ = 0; ///< index to apply; 0 while unknown
};

} // namespace dynamix::replication
