#pragma once

/// The mutual challenge that comes before a Raft stream, as bytes in and bytes out:
///
///     initiator                                        acceptor
///       greeting: magic, both ids, nonce_i    ->
///                                             <-       answer: nonce_a, HMAC(key, "acceptor", ids, nonces)
///       proof: HMAC(key, "initiator", ids, nonces) ->  the stream is Raft's from here on
///
/// Both prove that they know the cluster's secret for these two ids, in this role and for nonces of their own, so
/// nothing recorded, reflected or addressed to another voter is of use. It authenticates the connection's beginning
/// only: who can change packets on the way afterwards needs to be kept off by the network.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace dynamix::replication {

inline constexpr std::size_t min_secret_bytes = 16;
inline constexpr std::size_t nonce_bytes = 32;
inline constexpr std::size_t mac_bytes = 32; ///< of SHA-256
inline constexpr std::size_t greeting_bytes = 8 + 8 + 8 + nonce_bytes;
inline constexpr std::size_t answer_bytes = nonce_bytes + mac_bytes;
inline constexpr std::size_t proof_bytes = mac_bytes;

using nonce = std::array<std::uint8_t, nonce_bytes>;
using mac = std::array<std::uint8_t, mac_bytes>;
/// Derived from the secret, for this purpose only.
using challenge_key = std::array<std::uint8_t, mac_bytes>;

challenge_key derive_key(std::span<const std::uint8_t> secret);

/// From the kernel's generator. False if it has none to give.
bool fill_random(std::span<std::uint8_t> bytes);

struct challenge {
  std::uint64_t initiator = 0; ///< id of the voter that connects
  std::uint64_t acceptor = 0;
  nonce initiator_nonce{};
  nonce acceptor_nonce{};
};

std::array<std::uint8_t, greeting_bytes> encode_greeting(const challenge& with);
/// Nothing if these bytes are not a greeting. The nonce of the acceptor is left zero.
std::optional<challenge> decode_greeting(std::span<const std::uint8_t, greeting_bytes> bytes);

std::array<std::uint8_t, answer_bytes> encode_answer(const challenge_key& key, const challenge& with);
/// Whether the acceptor knows the secret; takes its nonce from the answer.
bool check_answer(const challenge_key& key, std::span<const std::uint8_t, answer_bytes> answer, challenge& with);

mac encode_proof(const challenge_key& key, const challenge& with);
bool check_proof(const challenge_key& key, std::span<const std::uint8_t, proof_bytes> proof, const challenge& with);

} // namespace dynamix::replication
