#include "messages/codec.hpp"

#include "messages/validation.hpp"
#include "messages/wire.hpp"

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>
#include <kj/io.h>

#include <algorithm>
#include <array>

namespace dynamix::messages {
namespace {

constexpr std::uint64_t traversal_limit_factor = 8;
constexpr std::uint64_t traversal_limit_words_min = 1024;
constexpr int nesting_limit = 16;
constexpr std::size_t first_segment_words = 1024;

codec_error too_large(std::size_t words) {
  return {codec_code::too_large,
          "a frame of " + std::to_string(words) + " words, allowed are " + std::to_string(max_frame_words)};
}

/// Runs `work`. Cap'n Proto reports with exceptions what is wrong with a frame; they end here and nowhere else.
template <class Work>
auto guarded(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const kj::Exception& exception) {
    return codec_error{codec_code::malformed, std::string("not a frame: ") + exception.getDescription().cStr()};
  }
}

/// The frame of a finished message in one segment.
shared_words to_words(capnp::MessageBuilder& builder) {
  std::vector<std::uint64_t> words(capnp::computeSerializedSizeInWords(builder));
  kj::ArrayOutputStream stream(
      kj::arrayPtr(reinterpret_cast<kj::byte*>(words.data()), words.size() * sizeof(words[0])));
  capnp::writeMessage(stream, builder);
  return shared_words(std::move(words));
}

template <class T>
result<shared_words> build(const T& value) {
  // Most messages fit into this. The builder zeroes what it used of it, which is less than it would allocate.
  alignas(capnp::word) thread_local std::array<std::uint64_t, first_segment_words> scratch{};
  capnp::MallocMessageBuilder builder(kj::arrayPtr(reinterpret_cast<capnp::word*>(scratch.data()), scratch.size()));
  auto envelope = builder.initRoot<schema::Envelope>();
  wire::write(value, envelope);
  if (builder.getSegmentsForOutput().size() == 1)
    return to_words(builder);
  // It outgrew the first segment. Now that its size is known, it is copied to where it fits into one.
  constexpr std::size_t root_pointer_words = 1;
  const auto words = envelope.asReader().totalSize().wordCount + root_pointer_words;
  if (words > max_frame_words)
    return too_large(words);
  capnp::MallocMessageBuilder single(static_cast<unsigned>(words), capnp::AllocationStrategy::FIXED_SIZE);
  single.setRoot(envelope.asReader());
  return to_words(single);
}

result<any_message> read_envelope(schema::Envelope::Reader envelope) {
  if (auto value = wire::read(envelope))
    return std::move(*value);
  return codec_error{codec_code::unknown_kind, "a message of kind " +
                                                   std::to_string(static_cast<unsigned>(envelope.which())) +
                                                   ", which this release does not know"};
}

/// The word in front of a frame's only segment: the count of further segments (none) and this one's size.
constexpr std::uint64_t first_word_of(std::size_t words) {
  constexpr int size_shift = 32;
  return static_cast<std::uint64_t>(words - 1) << size_shift;
}

std::string invalid(const any_message& value) {
  return std::visit([](const auto& one) { return validate(one); }, value);
}

} // namespace

template <class T>
result<shared_words> encode(const T& value) {
  if (auto fault = validate(value); !fault.empty())
    return codec_error{codec_code::invalid_field, std::move(fault)};
  auto words = guarded([&] { return build(value); });
  if (words && words->view().size() > max_frame_words)
    return too_large(words->view().size());
  return words;
}

#define MESSAGE(type, Schema) template result<shared_words> encode(const type& value);
#include "messages/fields.def"

result<shared_words> encode(const any_message& value) {
  return std::visit([](const auto& one) { return encode(one); }, value);
}

result<any_message> decode(std::span<const std::uint64_t> words) {
  if (words.size() > max_frame_words)
    return too_large(words.size());
  if (words.empty() || words.front() != first_word_of(words.size()))
    return codec_error{codec_code::malformed,
                       "not a frame of one segment with " + std::to_string(words.size()) + " words"};
  auto decoded = guarded([&] {
    capnp::ReaderOptions options;
    options.traversalLimitInWords = std::max(words.size() * traversal_limit_factor, traversal_limit_words_min);
    options.nestingLimit = nesting_limit;
    capnp::FlatArrayMessageReader reader(kj::arrayPtr(reinterpret_cast<const capnp::word*>(words.data()), words.size()),
                                         options);
    return read_envelope(reader.getRoot<schema::Envelope>());
  });
  if (!decoded)
    return decoded;
  if (auto fault = invalid(*decoded); !fault.empty())
    return codec_error{codec_code::invalid_field, std::string(kind_name(*decoded)) + ": " + fault};
  return decoded;
}

std::string_view kind_name(const any_message& value) {
  static constexpr std::string_view names[] = {
#define MESSAGE(type, Schema) #type,
#include "messages/fields.def"
  };
  return names[value.index()];
}

} // namespace dynamix::messages
