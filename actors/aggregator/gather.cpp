#include "actors/aggregator/gather.hpp"

#include <algorithm>
#include <utility>

namespace dynamix::actors {

messages::shard_window closed_window::joined() const {
  return {.window = window,
          .generation = generation,
          .expected = expected,
          .gather_seconds = gather_seconds,
          .decide_seconds = decide_seconds,
          .untrained = untrained,
          .reports = reports,
          .choices = choices,
          .accounts = accounts};
}

void gather::coming(std::uint32_t rank) {
  if (!present_.contains(rank))
    coming_.insert(rank);
}

void gather::joined(std::uint32_t rank) {
  coming_.erase(rank);
  lost_.erase(rank);
  if (present_.insert(rank).second && has_arrived(rank))
    ++arrived_;
}

void gather::reached(std::uint64_t window) {
  if (is_too_far(window))
    return;
  reached_ = std::max(reached_.value_or(0), window);
  begun_ = std::max(begun_.value_or(1), window);
}

std::vector<closed_window> gather::reached(std::uint32_t rank, std::uint64_t window, double now_seconds) {
  std::vector<closed_window> closed;
  if (window == 0 || is_too_far(window))
    return closed;
  auto& completed = completed_[rank];
  completed = std::max(completed, window - 1);
  release(closed, now_seconds);
  return closed;
}

std::vector<closed_window> gather::left(std::uint32_t rank, double now_seconds) {
  if (present_.contains(rank))
    lost_.insert(rank);
  leave(rank);
  if (!with_choices_ || !has_arrived(rank))
    latest_.erase(rank);
  completed_.erase(rank);
  waiting_.erase(rank);
  auto closed = close_if_complete(now_seconds);
  release(closed, now_seconds);
  return closed;
}

std::vector<closed_window> gather::finished(std::uint32_t rank, double now_seconds) {
  ended_.insert(rank);
  leave(rank);
  auto closed = close_if_complete(now_seconds);
  release(closed, now_seconds);
  return closed;
}

void gather::leave(std::uint32_t rank) {
  coming_.erase(rank);
  if (present_.erase(rank) > 0 && has_arrived(rank))
    --arrived_;
}

std::vector<closed_window> gather::add(messages::window_report report, double now_seconds) {
  std::vector<closed_window> closed;
  if (report.generation != generation_ || !present_.contains(report.rank) || is_too_far(report.window))
    return closed;
  auto& completed = completed_[report.rank];
  completed = std::max(completed, report.window);
  if (report.final)
    ended_.insert(report.rank);
  if (is_borne_out(report))
    closed = take_in(std::move(report), now_seconds);
  else
    waiting_.insert_or_assign(report.rank, std::move(report));
  release(closed, now_seconds);
  return closed;
}

/// By what the others have completed, or where training began; where neither is known, or nobody else is there, by
/// itself.
bool gather::is_borne_out(const messages::window_report& report) const {
  if (begun_ && report.window <= *begun_)
    return true;
  bool told = begun_.has_value();
  bool others = false;
  for (const auto rank : present_) {
    if (rank == report.rank)
      continue;
    others = true;
    const auto said = completed_.find(rank);
    if (said == completed_.end())
      continue;
    if (report.window <= said->second + 1)
      return true; // with thousands of workers, mostly the first one that is asked
    told = true;
  }
  return !others || !told;
}

/// Takes in what is borne out by now.
void gather::release(std::vector<closed_window>& closed, double now_seconds) {
  for (auto one = waiting_.begin(); one != waiting_.end();) {
    if (!is_borne_out(one->second)) {
      ++one;
      continue;
    }
    auto report = std::move(one->second);
    one = waiting_.erase(one);
    for (auto& window : take_in(std::move(report), now_seconds))
      closed.push_back(std::move(window));
  }
}

std::vector<closed_window> gather::take_in(messages::window_report report, double now_seconds) {
  std::vector<closed_window> closed;
  const auto window = report.window;
  const auto rank = report.rank;
  reached_ = std::max(reached_.value_or(0), window);
  const auto latest = latest_.find(rank);
  const bool newer = latest == latest_.end() || latest->second.window < window;
  if (newer && open_window_ != 0 && window > open_window_)
    closed.push_back(close(now_seconds));
  if (newer)
    take(rank, {.window = window, .report = std::move(report), .choice = {}});
  if (window <= last_closed_)
    return closed;
  if (open_window_ == 0)
    open(window, now_seconds);
  if (complete())
    closed.push_back(close(now_seconds));
  return closed;
}

std::vector<closed_window> gather::add(const messages::shard_window& window, double now_seconds) {
  std::vector<closed_window> closed;
  if (window.generation != generation_ || is_too_far(window.window))
    return closed;
  reached_ = std::max(reached_.value_or(0), window.window);
  with_choices_ = true;
  if (open_window_ != 0 && window.window > open_window_)
    closed.push_back(close(now_seconds));
  std::set<std::uint32_t> taken;
  for (std::size_t i = 0; i < window.reports.size(); ++i) {
    const auto rank = window.reports[i].rank;
    const auto latest = latest_.find(rank);
    if (was_here(rank) && (latest == latest_.end() || latest->second.window < window.window)) {
      take(rank, {.window = window.window, .report = window.reports[i], .choice = window.choices[i]});
      taken.insert(rank);
    } else if (was_here(rank) && latest->second.window == window.window && latest->second.report == window.reports[i]) {
      latest->second.choice = window.choices[i];
      taken.insert(rank);
    }
  }
  if (window.window <= last_closed_)
    return closed;
  if (open_window_ == 0)
    open(window.window, now_seconds);
  if (open_window_ == window.window)
    take(window.accounts, taken);
  gather_seconds_ = std::max(gather_seconds_, window.gather_seconds);
  decide_seconds_ = std::max(decide_seconds_, window.decide_seconds);
  if (untrained_.empty())
    untrained_ = window.untrained;
  if (complete())
    closed.push_back(close(now_seconds));
  return closed;
}

std::vector<closed_window> gather::deadline(std::uint64_t window, double now_seconds) {
  if (window == 0 || window != open_window_)
    return {};
  return {close(now_seconds)};
}

std::vector<closed_window> gather::over(double now_seconds) {
  if (open_window_ == 0)
    return {};
  std::erase_if(latest_, [this](const auto& one) { return one.second.window < open_window_; });
  return {close(now_seconds)};
}

void gather::open(std::uint64_t window, double now_seconds) {
  open_window_ = window;
  opened_seconds_ = now_seconds;
  arrived_ = static_cast<std::size_t>(
      std::ranges::count_if(present_, [this](std::uint32_t rank) { return has_arrived(rank); }));
}

void gather::take(std::uint32_t rank, entry newest) {
  auto& latest = latest_[rank];
  // A report that has waited may be of a worker that has finished meanwhile, and stands for none that is present.
  if (present_.contains(rank) && open_window_ != 0 && latest.window < open_window_ && newest.window >= open_window_)
    ++arrived_;
  latest = std::move(newest);
}

/// Each of them on reports that are `taken`. No more of all shards than there can be workers, and no more than twice as
/// many ranks in all.
void gather::take(const std::vector<messages::shard_account>& accounts, const std::set<std::uint32_t>& taken) {
  for (const auto& account : accounts) {
    const auto named = named_ + account.ranks.size() + account.forgotten.size();
    if (accounts_.size() == messages::max_workers || named > 2 * messages::max_workers ||
        !std::ranges::includes(taken, account.ranks) || !std::ranges::includes(account.ranks, account.unguided))
      continue;
    named_ = named;
    accounts_.push_back(account);
  }
}

bool gather::has_arrived(std::uint32_t rank) const {
  const auto found = latest_.find(rank);
  return open_window_ != 0 && found != latest_.end() && found->second.window >= open_window_;
}

std::vector<closed_window> gather::close_if_complete(double now_seconds) {
  if (open_window_ != 0 && complete())
    return {close(now_seconds)};
  return {};
}

closed_window gather::close(double now_seconds) {
  closed_window shard;
  shard.window = open_window_;
  shard.generation = generation_;
  shard.expected = static_cast<std::uint32_t>(present_.size());
  shard.gather_seconds = std::max(gather_seconds_, now_seconds - opened_seconds_);
  shard.decide_seconds = std::exchange(decide_seconds_, 0);
  shard.untrained = std::exchange(untrained_, {});
  shard.accounts = std::exchange(accounts_, {});
  named_ = 0;
  gather_seconds_ = 0;
  for (const auto& [rank, latest] : latest_) {
    const bool present = present_.contains(rank);
    if (latest.window == 0 || latest.window > open_window_ || (!present && latest.window < open_window_))
      continue;
    shard.reports.push_back(latest.report);
    shard.reports.back().final |= ended_.contains(rank);
    if (with_choices_)
      shard.choices.push_back(latest.choice);
    shard.expected += present ? 0 : 1;
  }
  coming_.clear();
  last_closed_ = std::exchange(open_window_, 0);
  return shard;
}

} // namespace dynamix::actors
