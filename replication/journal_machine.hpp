#pragma once

#include "replication/journal.hpp"
#include "replication/libraft.hpp"

#include <functional>

namespace dynamix::replication {

/// A journal as libraft's state machine. Stays where it is while libraft knows it.
class journal_machine {
public:
  journal_machine();
  journal_machine(const journal_machine&) = delete;

  raft_fsm* interface() { return &interface_; }
  const journal& book() const { return book_; }
  /// That a snapshot could not be read. libraft 0.22 goes on as if it had been.
  bool broken() const { return broken_; }
  /// After every committed entry.
  std::function<void(const journal_state&, const apply_outcome&)> applied;

  /// What `apply` left in the result that libraft hands to a proposer's callback.
  static apply_outcome outcome_of(void* result);

private:
  static journal_machine& of(raft_fsm* machine) { return *static_cast<journal_machine*>(machine->data); }
  static int apply(raft_fsm* machine, const raft_buffer* buffer, void** result);
  static int snapshot(raft_fsm* machine, raft_buffer* buffers[], unsigned* count);
  static int restore(raft_fsm* machine, raft_buffer* buffer);

  raft_fsm interface_{};
  journal book_;
  bool broken_ = false;
};

/// A copy in libraft's memory; base is null if there is none left.
raft_buffer to_buffer(std::span<const std::uint64_t> words);

} // namespace dynamix::replication
