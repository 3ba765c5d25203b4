#include "replication/words.hpp"

#include "storage/splitmix64.hpp"

#include <zlib.h>

#include <bit>
#include <cstring>

namespace dynamix::replication {

static_assert(std::endian::native == std::endian::little);

namespace {

constexpr std::uint64_t magic = 0x4c4e4a44; // "DJNL"
constexpr std::uint64_t version = 1;
constexpr int half = 32;
constexpr int quarter = 16;

std::uint64_t first_word(block_kind kind) {
  return magic | version << half | static_cast<std::uint64_t>(kind) << (half + quarter);
}

/// Over everything but the word that holds it.
std::uint64_t checksum(std::span<const std::uint64_t> words) {
  auto sum = ::crc32_z(0, reinterpret_cast<const Bytef*>(words.data()), sizeof(words[0]));
  const auto content = words.subspan(seal_words);
  if (!content.empty()) // a null pointer would start the sum anew
    sum = ::crc32_z(sum, reinterpret_cast<const Bytef*>(content.data()), content.size_bytes());
  return sum;
}

std::uint64_t second_word(std::span<const std::uint64_t> words) {
  return (words.size() & 0xffffffff) | checksum(words) << half;
}

std::uint64_t words_of(std::uint64_t bytes) {
  return (bytes + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
}

} // namespace

void word_writer::bytes(std::span<const std::uint8_t> value) {
  number(value.size());
  const auto begin = words_.size();
  words_.resize(begin + words_of(value.size()));
  if (!value.empty())
    std::memcpy(words_.data() + begin, value.data(), value.size());
}

std::uint64_t word_reader::number() {
  if (!good_ || rest_.empty())
    return fail<std::uint64_t>();
  const auto value = rest_.front();
  rest_ = rest_.subspan(1);
  return value;
}

std::uint64_t word_reader::count(std::uint64_t limit) {
  const auto value = number();
  return value <= limit ? value : fail<std::uint64_t>();
}

std::vector<std::uint8_t> word_reader::bytes(std::uint64_t limit) {
  const auto size = count(limit);
  if (words_of(size) > rest_.size())
    fail();
  if (!good_)
    return {};
  const auto* begin = reinterpret_cast<const std::uint8_t*>(rest_.data());
  std::vector<std::uint8_t> value(begin, begin + size);
  rest_ = rest_.subspan(words_of(size));
  return value;
}

void seal(block_kind kind, word_list& words) {
  words[0] = first_word(kind);
  words[1] = second_word(words);
}

std::span<const std::uint64_t> unseal(block_kind kind, std::span<const std::uint64_t> words) {
  if (words.size() <= seal_words || words[0] != first_word(kind) || words[1] != second_word(words))
    return {};
  return words.subspan(seal_words);
}

std::uint64_t mix(std::uint64_t digest, std::uint64_t word) {
  return storage::splitmix64(digest + word).next();
}

} // namespace dynamix::replication
