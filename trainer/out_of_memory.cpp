#include "trainer/out_of_memory.hpp"

#include <new>
#include <string_view>

namespace dynamix::trainer {

bool is_out_of_memory(const std::exception& error) {
  const std::string_view words = error.what();
  return dynamic_cast<const std::bad_alloc*>(&error) != nullptr || words.find("out of memory") != words.npos ||
         words.find("can't allocate memory") != words.npos;
}

} // namespace dynamix::trainer
