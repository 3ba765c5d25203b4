#include "replication/transport.hpp"

#include "replication/transport_handshake.hpp"

#include <algorithm>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace dynamix::replication {
namespace {

transport& of(raft_uv_transport* self) {
  return *static_cast<transport*>(self->impl);
}

} // namespace

bool split_address(const std::string& address, std::string& host, std::string& port) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0 || colon + 1 == address.size())
    return false;
  host = address.substr(0, colon);
  port = address.substr(colon + 1);
  if (host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return !host.empty() && port.size() <= 5 &&
         std::all_of(port.begin(), port.end(), [](char digit) { return digit >= '0' && digit <= '9'; });
}

transport::transport(uv_loop_t& loop, transport_options options) : loop_(loop), options_(std::move(options)) {
  loop_.data = this; // for `read`, whose stream belongs to libraft
  set_version(interface_);
  interface_.impl = this;
  interface_.init = &transport::init;
  interface_.listen = &transport::listen;
  interface_.connect = &transport::connect;
  interface_.close = &transport::close;
}

transport::~transport() = default;

int transport::init(raft_uv_transport*, raft_id, const char*) {
  return 0;
}

int transport::listen(raft_uv_transport* self, raft_uv_accept_cb accepted) {
  auto& owner = of(self);
  owner.accepted_ = accepted;
  const auto status = owner.wait_for_links();
  if (status == 0)
    return 0;
  owner.listen_error_ = std::string("cannot take links: ") + ::uv_strerror(status);
  owner.listen_error_.copy(self->errmsg, sizeof self->errmsg - 1);
  return RAFT_IOERR;
}

int transport::wait_for_links() {
  queue_ = options_.links->take_links();
  if (queue_ < 0)
    return UV_EMFILE;
  waiting_ = std::make_unique<uv_poll_t>();
  waiting_->data = this;
  const auto status = ::uv_poll_init(&loop_, waiting_.get(), queue_);
  if (status != 0) {
    waiting_.reset();
    ::close(std::exchange(queue_, -1));
    return status;
  }
  return ::uv_poll_start(waiting_.get(), UV_READABLE | UV_DISCONNECT, [](uv_poll_t* waiting, int failed, int events) {
    auto& self = *static_cast<transport*>(waiting->data);
    self.take_links();
    if (failed != 0 || (events & UV_DISCONNECT) != 0) // the pump has ended
      ::uv_poll_stop(waiting);
  });
}

void transport::take_links() {
  for (auto link = links::take_link(queue_); link.plain >= 0; link = links::take_link(queue_)) {
    const auto* peer = find_host(link.host);
    if (peer == nullptr || peer->id == options_.id) {
      ::close(link.plain);
      ++counts_.refused;
      report("refused a connection by host \"" + link.host + "\", which is no other voter's");
    } else if (auto* stream = open_plain_end(loop_, link.plain)) {
      ++counts_.accepted;
      hand_over(peer->id, stream);
    } else {
      ++counts_.broken;
    }
  }
}

const voter* transport::find(std::uint64_t id) const {
  const auto& voters = options_.voters;
  const auto found = std::find_if(voters.begin(), voters.end(), [&](const auto& one) { return one.id == id; });
  return found == voters.end() ? nullptr : &*found;
}

const voter* transport::find_host(const std::string& name) const {
  const auto& voters = options_.voters;
  const auto found = std::find_if(voters.begin(), voters.end(), [&](const auto& one) { return one.host == name; });
  return found == voters.end() ? nullptr : &*found;
}

int transport::connect(raft_uv_transport* self, raft_uv_connect* request, raft_id id, const char*,
                       raft_uv_connect_cb connected) {
  auto& owner = of(self);
  request->cb = connected;
  const auto* peer = owner.find(id);
  if (peer == nullptr)
    return RAFT_NOCONNECTION;
  owner.handshakes_.push_back(std::make_unique<handshake>(owner));
  auto& added = *owner.handshakes_.back();
  if (added.connect(request, connected, *peer))
    return 0;
  added.abort(RAFT_NOCONNECTION);
  return RAFT_NOCONNECTION;
}

void transport::close(raft_uv_transport* self, raft_uv_transport_close_cb closed) {
  auto& owner = of(self);
  owner.closing_ = true;
  owner.closed_ = closed;
  // An abort may remove its handshake at once.
  std::vector<handshake*> pending;
  for (const auto& one : owner.handshakes_)
    pending.push_back(one.get());
  for (auto* one : pending)
    one->abort(RAFT_CANCELED);
  if (owner.waiting_) {
    ::uv_close(reinterpret_cast<uv_handle_t*>(owner.waiting_.get()), [](uv_handle_t* waiting) {
      auto& self = *static_cast<transport*>(waiting->data);
      self.waiting_.reset();
      ::close(std::exchange(self.queue_, -1));
      self.maybe_closed();
    });
    return;
  }
  owner.maybe_closed();
}

void transport::maybe_closed() {
  if (closing_ && !waiting_ && handshakes_.empty() && closed_ != nullptr)
    std::exchange(closed_, nullptr)(&interface_);
}

void transport::remove(handshake& done) {
  handshakes_.remove_if([&](const auto& one) { return one.get() == &done; });
  maybe_closed();
}

void transport::tune(uv_tcp_t& connection) const {
  constexpr unsigned keep_alive_seconds = 5;
  ::uv_tcp_nodelay(&connection, 1);
  ::uv_tcp_keepalive(&connection, 1, keep_alive_seconds);
  // Without it a connection through a partition comes back only when TCP tries again, up to two minutes later.
  uv_os_fd_t descriptor = -1;
  if (::uv_fileno(reinterpret_cast<uv_handle_t*>(&connection), &descriptor) == 0)
    ::setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &options_.silent_peer_ms, sizeof options_.silent_peer_ms);
}

void transport::hand_over(std::uint64_t peer, uv_stream_t* stream) {
  constexpr std::size_t streams_max = 64;
  accepted_(&interface_, peer, raft_name(peer).c_str(), stream);
  if (stream->read_cb == nullptr || ::uv_is_closing(reinterpret_cast<uv_handle_t*>(stream)) != 0)
    return;
  if (peers_.size() >= streams_max)
    peers_.clear(); // streams that libraft itself has closed are not told of
  reader_ = std::exchange(stream->read_cb, &transport::read);
  peers_.insert_or_assign(stream, peer);
}

/// libraft takes the end of a stream without a word to anybody, so it is noticed on the way there.
void transport::read(uv_stream_t* stream, ssize_t got, const uv_buf_t* buffer) {
  auto& self = *static_cast<transport*>(stream->loop->data);
  if (got >= 0)
    return self.reader_(stream, got, buffer);
  const auto found = self.peers_.extract(stream);
  self.reader_(stream, got, buffer);
  if (found.empty() || !self.options_.hung_up)
    return;
  const auto peer = found.mapped();
  if (std::none_of(self.peers_.begin(), self.peers_.end(), [&](const auto& one) { return one.second == peer; }))
    self.options_.hung_up(peer);
}

void transport::report(const std::string& text) const {
  if (options_.report)
    options_.report(text);
}

} // namespace dynamix::replication
