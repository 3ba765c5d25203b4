#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace dynamix::trainer {

/// The key-value store through which the workers of a generation meet. Calls block, at most for a time-out of the
/// implementation's, and throw `store_error` when the store cannot be reached. Thread-safe.
class store {
public:
  virtual ~store() = default;
  virtual void set(const std::string& key, const std::vector<std::uint8_t>& value) = 0;
  /// The value, or nothing when the key is absent. Does not wait for it.
  virtual std::optional<std::vector<std::uint8_t>> get(const std::string& key) = 0;
  /// Adds to a counter (absent counts as 0) and returns its new value.
  virtual std::int64_t add(const std::string& key, std::int64_t amount) = 0;
  /// True when all keys are present.
  virtual bool check(const std::vector<std::string>& keys) = 0;
  /// True when the key was present.
  virtual bool remove(const std::string& key) = 0;
  virtual std::int64_t count() = 0;
};

class store_error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

} // namespace dynamix::trainer
