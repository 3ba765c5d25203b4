#pragma once

#include "messages/types.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dynamix::actors {

/// The table behind the store through which a process group meets. Knows no CAF; bounded by messages::max_store_keys
/// and by its bytes: a set or an add beyond them answers `absent`.
class store_table {
public:
  static constexpr std::size_t max_bytes = 64U << 20;

  messages::store_result apply(const messages::store_operation& operation);

private:
  std::map<std::string, std::vector<std::uint8_t>> values_;
  std::size_t bytes_ = 0; ///< of all values
};

} // namespace dynamix::actors
