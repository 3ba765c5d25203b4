#include "replication/challenge.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string_view>
#include <sys/random.h>
#include <vector>

namespace dynamix::replication {
namespace {

constexpr std::string_view magic = "DYNXRFT1";
constexpr std::string_view purpose = "dynamix raft transport, version 1";
constexpr std::string_view initiator_role = "initiator";
constexpr std::string_view acceptor_role = "acceptor ";
static_assert(magic.size() == 8 && initiator_role.size() == acceptor_role.size());

mac hmac(std::span<const std::uint8_t> key, std::span<const std::uint8_t> text) {
  mac result{};
  unsigned length = result.size();
  if (::HMAC(::EVP_sha256(), key.data(), static_cast<int>(key.size()), text.data(), text.size(), result.data(),
             &length) == nullptr ||
      length != result.size())
    std::abort(); // a library without SHA-256; no stream may be opened on a guess
  return result;
}

void append(std::vector<std::uint8_t>& text, std::string_view part) {
  text.insert(text.end(), part.begin(), part.end());
}

void append(std::vector<std::uint8_t>& text, std::uint64_t number) {
  for (int shift = 0; shift < 64; shift += 8)
    text.push_back(static_cast<std::uint8_t>(number >> shift));
}

std::uint64_t read_number(const std::uint8_t* bytes) {
  std::uint64_t number = 0;
  for (int index = 7; index >= 0; --index)
    number = number << 8 | bytes[index];
  return number;
}

/// Every field has a fixed size, so no two challenges have the same text.
mac sign(const challenge_key& key, std::string_view role, const challenge& with) {
  std::vector<std::uint8_t> text;
  append(text, magic);
  append(text, role);
  append(text, with.initiator);
  append(text, with.acceptor);
  text.insert(text.end(), with.initiator_nonce.begin(), with.initiator_nonce.end());
  text.insert(text.end(), with.acceptor_nonce.begin(), with.acceptor_nonce.end());
  return hmac(key, text);
}

bool equal(std::span<const std::uint8_t, mac_bytes> left, const mac& right) {
  return ::CRYPTO_memcmp(left.data(), right.data(), mac_bytes) == 0; // in constant time
}

} // namespace

challenge_key derive_key(std::span<const std::uint8_t> secret) {
  std::vector<std::uint8_t> text;
  append(text, purpose);
  return hmac(secret, text);
}

bool fill_random(std::span<std::uint8_t> bytes) {
  while (!bytes.empty()) {
    const auto got = ::getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      return false;
    bytes = bytes.subspan(static_cast<std::size_t>(got));
  }
  return true;
}

std::array<std::uint8_t, greeting_bytes> encode_greeting(const challenge& with) {
  std::vector<std::uint8_t> text;
  append(text, magic);
  append(text, with.initiator);
  append(text, with.acceptor);
  std::array<std::uint8_t, greeting_bytes> bytes{};
  const auto end = std::copy(text.begin(), text.end(), bytes.begin());
  std::copy(with.initiator_nonce.begin(), with.initiator_nonce.end(), end);
  return bytes;
}

std::optional<challenge> decode_greeting(std::span<const std::uint8_t, greeting_bytes> bytes) {
  if (std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
    return std::nullopt;
  challenge with;
  with.initiator = read_number(bytes.data() + magic.size());
  with.acceptor = read_number(bytes.data() + magic.size() + sizeof with.initiator);
  std::copy(bytes.end() - nonce_bytes, bytes.end(), with.initiator_nonce.begin());
  return with;
}

std::array<std::uint8_t, answer_bytes> encode_answer(const challenge_key& key, const challenge& with) {
  std::array<std::uint8_t, answer_bytes> bytes{};
  const auto signature = sign(key, acceptor_role, with);
  std::copy(signature.begin(), signature.end(),
            std::copy(with.acceptor_nonce.begin(), with.acceptor_nonce.end(), bytes.begin()));
  return bytes;
}

bool check_answer(const challenge_key& key, std::span<const std::uint8_t, answer_bytes> answer, challenge& with) {
  std::copy_n(answer.begin(), nonce_bytes, with.acceptor_nonce.begin());
  return equal(answer.last<mac_bytes>(), sign(key, acceptor_role, with));
}

mac encode_proof(const challenge_key& key, const challenge& with) {
  return sign(key, initiator_role, with);
}

bool check_proof(const challenge_key& key, std::span<const std::uint8_t, proof_bytes> proof, const challenge& with) {
  return equal(proof, sign(key, initiator_role, with));
}

} // namespace dynamix::replication
