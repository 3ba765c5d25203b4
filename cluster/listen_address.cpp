#include "cluster/listen_address.hpp"

#include "cluster/fields.hpp"

#include <charconv>

namespace dynamix::cluster {

std::optional<listen_address> parse_listen_address(const std::string& text) {
  const auto colon = text.rfind(':');
  if (colon == std::string::npos)
    return {};
  listen_address parsed{.address = text.substr(0, colon)};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data() + colon + 1, end, parsed.port);
  if (error != std::errc() || stopped != end || parsed.port == 0)
    return {};
  auto& address = parsed.address;
  const bool bracketed = address.size() > 2 && address.front() == '[' && address.back() == ']';
  if (bracketed)
    address = address.substr(1, address.size() - 2);
  const bool is_ipv6 = address.find(':') != std::string::npos;
  if (bracketed != is_ipv6 || !(is_address(address) || address == "0.0.0.0" || address == "::"))
    return {};
  return parsed;
}

} // namespace dynamix::cluster
