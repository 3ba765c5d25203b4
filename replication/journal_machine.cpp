#include "replication/journal_machine.hpp"

#include "replication/journal_codec.hpp"

#include <cstring>
#include <utility>

namespace dynamix::replication {
namespace {

/// libraft hands out multiples of 8 bytes, at whatever address they were read to: `copy` is for those that lie askew.
std::span<const std::uint64_t> words_of(const raft_buffer& buffer, word_list& copy) {
  const auto count = buffer.len / sizeof(std::uint64_t);
  if (reinterpret_cast<std::uintptr_t>(buffer.base) % alignof(std::uint64_t) == 0)
    return {static_cast<const std::uint64_t*>(buffer.base), count};
  copy.resize(count);
  std::memcpy(copy.data(), buffer.base, count * sizeof copy[0]);
  return copy;
}

} // namespace

raft_buffer to_buffer(std::span<const std::uint64_t> words) {
  raft_buffer buffer{.base = ::raft_malloc(words.size_bytes()), .len = words.size_bytes()};
  if (buffer.base != nullptr)
    std::memcpy(buffer.base, words.data(), words.size_bytes());
  return buffer;
}

journal_machine::journal_machine() {
  interface_.version = 1;
  interface_.data = this;
  interface_.apply = &journal_machine::apply;
  interface_.snapshot = &journal_machine::snapshot;
  interface_.restore = &journal_machine::restore;
}

apply_outcome journal_machine::outcome_of(void* result) {
  const auto packed = reinterpret_cast<std::uintptr_t>(result);
  return {static_cast<verdict>(packed >> 1), (packed & 1) != 0};
}

int journal_machine::apply(raft_fsm* machine, const raft_buffer* buffer, void** result) {
  auto& self = of(machine);
  word_list copy;
  const auto outcome = self.book_.apply(words_of(*buffer, copy));
  *result = reinterpret_cast<void*>(static_cast<std::uintptr_t>(outcome.result) << 1 | (outcome.repeated ? 1 : 0));
  if (self.applied)
    self.applied(self.book_.state(), outcome);
  return 0; // a refusal is an outcome too; an error would end this voter
}

int journal_machine::snapshot(raft_fsm* machine, raft_buffer* buffers[], unsigned* count) {
  const auto taken = to_buffer(encode_snapshot(of(machine).book_.state()));
  *buffers = static_cast<raft_buffer*>(::raft_malloc(sizeof(raft_buffer)));
  if (*buffers == nullptr || taken.base == nullptr) {
    ::raft_free(taken.base);
    ::raft_free(*buffers);
    return RAFT_NOMEM;
  }
  **buffers = taken;
  *count = 1;
  return 0;
}

int journal_machine::restore(raft_fsm* machine, raft_buffer* buffer) {
  journal_state state;
  word_list copy;
  if (!decode_snapshot(words_of(*buffer, copy), state).empty()) {
    of(machine).broken_ = true;
    return RAFT_CORRUPT;
  }
  of(machine).book_.restore(std::move(state));
  ::raft_free(buffer->base);
  return 0;
}

} // namespace dynamix::replication
