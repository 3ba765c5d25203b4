#include "dashboard/assets.hpp"

namespace dynamix::dashboard {

std::span<const asset> page_assets() {
  return {};
}

} // namespace dynamix::dashboard
