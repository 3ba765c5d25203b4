#include "faults/proxy_connection.hpp"

#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::faults {
namespace {

constexpr std::size_t chunk_bytes = 64U << 10;
constexpr int chunks_a_turn = 16; ///< so that one busy connection starves no other

std::size_t index_of(way which) {
  return static_cast<std::size_t>(which);
}

} // namespace

void tcp_socket::close() {
  if (descriptor_ >= 0)
    ::close(descriptor_);
  descriptor_ = -1;
}

void tcp_socket::reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  if (descriptor_ >= 0)
    ::setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

proxy_connection::proxy_connection(int client, const sockaddr_in& target, link_state& link)
    : client_(client), target_(target), link_(link) {
  ++link.counters.connections;
}

void proxy_connection::add_polls(std::vector<pollfd>& polls) const {
  short client = 0;
  short server = 0;
  for (const way which : {way::to_server, way::to_client}) {
    const auto& one = ways_[index_of(which)];
    auto& from = which == way::to_server ? client : server;
    auto& to = which == way::to_server ? server : client;
    if (!one.source_ended && !one.under_way.full())
      from |= POLLIN;
    // Only where something is due: otherwise a writable socket would wake the loop all the time.
    if (phase_ == phase::open && one.under_way.blocked())
      to |= POLLOUT;
  }
  if (phase_ == phase::connecting)
    server |= POLLOUT;
  // A socket that has nothing to wait for is left out, or its hang-up would wake the loop without end.
  if (client != 0)
    polls.push_back({.fd = client_.get(), .events = client, .revents = 0});
  if (server != 0 && server_.get() >= 0)
    polls.push_back({.fd = server_.get(), .events = server, .revents = 0});
}

void proxy_connection::connect() {
  server_ = tcp_socket(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const auto* address = reinterpret_cast<const sockaddr*>(&target_);
  if (::connect(server_.get(), address, sizeof target_) != 0 && errno != EINPROGRESS)
    return reset();
  phase_ = phase::connecting;
}

bool proxy_connection::connected() {
  pollfd writable{.fd = server_.get(), .events = POLLOUT, .revents = 0};
  if (::poll(&writable, 1, 0) != 1)
    return false;
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(server_.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
    client_.reset(); // nobody listens there
    over_ = true;
    return false;
  }
  return true;
}

void proxy_connection::advance(double now_seconds) {
  if (over_)
    return;
  if (phase_ == phase::accepted) {
    if (!link_.held() && !link_.dropping())
      connect();
    else if (!had_to_wait_) {
      had_to_wait_ = true;
      ++link_.counters.waiting;
    }
  }
  if (phase_ == phase::connecting && !over_ && connected())
    phase_ = phase::open;
  for (const way which : {way::to_server, way::to_client}) {
    if (!over_ && (which == way::to_server || phase_ == phase::open))
      receive(which, now_seconds);
    if (!over_ && phase_ == phase::open)
      send(which, now_seconds);
  }
  if (!over_ && ways_[0].sink_ended && ways_[1].sink_ended)
    over_ = true;
}

void proxy_connection::receive(way which, double now_seconds) {
  auto& one = ways_[index_of(which)];
  for (int turn = 0; turn < chunks_a_turn && !one.source_ended && !one.under_way.full(); ++turn) {
    std::string bytes(chunk_bytes, '\0');
    const auto count = ::recv(source(which).get(), bytes.data(), bytes.size(), 0);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
      return;
    one.source_failed = count < 0;
    one.source_ended = count <= 0;
    if (count <= 0)
      break;
    bytes.resize(static_cast<std::size_t>(count));
    auto& counters = link_.counters.ways[index_of(which)];
    if (link_.corrupt_next[index_of(which)]) {
      link_.corrupt_next[index_of(which)] = false;
      bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 0x10);
      ++counters.corrupted;
    }
    if (link_.truncate_next[index_of(which)]) {
      link_.truncate_next[index_of(which)] = false;
      bytes.resize(bytes.size() / 2);
      ++counters.truncated;
      ends_after_sending_ = true;
      one.source_ended = true;
    }
    torn_ = torn_ || link_.conditions[index_of(which)].drop;
    one.under_way.push(now_seconds, std::move(bytes), link_.conditions[index_of(which)], counters);
  }
}

void proxy_connection::send(way which, double now_seconds) {
  auto& one = ways_[index_of(which)];
  auto& counters = link_.counters.ways[index_of(which)];
  const auto& condition = link_.conditions[index_of(which)];
  while (true) {
    auto bytes = one.under_way.take(now_seconds, chunk_bytes, condition, counters);
    if (bytes.empty())
      break;
    const auto count = ::send(sink(which).get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    const auto sent = count > 0 ? static_cast<std::size_t>(count) : 0;
    counters.passed_bytes += sent;
    if (count < 0 && errno != EAGAIN && errno != EINTR)
      return reset(); // the other end is gone
    one.under_way.put_back(bytes.substr(sent));
    if (sent < bytes.size())
      return;
  }
  if (!one.source_ended || !one.under_way.empty() || one.sink_ended || condition.hold || condition.drop)
    return;
  if (one.source_failed)
    return reset();
  ::shutdown(sink(which).get(), SHUT_WR);
  one.sink_ended = true;
  over_ = over_ || ends_after_sending_;
}

std::optional<double> proxy_connection::next_seconds(double now_seconds) const {
  std::optional<double> earliest;
  for (std::size_t which = 0; which < ways_.size() && phase_ == phase::open; ++which)
    if (const auto next = ways_[which].under_way.next_seconds(now_seconds, link_.conditions[which]);
        next && !ways_[which].under_way.blocked() && (!earliest || *next < *earliest))
      earliest = next;
  return earliest;
}

void proxy_connection::reset() {
  client_.reset();
  server_.reset();
  over_ = true;
}

} // namespace dynamix::faults
