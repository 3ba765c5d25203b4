#pragma once

#include "messages/types.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace dynamix::actors {

/// The table behind the store through which a process group meets. Knows no CAF; bounded by messages::max_store_keys.
class store_table {
public:
  messages::store_result apply(const messages::store_operation& operation);

private:
  std::map<std::string, std::vector<std::uint8_t>> values_;
};

} // namespace dynamix::actors
