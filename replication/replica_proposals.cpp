// Proposals and reads: from any thread to the loop's, to libraft, and back to whoever asked.

#include "replication/journal_codec.hpp"
#include "replication/replica_core.hpp"

#include <fmt/core.h>
#include <utility>

namespace dynamix::replication {

/// libraft points to these until it calls back, which it does once whatever happens.
struct replica_core::open_apply {
  struct raft_apply apply {}; // libraft calls its function the same
  replica_core* core = nullptr;
  std::size_t words = 0;
  proposal_callback done;
};

struct replica_core::open_read {
  struct raft_barrier barrier {};
  replica_core* core = nullptr;
  std::vector<read_callback> done; ///< at most max_open_proposals
};

namespace {

proposal_status status_of(int code) {
  return code == 0                ? proposal_status::committed
         : code == RAFT_NOTLEADER ? proposal_status::not_leader
                                  : proposal_status::unknown;
}

} // namespace

void replica_core::propose(const journal_entry& entry, proposal_callback done) {
  request added{.proposed = std::move(done)};
  proposal_result refusal;
  refusal.text = encode(entry, added.words);
  if (refusal.text.empty()) {
    const std::scoped_lock lock(mutex_);
    if (!accepts_)
      refusal.text = "the replica does not run";
    else if (open_proposals_ >= max_open_proposals || open_words_ + added.words.size() > max_open_proposal_words)
      refusal.text = fmt::format("{} proposals are open, which is too many", open_proposals_);
    else {
      ++open_proposals_;
      open_words_ += added.words.size();
      post(std::move(added));
      return;
    }
  }
  added.proposed(refusal);
}

void replica_core::read(read_callback done, bool local) {
  request added{.read = std::move(done), .local = local};
  {
    const std::scoped_lock lock(mutex_);
    if (accepts_ && inbox_.size() < max_open_proposals) {
      post(std::move(added));
      return;
    }
  }
  added.read({});
}

/// With the mutex held.
void replica_core::post(request&& added) {
  inbox_.push_back(std::move(added));
  ::uv_async_send(&wake_);
}

void replica_core::serve_requests() {
  std::deque<request> taken;
  bool stop = false;
  {
    const std::scoped_lock lock(mutex_);
    taken.swap(inbox_);
    stop = stop_wanted_;
  }
  for (auto& one : taken)
    serve(std::move(one));
  if (!stop || std::exchange(ending_, true))
    return;
  if (running_)
    begin_close();
  else if (!closing_)
    end_handles();
}

void replica_core::serve(request&& one) {
  if (!one.words.empty())
    serve_proposal(std::move(one));
  else
    serve_read(std::move(one));
}

void replica_core::settle(std::size_t words, const proposal_callback& done, const proposal_result& result) {
  {
    const std::scoped_lock lock(mutex_);
    --open_proposals_;
    open_words_ -= words;
  }
  done(result);
}

void replica_core::serve_proposal(request&& one) {
  if (!running_ || ::raft_state(&instance_->consensus) != RAFT_LEADER)
    return settle(one.words.size(), one.proposed,
                  {.status = proposal_status::not_leader, .leader = look().leader, .text = "does not lead"});
  const auto buffer = to_buffer(one.words);
  if (buffer.base == nullptr)
    return settle(one.words.size(), one.proposed, {.text = "out of memory"});
  auto open = std::make_unique<open_apply>();
  open->apply.data = open.get();
  open->core = this;
  open->words = one.words.size();
  open->done = std::move(one.proposed);
  const auto code = ::raft_apply(&instance_->consensus, &open->apply, &buffer, 1,
                                 [](struct raft_apply* apply, int status, void* result) {
                                   const std::unique_ptr<open_apply> open(static_cast<open_apply*>(apply->data));
                                   auto& core = *open->core;
                                   proposal_result told{.status = status_of(status)};
                                   if (status == 0) {
                                     const auto packed = reinterpret_cast<std::uintptr_t>(result);
                                     told.outcome = {static_cast<verdict>(packed >> 1), (packed & 1) != 0};
                                     told.position = core.instance_->machine.book().state().position;
                                   } else {
                                     // Even "not leader" comes too late here to know that nothing happened.
                                     told.status = proposal_status::unknown;
                                     told.text = ::raft_strerror(status);
                                   }
                                   core.settle(open->words, open->done, told);
                                 });
  if (code == 0) {
    open.release();
    return;
  }
  ::raft_free(buffer.base);
  settle(open->words, open->done, {.status = status_of(code), .leader = look().leader, .text = ::raft_strerror(code)});
}

std::shared_ptr<const journal_state> replica_core::copy_state() const {
  return std::make_shared<const journal_state>(instance_->machine.book().state());
}

void replica_core::serve_read(request&& one) {
  if (one.local)
    return one.read(instance_ ? read_result{proposal_status::committed, copy_state(), 0} : read_result{});
  // As long as a barrier is under way, nothing behind it is committed: it serves those who ask meanwhile too.
  if (running_ && open_read_ != nullptr && open_read_->done.size() < max_open_proposals)
    return open_read_->done.push_back(std::move(one.read));
  auto open = std::make_unique<open_read>();
  open->barrier.data = open.get();
  open->core = this;
  open->done.push_back(std::move(one.read));
  const auto code =
      running_ ? ::raft_barrier(&instance_->consensus, &open->barrier,
                                [](struct raft_barrier* barrier, int status) {
                                  const std::unique_ptr<open_read> open(static_cast<open_read*>(barrier->data));
                                  if (open->core->open_read_ == open.get())
                                    open->core->open_read_ = nullptr;
                                  read_result told{.status = status_of(status)};
                                  if (status == 0)
                                    told.state = open->core->copy_state();
                                  for (const auto& done : open->done)
                                    done(told);
                                })
               : static_cast<int>(RAFT_NOTLEADER);
  if (code == 0)
    open_read_ = open.release();
  else
    open->done.front()({status_of(code), nullptr, look().leader});
}

void replica_core::refuse_all(const std::string& why) {
  std::deque<request> left;
  {
    const std::scoped_lock lock(mutex_);
    left.swap(inbox_);
  }
  for (auto& one : left)
    if (one.words.empty())
      one.read({});
    else
      settle(one.words.size(), one.proposed, {.text = why});
}

} // namespace dynamix::replication
