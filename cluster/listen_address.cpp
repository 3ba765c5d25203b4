#include "cluster/listen_address.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cctype>
#include <charconv>
#include <string_view>

namespace dynamix::cluster {
namespace {

bool is_ipv4(const std::string& text) {
  in_addr v4{};
  return inet_pton(AF_INET, text.c_str(), &v4) == 1;
}

/// In IPv6, without the interface behind "%". Nothing for a name.
std::optional<in6_addr> numeric(const std::string& text) {
  in6_addr v6{};
  const auto address = is_ipv4(text) ? "::ffff:" + text : text.substr(0, text.find('%'));
  return inet_pton(AF_INET6, address.c_str(), &v6) == 1 ? std::optional(v6) : std::nullopt;
}

} // namespace

bool is_address(const std::string& text) {
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) == 1)
    return !IN6_IS_ADDR_UNSPECIFIED(&v6);
  if (is_ipv4(text))
    return text != "0.0.0.0"; // a wildcard names no host
  // RFC 1123 with the '_' that many name servers take, and a last label that is not a number, so that a mistyped IPv4
  // address is none.
  if (text.empty() || text.size() > 253)
    return false;
  std::size_t begin = 0;
  std::string_view label;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('.', begin), text.size());
    label = std::string_view(text).substr(begin, end - begin);
    const auto fits = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_'; };
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-' ||
        !std::all_of(label.begin(), label.end(), fits))
      return false;
    begin = end + 1;
  }
  return !std::all_of(label.begin(), label.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_same_address(const std::string& one, const std::string& other) {
  const auto first = numeric(one);
  const auto second = numeric(other);
  if (first && second)
    return IN6_ARE_ADDR_EQUAL(&*first, &*second);
  return one == other || ((one == "localhost" || other == "localhost") && is_loopback(one) && is_loopback(other));
}

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || (is_ipv4(address) && address.starts_with("127."));
}

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
