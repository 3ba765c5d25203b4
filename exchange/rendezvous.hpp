#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace dynamix::exchange {

/// The key-value store through which the members of a group find each other. Calls block, at most for a time-out of
/// the implementation's, and throw `store_error` when the store cannot be reached. Thread-safe.
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

class peer_links;

/// One worker's place in a group, or one server's: who belongs to it, and how they meet. The same on all of them but
/// for `rank`, `address` and `links`.
struct place {
  std::uint32_t rank = 0;                   ///< this worker's
  std::vector<std::uint32_t> members = {0}; ///< ranks, ascending; contains `rank`, unless `servers` does
  std::string store_prefix;                 ///< of the group's keys in the store
  std::string address = "127.0.0.1";        ///< that this worker listens on
  std::uint32_t collective_timeout_ms = 60000;
  std::uint32_t join_timeout_ms = 600000;
  std::uint32_t silent_peer_ms = 0; ///< bytes not acknowledged, or not taken, so long end one in the clear; 0: never
  std::shared_ptr<peer_links> links = {};  ///< to the other members, of whom all have them; null: in the clear
  std::vector<std::uint32_t> servers = {}; ///< ranks above the members' that bring nothing and sum, ascending

  /// The position of a rank among the members, or their number when it is none of them.
  std::uint32_t position_of(std::uint32_t member) const {
    return static_cast<std::uint32_t>(std::ranges::find(members, member) - members.begin());
  }
};

} // namespace dynamix::exchange
