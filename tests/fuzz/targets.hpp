#pragma once

/// Everything that reads bytes which others may have written, as functions of bytes for a fuzzer. A target aborts where
/// something is accepted that does not mean what it says.

#include <cstdint>
#include <span>
#include <string_view>

namespace dynamix::fuzz {

struct target {
  std::string_view name; ///< and of its corpus below tests/fuzz/corpus
  void (*run)(std::span<const std::uint8_t> bytes);
};

std::span<const target> targets();
/// Null where there is none of that name.
const target* find_target(std::string_view name);

/// One more, of saved policies. It needs Torch, whose headers the fuzzer's compiler does not take as C++20 (LibTorch
/// 1.13 and clang 14), so corpus_test alone mutates them.
target policy_target();

} // namespace dynamix::fuzz
