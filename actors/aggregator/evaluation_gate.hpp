#pragma once

/// Which evaluations an aggregator believes, and how many. Knows no CAF and no clock.

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace dynamix::actors {

/// Who an evaluation came from, by its connection.
struct evaluation_sender {
  std::string host;                  ///< of the worker, or of the aggregator below; empty: neither is connected
  std::optional<std::uint32_t> rank; ///< of a worker; nothing: it came through an aggregator below
};

/// A model can be evaluated once a step. So each sender may have told of as many evaluations as its generation has
/// trained steps, by the windows that have closed here, and of some more at the beginning. In the built-in trainer
/// only the first member of a generation evaluates, and in no generation do steps fall.
class evaluation_gate {
public:
  /// `first_member_only`: the built-in trainer's.
  evaluation_gate(std::uint32_t window_steps, bool first_member_only)
      : window_steps_(window_steps), most_(most_at_once(window_steps)), first_member_only_(first_member_only) {}

  /// Windows have closed here: each sender may tell of as many more steps.
  void closed(std::size_t windows);
  /// A generation was formed, whose first member has this rank. How many evaluations were refused in the one before.
  std::uint64_t formed(std::uint64_t generation, std::uint32_t first_member);

  struct verdict {
    std::string refusal; ///< empty: it is taken
    bool first = false;  ///< of this sender's refusals since the generation was formed: to be said
  };
  verdict judge(const evaluation_sender& from, std::uint64_t step);
  static constexpr std::uint64_t most_at_once(std::uint32_t window_steps) {
    return 64 + 2 * std::uint64_t{window_steps};
  }

private:
  struct account {
    std::uint64_t used_at = 0; ///< `earned_` when it was last looked at
    std::uint64_t left = 0;
    std::optional<std::uint64_t> newest_step; ///< in this generation
    std::uint64_t refused = 0;
  };
  std::string refuse(account& sender, const evaluation_sender& from, std::uint64_t step);

  std::uint32_t window_steps_;
  std::uint64_t most_;
  bool first_member_only_;
  std::uint64_t earned_ = 0; ///< by every sender, since this aggregator began
  std::uint64_t generation_ = 0;
  std::optional<std::uint32_t> first_member_;
  std::uint64_t refused_ = 0;
  std::map<std::string, account> accounts_; ///< by host: of workers and aggregators that were admitted
};

} // namespace dynamix::actors
