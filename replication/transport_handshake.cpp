#include "replication/transport_handshake.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <netdb.h>
#include <new>
#include <utility>

namespace dynamix::replication {

handshake::handshake(transport& owner) : owner_(owner) {
  timer_.data = this;
  resolve_.data = this;
  connect_.data = this;
  write_.data = this;
}

bool handshake::open() {
  ::uv_timer_init(&owner_.loop_, &timer_);
  ++outstanding_; // the timer's close
  ::uv_timer_start(
      &timer_, [](uv_timer_t* timer) { of(timer->data).fail(&transport_counts::timed_out); },
      owner_.options_.handshake_ms, 0);
  auto* memory = static_cast<uv_tcp_t*>(::raft_malloc(sizeof(uv_tcp_t)));
  if (memory == nullptr)
    return false;
  tcp_ = new (memory) uv_tcp_t{};
  ::uv_tcp_init(&owner_.loop_, tcp_);
  tcp_->data = this;
  return true;
}

bool handshake::accept(uv_stream_t* listener) {
  if (!open() || ::uv_accept(listener, reinterpret_cast<uv_stream_t*>(tcp_)) != 0)
    return false;
  owner_.tune(*tcp_);
  read(greeting_bytes);
  return true;
}

bool handshake::connect(raft_uv_connect* request, raft_uv_connect_cb connected, const voter& peer) {
  std::string host;
  std::string port;
  outgoing_ = true;
  challenge_.initiator = owner_.options_.id;
  challenge_.acceptor = peer.id;
  peer_address_ = peer.address;
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
  if (found == nullptr || ::uv_tcp_connect(&connect_, tcp_, found->ai_addr, call_back) != 0)
    return fail(&transport_counts::broken);
  ++outstanding_;
}

void handshake::connected(int status) {
  if (ended_)
    return;
  if (status != 0 || !fill_random(challenge_.initiator_nonce))
    return fail(&transport_counts::broken);
  owner_.tune(*tcp_);
  write(encode_greeting(challenge_));
  if (!ended_)
    read(answer_bytes);
}

/// Exactly this many bytes: what follows the challenge stays in the socket, for libraft.
void handshake::read(std::size_t size) {
  wanted_ = size;
  have_ = 0;
  const auto status = ::uv_read_start(
      reinterpret_cast<uv_stream_t*>(tcp_),
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

void handshake::received() {
  ::uv_read_stop(reinterpret_cast<uv_stream_t*>(tcp_));
  if (!incoming())
    received_answer();
  else if (!answered_)
    received_greeting();
  else
    received_proof();
}

void handshake::received_greeting() {
  const auto greeting = decode_greeting(std::span<const std::uint8_t, greeting_bytes>(buffer_.data(), greeting_bytes));
  if (!greeting)
    return refuse("a connection that is not Raft's");
  if (greeting->acceptor != owner_.options_.id)
    return refuse(fmt::format("a connection meant for voter {}", greeting->acceptor));
  const auto* peer = owner_.find(greeting->initiator);
  if (peer == nullptr || peer->id == owner_.options_.id)
    return refuse(fmt::format("a connection by voter {}, which is not one", greeting->initiator));
  challenge_ = *greeting;
  answered_ = true;
  if (!fill_random(challenge_.acceptor_nonce))
    return fail(&transport_counts::broken);
  write(encode_answer(owner_.key_, challenge_));
  if (!ended_)
    read(proof_bytes);
}

void handshake::received_answer() {
  if (!check_answer(owner_.key_, std::span<const std::uint8_t, answer_bytes>(buffer_.data(), answer_bytes), challenge_))
    return refuse(
        fmt::format("voter {} at {}, which does not know the cluster's secret", challenge_.acceptor, peer_address_));
  proved_ = true;
  write(encode_proof(owner_.key_, challenge_));
}

void handshake::received_proof() {
  if (!check_proof(owner_.key_, std::span<const std::uint8_t, proof_bytes>(buffer_.data(), proof_bytes), challenge_))
    return refuse(
        fmt::format("a connection by voter {}, which does not know the cluster's secret", challenge_.initiator));
  proved_ = true;
  // Its proof follows from the answer, but libuv may tell of the write's end later.
  if (write_.handle == nullptr)
    hand_over();
}

void handshake::write(std::span<const std::uint8_t> bytes) {
  std::copy(bytes.begin(), bytes.end(), output_.begin());
  const auto buffer = ::uv_buf_init(reinterpret_cast<char*>(output_.data()), static_cast<unsigned>(bytes.size()));
  const auto call_back = [](uv_write_t* write, int status) {
    auto& self = of(write->data);
    --self.outstanding_;
    write->handle = nullptr;
    self.written(status);
    self.release_when_quiet();
  };
  if (::uv_write(&write_, reinterpret_cast<uv_stream_t*>(tcp_), &buffer, 1, call_back) != 0)
    return fail(&transport_counts::broken);
  ++outstanding_;
}

void handshake::written(int status) {
  if (ended_)
    return;
  if (status != 0)
    return fail(&transport_counts::broken);
  if (proved_)
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
  if (tcp_ != nullptr) {
    ++outstanding_;
    ::uv_close(reinterpret_cast<uv_handle_t*>(tcp_), [](uv_handle_t* handle) {
      auto& self = of(handle->data);
      ::raft_free(handle);
      self.tcp_ = nullptr;
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
  auto* stream = reinterpret_cast<uv_stream_t*>(std::exchange(tcp_, nullptr));
  if (incoming()) {
    ++owner_.counts_.accepted;
    owner_.hand_over(challenge_.initiator, stream);
  } else {
    ++owner_.counts_.connected;
    connected_(std::exchange(request_, nullptr), stream, 0);
  }
}

void handshake::release_when_quiet() {
  if (!ended_ || outstanding_ > 0)
    return;
  if (request_ != nullptr)
    connected_(std::exchange(request_, nullptr), nullptr, status_);
  owner_.remove(*this); // this is gone
}

} // namespace dynamix::replication
