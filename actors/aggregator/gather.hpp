#pragma once

/// Gathers one shard's window reports, or several shards' windows. Knows no CAF and no clock.

#include "messages/types.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace dynamix::actors {

/// A window that has closed. Where it was joined from shards' windows, with what they decided, one choice a report.
struct closed_window : messages::shard_report {
  std::vector<messages::worker_choice> choices;
  double decide_seconds = 0;                     ///< the longest of the shards'
  std::string untrained;                         ///< of the first shard that says so
  std::vector<messages::shard_account> accounts; ///< of the shards whose reports are all here

  messages::shard_window joined() const;
};

/// A window closes when every present worker has reported it, or at a deadline after its first report: then the last
/// report of each late worker stands in. A window closes at most once, and never after a later one.
///
/// Workers train in step. So a report waits that is more than one window ahead of what all others have said that they
/// have completed, until one of them says so too: were it taken at once, a single worker could make every true window
/// older than the newest.
class gather {
public:
  /// `next_window`: the first that will be reported, where that is known.
  explicit gather(std::uint64_t generation, std::optional<std::uint64_t> next_window = {})
      : generation_(generation), reached_(next_window), begun_(next_window) {}

  std::uint64_t generation() const { return generation_; }
  void joined(std::uint32_t rank);
  /// The worker trains and is on its way here: the first window waits for it, too, at most until its deadline.
  void coming(std::uint32_t rank);
  /// Whoever joins tells that this window has begun.
  void reached(std::uint64_t window);
  /// A worker's sign of life tells so. The windows that close by what has waited for that.
  std::vector<closed_window> reached(std::uint32_t rank, std::uint64_t window, double now_seconds);
  /// Beyond every window that can have begun: a report of it is not taken. Were it, all true windows would be older
  /// than the newest, and would be taken no more.
  bool is_too_far(std::uint64_t window) const { return reached_ && window > *reached_ + windows_ahead_most; }
  /// The worker is lost, and with it its reports, but for what a shard has decided on already. Windows that waited for
  /// nobody else close.
  std::vector<closed_window> left(std::uint32_t rank, double now_seconds);
  /// The worker has come to its end and reports no more. What it has reported of the open window counts, as its last.
  std::vector<closed_window> finished(std::uint32_t rank, double now_seconds);

  /// A report came in. The windows that it closes, in order: the awaited one when it is complete, and before it any
  /// older one that is still open (a report was lost, and the workers have gone on).
  std::vector<closed_window> add(messages::window_report report, double now_seconds);
  /// The same for a shard's window. What the shard lacked is not waited for: its last report stands in at once. What it
  /// has decided on counts whatever has become of the worker since: what it decides later follows from that, too. Of
  /// two that have decided on the same report the later counts: the worker has not heard what the one before decided,
  /// or would not have said its report again.
  std::vector<closed_window> add(const messages::shard_window& window, double now_seconds);

  /// The deadline of `window` has come; nothing if it has closed already.
  std::vector<closed_window> deadline(std::uint64_t window, double now_seconds);
  /// The generation is over: the open window closes with what has come. No last report stands in for the others, on
  /// whom nobody may ever decide.
  std::vector<closed_window> over(double now_seconds);

  /// The window that is being gathered; 0 when none is.
  std::uint64_t open_window() const { return open_window_; }

private:
  struct entry {
    std::uint64_t window = 0; ///< that it was gathered in; the report may be older
    messages::window_report report;
    messages::worker_choice choice;
  };
  std::vector<closed_window> take_in(messages::window_report report, double now_seconds);
  bool is_borne_out(const messages::window_report& report) const;
  void release(std::vector<closed_window>& closed, double now_seconds);
  void open(std::uint64_t window, double now_seconds);
  void take(std::uint32_t rank, entry newest);
  void take(const std::vector<messages::shard_account>& accounts, const std::set<std::uint32_t>& taken);
  closed_window close(double now_seconds);
  void leave(std::uint32_t rank);
  std::vector<closed_window> close_if_complete(double now_seconds);
  /// Whether it has reported the open window; false while there is none.
  bool has_arrived(std::uint32_t rank) const;
  bool complete() const { return coming_.empty() && arrived_ >= present_.size(); }
  bool was_here(std::uint32_t rank) const { return present_.contains(rank) || lost_.contains(rank); }

  /// That workers may train between two signs of life.
  static constexpr std::uint64_t windows_ahead_most = 1U << 16;

  std::uint64_t generation_;
  std::optional<std::uint64_t> reached_; ///< newest window that is known to have begun
  std::optional<std::uint64_t> begun_;   ///< where training stood when workers joined, as far as that is known; >= 1
  std::uint64_t open_window_ = 0;
  std::uint64_t last_closed_ = 0;
  double opened_seconds_ = 0;
  std::set<std::uint32_t> present_;
  std::set<std::uint32_t> coming_; ///< and not present yet
  std::set<std::uint32_t> lost_;
  std::set<std::uint32_t> ended_;                            ///< by a last report or a farewell: takes no decision
  std::map<std::uint32_t, entry> latest_;                    ///< by rank; of who is lost only what a shard decided on
  std::map<std::uint32_t, std::uint64_t> completed_;         ///< newest window, as each worker says, by rank
  std::map<std::uint32_t, messages::window_report> waiting_; ///< for another worker to get there, by rank
  std::size_t arrived_ = 0;                                  ///< present workers that have reported the open window
  bool with_choices_ = false;
  // What shards said of the open window.
  double gather_seconds_ = 0;
  double decide_seconds_ = 0;
  std::string untrained_;
  std::vector<messages::shard_account> accounts_;
  std::size_t named_ = 0; ///< workers in `accounts_`, each as often as one is on it or says that it has left
};

} // namespace dynamix::actors
