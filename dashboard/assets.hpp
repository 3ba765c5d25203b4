#pragma once

#include <span>
#include <string_view>

namespace dynamix::dashboard {

/// A file of the page, built into the program.
struct asset {
  std::string_view path; ///< "/style.css"
  std::string_view type; ///< of its content, as HTTP names it
  std::string_view content;
};

/// Empty where the program was built without the page (-DDYNAMIX_DASHBOARD=OFF).
std::span<const asset> page_assets();

} // namespace dynamix::dashboard
