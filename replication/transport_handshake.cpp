#include "replication/transport_handshake.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <netdb.h>
#include <new>
#include <unistd.h>
#include <utility>

namespace dynamix::replication {
namespace {

/// None where there is no memory.
template <class Stream>
Stream* make_stream() {
  auto* memory = ::raft_malloc(sizeof(Stream));
  return memory == nullptr ? nullptr : new (memory) Stream{};
}

uv_stream_t* as_stream(void* stream) {
  return static_cast<uv_stream_t*>(stream);
}

uv_tcp_t& as_tcp(uv_stream_t* stream) {
  return *reinterpret_cast<uv_tcp_t*>(stream);
}

} // namespace

uv_stream_t* open_plain_end(uv_loop_t& loop, int plain) {
  auto* pipe = make_stream<uv_pipe_t>();
  if (pipe == nullptr) {
    ::close(plain);
    return nullptr;
  }
  ::uv_pipe_init(&loop, pipe, 0);
  if (::uv_pipe_open(pipe, plain) == 0)
    return as_stream(pipe);
  ::close(plain);
  ::uv_close(reinterpret_cast<uv_handle_t*>(pipe), [](uv_handle_t* handle) { ::raft_free(handle); });
  return nullptr;
}

handshake::handshake(transport& owner) : owner_(owner) {
  timer_.data = this;
  resolve_.data = this;
  connect_.data = this;
}

bool handshake::open() {
  ::uv_timer_init(&owner_.loop_, &timer_);
  ++outstanding_; // the timer's close
  ::uv_timer_start(
      &timer_, [](uv_timer_t* timer) { of(timer->data).fail(&transport_counts::timed_out); },
      owner_.options_.handshake_ms, 0);
  auto* tcp = make_stream<uv_tcp_t>();
  if (tcp == nullptr)
    return false;
  ::uv_tcp_init(&owner_.loop_, tcp);
  tcp->data = this;
  stream_ = as_stream(tcp);
  return true;
}

bool handshake::connect(raft_uv_connect* request, raft_uv_connect_cb connected, const voter& peer) {
  std::string host;
  std::string port;
  host_ = peer.host;
  if (!open() || !split_address(peer.address, host, port) || !resolve(host, port))
    return false;
  request_ = request;
  connected_ = connected;
  return true;
}

bool handshake::resolve(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | AI_NUMERICHOST;
  // A number needs no name server, and none of the threads that libraft's files need too.
  if (::uv_getaddrinfo(&owner_.loop_, &resolve_, nullptr, host.c_str(), port.c_str(), &hints) == 0) {
    resolved(resolve_.addrinfo);
    ::uv_freeaddrinfo(resolve_.addrinfo);
    return true;
  }
  hints.ai_flags = AI_NUMERICSERV;
  const auto call_back = [](uv_getaddrinfo_t* resolve, int status, addrinfo* found) {
    auto& self = of(resolve->data);
    --self.outstanding_;
    self.resolving_ = false;
    self.resolved(status == 0 ? found : nullptr);
    ::uv_freeaddrinfo(found);
    self.release_when_quiet();
  };
  if (::uv_getaddrinfo(&owner_.loop_, &resolve_, call_back, host.c_str(), port.c_str(), &hints) != 0)
    return false;
  ++outstanding_;
  resolving_ = true;
  return true;
}

void handshake::resolved(const addrinfo* found) {
  if (ended_)
    return;
  const auto call_back = [](uv_connect_t* connect, int status) {
    auto& self = of(connect->data);
    --self.outstanding_;
    self.connected(status);
    self.release_when_quiet();
  };
  if (found == nullptr || ::uv_tcp_connect(&connect_, &as_tcp(stream_), found->ai_addr, call_back) != 0)
    return fail(&transport_counts::broken);
  ++outstanding_;
}

void handshake::connected(int status) {
  if (ended_)
    return;
  if (status != 0)
    return fail(&transport_counts::broken);
  owner_.tune(as_tcp(stream_));
  secure();
}

/// The TCP connection is the pump's from here on.
void handshake::secure() {
  uv_os_fd_t connection = -1;
  auto* tcp = std::exchange(stream_, nullptr);
  const int own =
      ::uv_fileno(reinterpret_cast<uv_handle_t*>(tcp), &connection) == 0 ? ::fcntl(connection, F_DUPFD_CLOEXEC, 0) : -1;
  ++outstanding_;
  ::uv_close(reinterpret_cast<uv_handle_t*>(tcp), [](uv_handle_t* handle) {
    auto& self = of(handle->data);
    ::raft_free(handle);
    --self.outstanding_;
    self.release_when_quiet();
  });
  const int plain = own < 0 ? -1 : owner_.options_.links->adopt(own, host_);
  stream_ = plain < 0 ? nullptr : open_plain_end(owner_.loop_, plain);
  if (stream_ == nullptr)
    return fail(&transport_counts::broken);
  stream_->data = this;
  read(1);
}

/// Exactly this many bytes: what follows the name stays in the socket, for libraft.
void handshake::read(std::size_t size) {
  wanted_ = size;
  have_ = 0;
  const auto status = ::uv_read_start(
      stream_,
      [](uv_handle_t* handle, std::size_t, uv_buf_t* target) {
        auto& self = of(handle->data);
        *target = ::uv_buf_init(reinterpret_cast<char*>(self.buffer_.data() + self.have_),
                                static_cast<unsigned>(self.wanted_ - self.have_));
      },
      [](uv_stream_t* stream, ssize_t got, const uv_buf_t*) {
        auto& self = of(stream->data);
        if (got < 0)
          return self.fail(&transport_counts::broken);
        self.have_ += static_cast<std::size_t>(got);
        if (self.have_ == self.wanted_)
          self.received();
      });
  if (status != 0)
    fail(&transport_counts::broken);
}

/// One byte with its length, then the name that the peer has proved.
void handshake::received() {
  ::uv_read_stop(stream_);
  if (!std::exchange(named_, true) && buffer_[0] > 0)
    return read(buffer_[0]);
  const std::string name(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(have_));
  if (name != host_)
    return refuse(fmt::format("host \"{}\", which is not the voter that was called", name));
  hand_over();
}

void handshake::refuse(const std::string& why) {
  owner_.report("refused " + why);
  fail(&transport_counts::refused);
}

void handshake::fail(std::uint64_t transport_counts::*counter) {
  if (!ended_)
    ++(owner_.counts_.*counter);
  abort(RAFT_NOCONNECTION);
}

void handshake::abort(int status) {
  if (ended_)
    return;
  ended_ = true;
  status_ = status;
  if (resolving_)
    ::uv_cancel(reinterpret_cast<uv_req_t*>(&resolve_)); // fails if it is at work already, which is as well
  if (stream_ != nullptr) {
    ++outstanding_;
    ::uv_close(reinterpret_cast<uv_handle_t*>(stream_), [](uv_handle_t* handle) {
      auto& self = of(handle->data);
      ::raft_free(handle);
      self.stream_ = nullptr;
      --self.outstanding_;
      self.release_when_quiet();
    });
  }
  ::uv_close(reinterpret_cast<uv_handle_t*>(&timer_), [](uv_handle_t* handle) {
    auto& self = of(handle->data);
    --self.outstanding_;
    self.release_when_quiet();
  });
}

void handshake::hand_over() {
  ended_ = true;
  ::uv_close(reinterpret_cast<uv_handle_t*>(&timer_), [](uv_handle_t* handle) {
    auto& self = of(handle->data);
    --self.outstanding_;
    self.release_when_quiet();
  });
  ++owner_.counts_.connected;
  connected_(std::exchange(request_, nullptr), std::exchange(stream_, nullptr), 0);
}

void handshake::release_when_quiet() {
  if (!ended_ || outstanding_ > 0)
    return;
  if (request_ != nullptr)
    connected_(std::exchange(request_, nullptr), nullptr, status_);
  owner_.remove(*this); // this is gone
}

} // namespace dynamix::replication
