#include "messages/frame.hpp"

#include <caf/make_message.hpp>
#include <caf/sec.hpp>

#include <algorithm>

namespace dynamix::messages {
namespace {

constexpr std::size_t chunk_words = 8192; // 64 KiB

} // namespace

std::string to_string(const frame& value) {
  return "frame of " + std::to_string(value.view().size_bytes()) + " bytes";
}

caf::error inspect(caf::serializer& sink, frame& value) {
  const auto words = value.view();
  if (words.size() > max_frame_words)
    return caf::make_error(caf::sec::state_not_serializable, "a frame larger than the limit");
  auto count = static_cast<std::uint32_t>(words.size());
  if (auto error = sink(count))
    return error;
  // CAF's interface is one for both directions; a serializer only reads.
  return sink.apply_raw(words.size_bytes(), const_cast<std::uint64_t*>(words.data()));
}

caf::error inspect(caf::deserializer& source, frame& value) {
  std::uint32_t count = 0;
  if (auto error = source(count))
    return error;
  if (count > max_frame_words)
    return caf::make_error(caf::sec::malformed_basp_message, "a frame larger than the limit");
  // The count is only a claim: no more memory is taken than twice what has come, and a chunk.
  std::vector<std::uint64_t> words;
  while (words.size() < count) {
    const auto read = words.size();
    words.resize(std::min<std::size_t>(count, read + chunk_words));
    if (auto error = source.apply_raw((words.size() - read) * sizeof(std::uint64_t), words.data() + read))
      return error;
  }
  value = frame(std::move(words));
  return caf::none;
}

} // namespace dynamix::messages
