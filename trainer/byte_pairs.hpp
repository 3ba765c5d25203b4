#pragma once

/// A vocabulary of byte pairs (Sennrich et al., "Neural Machine Translation of Rare Words with Subword Units", ACL
/// 2016), on bytes, so that every text can be written in it.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dynamix::trainer {

/// Learned by joining, again and again, the most frequent pair of neighbouring tokens within a piece of text, as long
/// as one occurs twice. Of equally frequent pairs the one of older tokens is joined, its left one first, so the same
/// text gives the same vocabulary everywhere. Tokens are numbered by how often the text has them, the most frequent one
/// 0.
class byte_pairs {
public:
  /// Learns at most `size` tokens, in [256, 65536]. At most `distinct_max` distinct pieces are looked at, the first
  /// ones.
  byte_pairs(std::span<const std::string_view> pieces, std::uint32_t size);

  static constexpr std::size_t distinct_max = std::size_t{1} << 18U;

  /// Appends the tokens of a piece, in time that grows with the square of its length.
  void encode(std::string_view piece, std::vector<std::uint16_t>& tokens) const;
  /// What a token below `size()` stands for.
  const std::string& bytes_of(std::uint16_t token) const { return bytes_[token]; }
  std::size_t size() const { return bytes_.size(); }

private:
  std::unordered_map<std::uint64_t, std::uint32_t>
      joined_;                         ///< of two tokens' ages side by side: the age of both in one
  std::vector<std::uint16_t> numbers_; ///< by age: bytes, then joined tokens as they were learned
  std::vector<std::string> bytes_;     ///< by number
};

} // namespace dynamix::trainer
