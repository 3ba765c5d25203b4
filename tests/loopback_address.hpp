#pragma once

#include <arpa/inet.h>
#include <cstdint>
#include <netinet/in.h>

namespace dynamix {

inline sockaddr_in loopback_address(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

} // namespace dynamix
