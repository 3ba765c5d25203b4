#pragma once

#include "messages/codec.hpp"
#include "messages/wire.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>

#include <cstring>
#include <vector>

namespace dynamix::messages {

/// The words of a finished message, whatever it holds and in however many segments.
inline std::vector<std::uint64_t> words_of(capnp::MessageBuilder& builder) {
  const auto flat = capnp::messageToFlatArray(builder);
  std::vector<std::uint64_t> words(flat.size());
  std::memcpy(words.data(), flat.begin(), flat.size() * sizeof(words[0]));
  return words;
}

/// A frame made without any check, as a faulty or hostile peer would.
inline std::vector<std::uint64_t> encode_unchecked(const any_message& value) {
  constexpr unsigned enough_words = 3U << 20;
  capnp::MallocMessageBuilder builder(enough_words);
  std::visit([&](const auto& one) { wire::write(one, builder.initRoot<schema::Envelope>()); }, value);
  return words_of(builder);
}

} // namespace dynamix::messages
