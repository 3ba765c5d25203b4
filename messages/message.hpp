#pragma once

/// What actors send each other. Knows no CAF: messages/serialization.hpp brings it over the network.

#include "messages/codec.hpp"

#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace dynamix::messages {

/// One T: immutable, shared by its copies. Inside a process nobody encodes it. What came in a frame that the codec
/// refuses is a message without a value, which says why: CAF 0.17 drops a connection whose payload cannot be read.
template <class T>
class message {
public:
  message() : message(result<T>(codec_error{codec_code::malformed, "nothing was sent"})) {}
  message(T value) : message(result<T>(std::move(value))) {}
  explicit message(result<T> value) : content_(std::make_shared<const content>(std::move(value))) {}

  explicit operator bool() const { return static_cast<bool>(content_->value); }
  const T& operator*() const { return *content_->value; }
  const T* operator->() const { return &*content_->value; }
  const codec_error& error() const { return content_->value.error(); }

  /// Its frame, encoded once, however many it is sent to.
  const result<shared_words>& encoded() const {
    std::call_once(content_->once, [&of = *content_] {
      if (of.value)
        of.encoded = encode(*of.value);
      else
        of.encoded = of.value.error();
    });
    return *content_->encoded;
  }

private:
  struct content {
    explicit content(result<T>&& made) : value(std::move(made)) {}
    result<T> value;
    mutable std::once_flag once;
    mutable std::optional<result<shared_words>> encoded;
  };

  std::shared_ptr<const content> content_;
};

} // namespace dynamix::messages
