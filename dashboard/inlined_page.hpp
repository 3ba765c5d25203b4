#pragma once

#include <string>
#include <string_view>

namespace dynamix::dashboard {

/// The page as one HTML file that opens without a server and loads nothing: its assets and `data`, a JSON text that
/// page/page.js reads, stand in the file. Its policy runs only the scripts that it was made with. Empty where the
/// program was built without the page (-DDYNAMIX_DASHBOARD=OFF).
std::string inlined_page(std::string_view data);

} // namespace dynamix::dashboard
