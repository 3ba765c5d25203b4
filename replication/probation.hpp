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
///     catching up  It follows leaders from that term on and acknowledges their entries, but neither votes nor stands.
///     A
///                  leader of an older term still counts on what it acknowledged in its life before, and is told to
///                  step down. When it has applied an entry of such a newer term it holds all that was ever committed,
///                  and probation is over. (Every leader adds an entry when it is elected.)
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

  explicit probation(std::size_t voters) : voters_(voters) {}

  phase now() const { return phase_; }
  /// Above all terms that were heard of when it stopped asking: it votes in none up to here, and follows no leader
  /// below.
  std::uint64_t promised_term() const { return term_; }

  /// Another voter has told its term; `pristine` if also that its log holds nothing but the configuration.
  void heard(std::uint64_t peer, std::uint64_t term, bool pristine);
  /// Whether to listen to a leader of this term at all.
  bool follows(std::uint64_t leader_term) const {
    return phase_ == phase::over || (phase_ == phase::catching_up && leader_term >= term_);
  }
  /// A leader that it follows has sent the entry at `index`, or a snapshot that ends with it, which is of this term.
  void sent(std::uint64_t index, std::uint64_t term);
  /// This voter has applied up to `index`.
  void applied(std::uint64_t index);

private:
  struct voice {
    std::uint64_t term = 0;
    bool pristine = false;
  };
  std::size_t voters_;
  phase phase_ = phase::asking;
  std::map<std::uint64_t, voice> voices_;
  std::uint64_t term_ = 0;
  std::uint64_t goal_ = 0; ///< first index of a newer term; 0 while there is none
};

} // namespace dynamix::replication
