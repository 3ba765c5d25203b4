#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace dynamix::messages {

/// The bytes of one Cap'n Proto frame: immutable, 8-byte aligned, shared by its copies. Empty unless made from words.
class shared_words {
public:
  shared_words() = default;
  explicit shared_words(std::vector<std::uint64_t> words)
      : words_(std::make_shared<const std::vector<std::uint64_t>>(std::move(words))) {}

  std::span<const std::uint64_t> view() const {
    return words_ ? std::span<const std::uint64_t>(*words_) : std::span<const std::uint64_t>();
  }

private:
  std::shared_ptr<const std::vector<std::uint64_t>> words_;
};

} // namespace dynamix::messages
