#include "messages/serialization.hpp"

#include <caf/make_message.hpp>
#include <caf/sec.hpp>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <vector>

namespace dynamix::messages {
namespace {

constexpr std::size_t chunk_words = 8192; // 64 KiB

caf::error save_words(caf::serializer& sink, std::span<const std::uint64_t> words) {
  auto count = static_cast<std::uint32_t>(words.size());
  if (auto error = sink(count))
    return error;
  // CAF's interface is one for both directions; a serializer only reads.
  return sink.apply_raw(words.size_bytes(), const_cast<std::uint64_t*>(words.data()));
}

caf::error load_words(caf::deserializer& source, std::vector<std::uint64_t>& words) {
  std::uint32_t count = 0;
  if (auto error = source(count))
    return error;
  if (count > max_frame_words)
    return caf::make_error(caf::sec::malformed_basp_message, "a frame larger than the limit");
  // The count is only a claim: no more memory is taken than twice what has come, and a chunk.
  while (words.size() < count) {
    const auto read = words.size();
    words.resize(std::min<std::size_t>(count, read + chunk_words));
    if (auto error = source.apply_raw((words.size() - read) * sizeof(std::uint64_t), words.data() + read))
      return error;
  }
  return caf::none;
}

} // namespace

template <class T>
caf::error inspect(caf::serializer& sink, message<T>& value) {
  const auto& encoded = value.encoded();
  if (encoded)
    return save_words(sink, encoded->view());
  spdlog::error("message_not_encoded kind={} error=\"{}\"", kind_of<T>, encoded.error().text);
  return save_words(sink, {});
}

template <class T>
caf::error inspect(caf::deserializer& source, message<T>& value) {
  std::vector<std::uint64_t> words;
  if (auto error = load_words(source, words))
    return error;
  value = message<T>(decode_as<T>(words));
  return caf::none;
}

#define MESSAGE(type, Schema)                                                                                          \
  template caf::error inspect(caf::serializer&, message<type>&);                                                       \
  template caf::error inspect(caf::deserializer&, message<type>&);
#include "messages/fields.def"

} // namespace dynamix::messages
