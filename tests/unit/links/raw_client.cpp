#include "tests/unit/links/raw_client.hpp"

#include "links/openssl_handles.hpp"
#include "tests/loopback_address.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>

namespace dynamix::links::testing {
namespace {

constexpr int patience_ms = 10000;

/// The client's side of a handshake over a socket. None where it is refused; a refusal that comes later is an end.
ssl_handle shake_hands(const raw_socket& socket, const raw_tls& client) {
  const timeval limit{.tv_sec = patience_ms / 1000, .tv_usec = 0};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  const std::unique_ptr<SSL_CTX, freed_by<SSL_CTX_free>> context(SSL_CTX_new(TLS_client_method()));
  SSL_CTX_set_min_proto_version(context.get(), client.version);
  SSL_CTX_set_max_proto_version(context.get(), client.version);
  if (client.own) {
    EXPECT_EQ(SSL_CTX_use_certificate(context.get(), parse_certificates(client.own->certificate).at(0).get()), 1);
    EXPECT_EQ(SSL_CTX_use_PrivateKey(context.get(), parse_key(client.own->key).get()), 1);
  }
  ssl_handle session(SSL_new(context.get()));
  if (client.protocol) {
    const auto text = static_cast<char>(client.protocol->size()) + *client.protocol;
    SSL_set_alpn_protos(session.get(), reinterpret_cast<const unsigned char*>(text.data()),
                        static_cast<unsigned int>(text.size()));
  }
  SSL_set_fd(session.get(), socket.get());
  return SSL_connect(session.get()) == 1 ? std::move(session) : nullptr;
}

} // namespace

raw_socket::raw_socket(std::uint16_t port) : number_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  auto address = loopback_address(port);
  EXPECT_EQ(::connect(number_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
}

raw_socket::raw_socket(raw_socket&& other) noexcept : number_(std::exchange(other.number_, -1)) {}

raw_socket::~raw_socket() {
  if (number_ >= 0)
    ::close(number_);
}

void raw_socket::send(const std::string& bytes) const {
  EXPECT_EQ(::send(number_, bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
}

bool raw_socket::wait_for_end(std::string& received) const {
  std::array<char, 4096> bytes{};
  pollfd waiting{.fd = number_, .events = POLLIN, .revents = 0};
  while (::poll(&waiting, 1, patience_ms) == 1) {
    const auto count = ::recv(number_, bytes.data(), bytes.size(), 0);
    if (count <= 0)
      return true;
    received.append(bytes.data(), static_cast<std::size_t>(count));
  }
  return false;
}

bool raw_socket::wait_for_bytes() const {
  char first = 0;
  pollfd waiting{.fd = number_, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, patience_ms) == 1 && ::recv(number_, &first, 1, MSG_PEEK) == 1;
}

std::string read_as_client(std::uint16_t port, const raw_tls& client) {
  const raw_socket socket(port);
  const auto session = shake_hands(socket, client);
  if (!session)
    return "";
  std::string received;
  std::array<char, 4096> bytes{};
  for (int count = 0; (count = SSL_read(session.get(), bytes.data(), bytes.size())) > 0;)
    received.append(bytes.data(), static_cast<std::size_t>(count));
  return received;
}

std::string connect_and_leave(std::uint16_t port, const raw_tls& client) {
  const raw_socket socket(port);
  const auto session = shake_hands(socket, client);
  char first = 0;
  return session && SSL_read(session.get(), &first, 1) == 1 ? std::string(1, first) : "";
}

std::string read_wire_as_caller(std::uint16_t port, const raw_tls& client, const std::string& introduction,
                                std::size_t size) {
  const raw_socket socket(port);
  const auto session = shake_hands(socket, client);
  char confirmed = 0;
  if (!session || SSL_read(session.get(), &confirmed, 1) != 1 ||
      SSL_write(session.get(), introduction.data(), static_cast<int>(introduction.size())) <= 0)
    return "";
  std::string received(size, '\0'); // OpenSSL has read no byte beyond the records that it was asked for
  const auto count = ::recv(socket.get(), received.data(), size, MSG_WAITALL);
  received.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  return received;
}

std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == "VmRSS:") {
      std::size_t kib = 0;
      status >> kib;
      return kib;
    }
  return 0;
}

std::string client_hello_begin() {
  // A handshake record of 512 bytes, of which the ClientHello's type, length, version and some of its random follow.
  return std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(16, 'r');
}

} // namespace dynamix::links::testing
