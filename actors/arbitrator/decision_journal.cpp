#include "actors/arbitrator/decision_journal.hpp"

#include "storage/json_text.hpp"

#include <spdlog/spdlog.h>

#include <utility>

namespace dynamix::actors {

namespace {

/// An election takes a few times its time-out; whoever has not settled by then is not to lead any more.
constexpr int attempts_most = 10;

} // namespace

replicated_journal::replicated_journal(std::shared_ptr<replication::replica> voter, std::uint64_t client)
    : voter_(std::move(voter)), client_(client) {}

void replicated_journal::keep(std::uint64_t term, journal_content content, std::function<void(bool kept)> done) {
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(
        {.entry = {.key = {.client = client_, .sequence = ++sequence_}, .term = term, .content = std::move(content)},
         .done = std::move(done)});
    first = waiting_.size() == 1;
  }
  if (first)
    propose_first();
}

void replicated_journal::propose_first() {
  replication::journal_entry entry;
  {
    const std::scoped_lock lock(mutex_);
    ++waiting_.front().attempts;
    entry = waiting_.front().entry;
  }
  voter_->propose(entry, [self = shared_from_this()](const auto& result) { self->settle(result); });
}

void replicated_journal::settle(const replication::proposal_result& result) {
  std::function<void(bool)> done;
  bool more = false;
  {
    const std::scoped_lock lock(mutex_);
    auto& first = waiting_.front();
    if (result.status != replication::proposal_status::unknown || first.attempts >= attempts_most) {
      done = std::move(first.done);
      waiting_.pop_front();
    }
    more = !waiting_.empty();
  }
  const bool kept = result.status == replication::proposal_status::committed &&
                    result.outcome.result == replication::verdict::applied;
  if (done && !kept)
    spdlog::warn("not_kept status={} verdict={} detail={}", replication::to_string(result.status),
                 replication::to_string(result.outcome.result), storage::quoted(result.text));
  if (done)
    done(kept);
  if (more)
    propose_first();
}

void kept_actions::keep(decision_journal* journal, std::uint64_t term, journal_content content,
                        std::function<void()> action, std::function<void(std::uint64_t token, bool kept)> told) {
  if (journal == nullptr)
    return action();
  const auto token = ++tokens_;
  actions_.emplace(token, std::move(action));
  journal->keep(term, std::move(content), [token, told = std::move(told)](bool kept) { told(token, kept); });
}

bool kept_actions::settle(std::uint64_t token, bool kept) {
  const auto found = actions_.find(token);
  if (found == actions_.end())
    return false;
  auto action = std::move(found->second);
  actions_.erase(found);
  if (kept)
    action();
  return kept;
}

} // namespace dynamix::actors
