#pragma once

/// Everything that reads bytes which others may have written, as functions of bytes for a fuzzer. A target aborts where
/// something is accepted that does not mean what it says.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace dynamix::fuzz {

struct target {
  std::string_view name; ///< and of its corpus below tests/fuzz/corpus
  void (*run)(std::span<const std::uint8_t> bytes);
};

/// What a proven host writes on a control link: after a byte that says who and which side it is, frames of CAF's.
/// Returns how many of them pass.
std::size_t read_control(std::span<const std::uint8_t> bytes);
target control_target();
struct kept_example {
  std::string bytes;
  std::size_t accepted = 0; ///< of its frames or messages: all
};
/// By the names of the kept inputs.
std::map<std::string, kept_example> control_examples();

/// What a proven voter says to another. Returns how many messages libraft is given.
std::size_t read_raft(std::span<const std::uint8_t> bytes);
target raft_target();
std::map<std::string, kept_example> raft_examples();

/// What a member of a group says to another between their gradients.
target mesh_target();

/// What workers report over some windows, to decisions. Returns how many are made.
std::size_t read_decisions(std::span<const std::uint8_t> bytes);
target decisions_target();
std::map<std::string, kept_example> decisions_examples();

/// What readers of files, and of a training process's socket, are given.
std::span<const target> file_targets();

std::span<const target> targets();
/// Null where there is none of that name.
const target* find_target(std::string_view name);

/// One more, of saved policies. It needs Torch, whose headers the fuzzer's compiler (clang 14) does not take as C++20,
/// so corpus_test alone mutates them.
target policy_target();

} // namespace dynamix::fuzz
