#pragma once

/// What the readers and writers of several messages share. Only for the codec's wire_*.cpp.

#include "messages/tree.hpp"
#include "schema/dynamix.capnp.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace dynamix::messages::wire {

/// How much of a list or text to take: all of it, or one element too many.
template <class List>
std::size_t bounded(const List& list, std::size_t limit) {
  return std::min<std::size_t>(list.size(), limit + 1);
}

inline std::string read_text(capnp::Text::Reader text, std::size_t limit) {
  return {text.begin(), bounded(text, limit)};
}

inline std::vector<std::uint32_t> read_ranks(capnp::List<std::uint32_t>::Reader list) {
  const auto count = static_cast<unsigned>(bounded(list, max_workers));
  std::vector<std::uint32_t> ranks;
  ranks.reserve(count);
  for (unsigned i = 0; i < count; ++i)
    ranks.push_back(list[i]);
  return ranks;
}

inline decision_key read_key(schema::DecisionKey::Reader reader) {
  return {.term = reader.getTerm(), .window = reader.getWindow()};
}

/// The whole text: by itself, Cap'n Proto ends a std::string at its first zero byte.
inline capnp::Text::Reader text_of(const std::string& text) {
  return {text.c_str(), text.size()};
}

inline void write_ranks(const std::vector<std::uint32_t>& ranks, capnp::List<std::uint32_t>::Builder builder) {
  for (unsigned i = 0; i < builder.size(); ++i)
    builder.set(i, ranks[i]);
}

inline void write_key(decision_key key, schema::DecisionKey::Builder builder) {
  builder.setTerm(key.term);
  builder.setWindow(key.window);
}

void write_report(const window_report& value, schema::WindowReport::Builder builder);
void write_heartbeat(const heartbeat& value, schema::Heartbeat::Builder builder);

} // namespace dynamix::messages::wire
