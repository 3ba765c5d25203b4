#pragma once

/// Structs to Cap'n Proto frames and back. Knows no CAF. A frame is one `Envelope` of messages/schema/dynamix.capnp in
/// one segment, behind the usual word that says so (docs/wire-format.md).

#include "messages/types.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace dynamix::messages {

/// The bytes of one Cap'n Proto frame: immutable, 8-byte aligned, shared by its copies. Empty unless made from words.
class shared_words {
public:
  shared_words() = default;
  explicit shared_words(std::vector<std::uint64_t> words)
      : words_(std::make_shared<const std::vector<std::uint64_t>>(std::move(words))) {}

  std::span<const std::uint64_t> view() const {
    return words_ ? std::span<const std::uint64_t>(*words_) : std::span<const std::uint64_t>();
  }

private:
  std::shared_ptr<const std::vector<std::uint64_t>> words_;
};

/// A variant of all but the first.
template <class First, class... Rest>
using variant_of_rest = std::variant<Rest...>;

/// Everything that a frame can hold: the messages of messages/fields.def.
using any_message = variant_of_rest<void
#define MESSAGE(type, Schema) , type
#include "messages/fields.def"
                                    >;

/// "window_report": the name of a message's struct.
template <class T>
inline constexpr std::string_view kind_of = {};
#define MESSAGE(type, Schema)                                                                                          \
  template <>                                                                                                          \
  inline constexpr std::string_view kind_of<type> = #type;
#include "messages/fields.def"

/// The largest frame: the largest policy and room for what goes with it.
inline constexpr std::size_t max_frame_words = (max_policy_bytes + (64U << 10)) / sizeof(std::uint64_t);

enum class codec_code : std::uint8_t {
  too_large = 1, ///< more than `max_frame_words`
  malformed,     ///< no single-segment Cap'n Proto frame, or one whose pointers lead astray
  unknown_kind,  ///< a well-formed frame of a message that this release does not know, or of none
  invalid_field, ///< a known message with a field that makes no sense (`validate` says which)
};

struct codec_error {
  codec_code code = codec_code::malformed;
  std::string text; ///< for a person
};

/// A value, or why there is none.
template <class T>
class result {
public:
  result(T value) : content_(std::in_place_index<0>, std::move(value)) {}
  result(codec_error error) : content_(std::in_place_index<1>, std::move(error)) {}

  explicit operator bool() const { return content_.index() == 0; }
  T& operator*() { return std::get<0>(content_); }
  const T& operator*() const { return std::get<0>(content_); }
  T* operator->() { return &std::get<0>(content_); }
  const T* operator->() const { return &std::get<0>(content_); }
  const codec_error& error() const { return std::get<1>(content_); }

private:
  std::variant<T, codec_error> content_;
};

/// "window_report": the name of the struct that `value` holds.
std::string_view kind_name(const any_message& value);

/// A frame that holds `value`, which is any of the structs of `any_message`. Fails with `invalid_field` where a
/// receiver would refuse it, for example on a NaN, and with `too_large`.
template <class T>
result<shared_words> encode(const T& value);
result<shared_words> encode(const any_message& value);

/// The message in a frame. Whatever the words are, this neither crashes nor takes more memory than the largest legal
/// message needs, and a message that it returns satisfies `validate`.
result<any_message> decode(std::span<const std::uint64_t> words);
inline result<any_message> decode(const shared_words& words) {
  return decode(words.view());
}

/// The same, where T is expected; a frame of another kind is refused with `unknown_kind`.
template <class T>
result<T> decode_as(std::span<const std::uint64_t> words) {
  auto decoded = decode(words);
  if (!decoded)
    return decoded.error();
  if (auto* value = std::get_if<T>(&*decoded))
    return std::move(*value);
  return codec_error{codec_code::unknown_kind, "unexpected " + std::string(kind_name(*decoded))};
}

} // namespace dynamix::messages
