#pragma once

/// Numbers, bytes and frames as 64-bit words, in the machine's order (all replicas run on little-endian machines, which
/// the magic number of an entry checks). What is read is bounded by what is there and by limits given beforehand.

#include "messages/codec.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace dynamix::replication {

using word_list = std::vector<std::uint64_t>;

class word_writer {
public:
  explicit word_writer(word_list& words) : words_(words) {}
  void number(std::uint64_t value) { words_.push_back(value); }
  /// Their count, then the bytes, padded with zeros.
  void bytes(std::span<const std::uint8_t> value);
  /// A message's frame with its length before it. False if the message is none that the codec sends.
  template <class T>
  bool frame(const T& message) {
    const auto encoded = messages::encode(message);
    if (!encoded)
      return false;
    const auto view = encoded->view();
    number(view.size());
    words_.insert(words_.end(), view.begin(), view.end());
    return true;
  }

private:
  word_list& words_;
};

/// After the first thing that does not fit everything reads as zero or empty, and `good` stays false.
class word_reader {
public:
  explicit word_reader(std::span<const std::uint64_t> words) : rest_(words) {}
  bool good() const { return good_; }
  /// Nothing failed and nothing is left over.
  bool complete() const { return good_ && rest_.empty(); }
  std::uint64_t number();
  /// A number of at most `limit`.
  std::uint64_t count(std::uint64_t limit);
  std::vector<std::uint8_t> bytes(std::uint64_t limit);
  /// A frame that holds a T; else fails.
  template <class T>
  T frame() {
    const auto length = count(rest_.size());
    if (!good_ || length > rest_.size())
      return fail<T>();
    auto decoded = messages::decode(rest_.first(length));
    rest_ = rest_.subspan(length);
    if (!decoded || !std::holds_alternative<T>(*decoded))
      return fail<T>();
    return std::get<T>(std::move(*decoded));
  }
  void fail() { good_ = false; }

private:
  template <class T>
  T fail() {
    good_ = false;
    return {};
  }
  std::span<const std::uint64_t> rest_;
  bool good_ = true;
};

/// A sealed block: one word of magic number, version and kind, one of length and CRC-32, then the content.
inline constexpr std::size_t seal_words = 2;
enum class block_kind : std::uint16_t { entry = 1, snapshot };
/// Fills in the two words that the content was written behind.
void seal(block_kind kind, word_list& words);
/// The content, or nothing if any of it is not as it was sealed.
std::span<const std::uint64_t> unseal(block_kind kind, std::span<const std::uint64_t> words);

/// Mixes a word into a digest; not meant to withstand an adversary.
std::uint64_t mix(std::uint64_t digest, std::uint64_t word);

} // namespace dynamix::replication
