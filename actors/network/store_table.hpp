#pragma once

#include "messages/types.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dynamix::actors {

/// The table behind the store through which so many members of process groups meet. Knows no CAF; bounded in keys and
/// in the bytes of its values: a set or an add beyond them answers `absent`.
class store_table {
public:
  explicit store_table(std::size_t members);

  std::size_t max_keys() const { return max_keys_; }
  std::size_t max_bytes() const { return max_bytes_; }
  messages::store_result apply(const messages::store_operation& operation);

private:
  std::size_t max_keys_;
  std::size_t max_bytes_;
  std::map<std::string, std::vector<std::uint8_t>> values_;
  std::size_t bytes_ = 0; ///< of all values
};

} // namespace dynamix::actors
