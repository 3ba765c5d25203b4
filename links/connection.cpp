#include "links/connection.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <openssl/err.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::links {
namespace {

/// By `end_silent`, which lets a connection end so.
constexpr const char* wire_is_cut = "nothing that is sent to it arrives: Connection timed out";

constexpr std::size_t block_bytes = 131072; // that are moved at once: eight of TLS's largest records
constexpr int rounds_max = 4;               // before others have their turn
constexpr std::chrono::seconds drain_time{10};
constexpr std::chrono::seconds linger_time{1};
constexpr unsigned char tls_handshake_record = 0x16;
constexpr char accepted_byte = 1;

bool is_transient(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

} // namespace

descriptor::~descriptor() {
  if (number_ >= 0)
    ::close(number_);
}

std::pair<descriptor, descriptor> make_plain_pair() {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
    return {};
  return {descriptor(ends[0]), descriptor(ends[1])};
}

connection::connection(descriptor peer, std::string address, std::string expected, time_point deadline)
    : peer_(std::move(peer)), address_(std::move(address)),
      phase_(expected.empty() ? link_phase::silent : link_phase::handshaking), deadline_(deadline) {
  check_.expected = std::move(expected);
}

interest connection::wanted() const {
  interest wanted;
  if (wants_write_)
    wanted.peer |= EPOLLOUT;
  if (phase_ == link_phase::introduced)
    return wanted;
  if (phase_ != link_phase::open) {
    if (phase_ == link_phase::silent || phase_ == link_phase::closing || !wants_write_)
      wanted.peer |= EPOLLIN;
    return wanted;
  }
  if (incoming_.empty())
    wanted.peer |= EPOLLIN;
  if (outgoing_.empty() && !local_ended_)
    wanted.local |= EPOLLIN;
  if (!incoming_.empty())
    wanted.local |= EPOLLOUT;
  return wanted;
}

void connection::introduce(const std::string& purpose, protection afterwards) {
  introduces_ = true;
  afterwards_ = afterwards;
  introduction_ = static_cast<char>(purpose.size()) + purpose;
}

void connection::expect_introduction(protection afterwards) {
  afterwards_ = afterwards;
  phase_ = link_phase::introducing;
  if (afterwards == protection::none) // a record at a time: what follows the last is not the session's
    SSL_set_read_ahead(session_.get(), 0);
}

void connection::fail(const std::string& problem) {
  if (problem_.empty()) // what follows from a first one hides it
    problem_ = problem;
  phase_ = link_phase::over;
}

void connection::refuse(const std::string& problem) {
  fail(problem);
}

/// Of a peer that does not begin a handshake no session is made at all.
bool connection::first_byte_is_right() {
  unsigned char first = 0;
  const auto count = ::recv(peer_.get(), &first, 1, MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && is_transient(errno))
    return false;
  if (count <= 0)
    fail("it closed the connection without a word");
  else if (first != tls_handshake_record)
    fail("it does not speak TLS");
  return count == 1 && phase_ == link_phase::silent;
}

/// Takes what a function of the session has returned. True where it succeeded.
bool connection::step(int result) {
  const bool unanswered = errno == ETIMEDOUT;
  wants_write_ = false;
  if (result > 0)
    return true;
  const int error = SSL_get_error(session_.get(), result);
  if (error == SSL_ERROR_WANT_WRITE)
    wants_write_ = true;
  else if (error == SSL_ERROR_SYSCALL && unanswered)
    fail(wire_is_cut);
  else if (error != SSL_ERROR_WANT_READ)
    fail(explain_failure(check_));
  return false;
}

bool connection::shake_hands(const tls_identity& identity, const protocol_rules* rules) {
  if (phase_ == link_phase::silent) {
    if (!first_byte_is_right())
      return false;
    phase_ = link_phase::handshaking;
  }
  if (!session_) {
    check_.rules = calls() ? nullptr : rules;
    session_ = identity.make_session(peer_.get(), !calls(), check_);
    if (!session_) {
      fail("there is no memory for a session");
      return false;
    }
    if (afterwards_ == protection::none) // as above
      SSL_set_read_ahead(session_.get(), 0);
  }
  ERR_clear_error();
  if (phase_ == link_phase::handshaking) {
    if (!step(SSL_do_handshake(session_.get())))
      return false;
    const unsigned char* protocol = nullptr;
    unsigned int size = 0;
    SSL_get0_alpn_selected(session_.get(), &protocol, &size);
    if (size == 0)
      fail(calls() ? "it does not speak this protocol" : "it asked for no protocol");
    else if (check_.name.empty() || SSL_get_verify_result(session_.get()) != X509_V_OK)
      fail("it proved nothing");
    else
      phase_ = calls() ? link_phase::confirming : link_phase::proven;
    if (phase_ == link_phase::proven)
      return true;
  }
  if (phase_ == link_phase::introducing)
    return calls() ? write_introduction() : read_introduction();
  if (phase_ != link_phase::confirming)
    return false;
  char answer = 0;
  if (!step(SSL_read(session_.get(), &answer, 1)))
    return false;
  if (answer != accepted_byte)
    fail("it answered with another byte than the one that accepts");
  else if (introduces_)
    phase_ = link_phase::introducing;
  return phase_ == link_phase::introducing ? write_introduction() : phase_ == link_phase::confirming;
}

/// Confirms before it reads: the caller says nothing before it is accepted.
bool connection::read_introduction() {
  if (!confirmed_ && !step(SSL_write(session_.get(), &accepted_byte, 1)))
    return false;
  confirmed_ = true;
  std::array<char, 256> part; // NOLINT: filled by SSL_read
  std::size_t whole = 1;
  while (introduction_.size() < whole) {
    const int count = SSL_read(session_.get(), part.data(), static_cast<int>(whole - introduction_.size()));
    if (!step(count))
      return false;
    introduction_.append(part.data(), static_cast<std::size_t>(count));
    whole = std::size_t{1} + static_cast<unsigned char>(introduction_.front());
  }
  phase_ = link_phase::introduced;
  if (afterwards_ == protection::none)
    drop_session();
  return phase_ == link_phase::introduced;
}

/// In one record, so it is taken whole or not at all.
bool connection::write_introduction() {
  if (!step(SSL_write(session_.get(), introduction_.data(), static_cast<int>(introduction_.size()))))
    return false;
  if (afterwards_ == protection::none)
    drop_session();
  return phase_ == link_phase::introducing;
}

/// Both have proven who they are and said all that needs the session. It holds no byte of what follows, unless the peer
/// has said more than that.
void connection::drop_session() {
  if (SSL_has_pending(session_.get()) == 1)
    return fail("it said more than what the link is for");
  session_.reset();
}

void connection::open(descriptor local, const std::string& greeting) {
  local_ = std::move(local);
  incoming_.assign(greeting.begin(), greeting.end());
  phase_ = link_phase::open;
  deadline_.reset();
  wants_write_ = false;
  if (!calls() && !confirmed_)
    outgoing_ = {accepted_byte};
}

/// How many of the data's bytes were taken; 0 where there is no room now, or the link has failed.
int connection::write_some(const char* data, std::size_t size) {
  if (session_) {
    ERR_clear_error();
    const int taken = SSL_write(session_.get(), data, static_cast<int>(size));
    return step(taken) ? taken : 0;
  }
  const auto taken = ::send(peer_.get(), data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  wants_write_ = taken < 0 && is_transient(errno);
  if (taken < 0 && !wants_write_)
    fail(errno == ETIMEDOUT ? wire_is_cut : closed_by_peer);
  return static_cast<int>(std::max<ssize_t>(taken, 0));
}

/// How many bytes have come; 0: none yet; less: the link has ended, in order or not: the local user's own protocol
/// knows whether that was all.
int connection::read_some(char* data, std::size_t size) {
  if (!session_) {
    const auto count = ::recv(peer_.get(), data, size, MSG_DONTWAIT);
    if (count > 0)
      return static_cast<int>(count);
    if (count < 0 && errno == ETIMEDOUT && problem_.empty())
      problem_ = wire_is_cut;
    return count < 0 && is_transient(errno) ? 0 : -1;
  }
  ERR_clear_error();
  const int count = SSL_read(session_.get(), data, static_cast<int>(size));
  const bool unanswered = errno == ETIMEDOUT;
  if (count > 0)
    return count;
  const int error = SSL_get_error(session_.get(), count);
  if (error == SSL_ERROR_SYSCALL && unanswered && problem_.empty())
    problem_ = wire_is_cut;
  if (error == SSL_ERROR_SSL && problem_.empty())
    problem_ = explain_failure(check_);
  return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

/// False where the link has failed. `accepted`: of the data's bytes, those that were taken.
bool connection::send_to_peer(const char* data, std::size_t size, std::size_t& accepted) {
  accepted = 0;
  for (int taken = 1; taken > 0 && accepted < size; accepted += static_cast<std::size_t>(taken))
    taken = write_some(data + accepted, size - accepted);
  return phase_ == link_phase::open;
}

/// From the local user to the peer. True where anything has moved.
bool connection::move_out(time_point now) {
  std::size_t accepted = 0;
  if (!outgoing_.empty()) {
    if (!send_to_peer(outgoing_.data(), outgoing_.size(), accepted))
      return false;
    outgoing_.erase(outgoing_.begin(), outgoing_.begin() + static_cast<std::ptrdiff_t>(accepted));
    if (accepted > 0 && local_ended_)
      deadline_ = now + drain_time;
  } else if (!local_ended_) {
    std::array<char, block_bytes> plain; // NOLINT: filled by recv
    const auto count = ::recv(local_.get(), plain.data(), plain.size(), MSG_DONTWAIT);
    if (count > 0) {
      const auto size = static_cast<std::size_t>(count);
      if (!send_to_peer(plain.data(), size, accepted))
        return false;
      outgoing_.assign(plain.data() + accepted, plain.data() + size);
      return true;
    }
    if (count == 0 || !is_transient(errno) || (leaving_ && errno != EINTR)) {
      local_ended_ = true;
      deadline_ = now + drain_time;
    }
  }
  if (local_ended_ && outgoing_.empty()) {
    phase_ = link_phase::closing;
    deadline_ = now + linger_time;
  }
  return accepted > 0;
}

/// What the local user has taken of the data. To one that has closed its end everything is delivered.
std::size_t connection::deliver(const char* data, std::size_t size) {
  const auto count = ::send(local_.get(), data, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count >= 0)
    return static_cast<std::size_t>(count);
  return is_transient(errno) ? 0 : size;
}

/// From the peer to the local user. True where anything has moved.
bool connection::move_in() {
  if (!incoming_.empty()) {
    const auto taken = deliver(incoming_.data(), incoming_.size());
    incoming_.erase(incoming_.begin(), incoming_.begin() + static_cast<std::ptrdiff_t>(taken));
    return taken > 0;
  }
  std::array<char, block_bytes> plain; // NOLINT: filled by read_some
  std::size_t size = 0;
  int count = 1; // a record at most, with TLS
  for (; count > 0 && size < plain.size(); size += static_cast<std::size_t>(std::max(count, 0)))
    count = read_some(plain.data() + size, plain.size() - size);
  if (inspect_ && size > 0)
    if (const auto problem = inspect_({plain.data(), size}); !problem.empty()) {
      fail(problem);
      return false;
    }
  if (size > 0) { // first; what has ended it ends the next call, too
    const auto taken = deliver(plain.data(), size);
    incoming_.assign(plain.data() + taken, plain.data() + size);
    return true;
  }
  if (count < 0)
    phase_ = link_phase::over;
  return false;
}

/// Our close is sent, then what the peer still sends is thrown away until it closes: a socket that is closed with
/// unread bytes in it takes back what it has sent.
void connection::close_in_order() {
  if (!told_peer_) {
    ERR_clear_error();
    const int result = session_ ? SSL_shutdown(session_.get()) : 0;
    wants_write_ = result < 0 && SSL_get_error(session_.get(), result) == SSL_ERROR_WANT_WRITE;
    if (wants_write_)
      return;
    told_peer_ = true;
    ::shutdown(peer_.get(), SHUT_WR);
  }
  std::array<char, block_bytes> unwanted; // NOLINT: filled by recv
  for (int round = 0; round < rounds_max; ++round) {
    const auto count = ::recv(peer_.get(), unwanted.data(), unwanted.size(), MSG_DONTWAIT);
    if (count == 0 || (count < 0 && !is_transient(errno)))
      phase_ = link_phase::over;
    if (count <= 0)
      return;
  }
}

bool connection::transfer(time_point now) {
  for (int round = 0; round < rounds_max && phase_ == link_phase::open; ++round) {
    const bool moved_out = move_out(now);
    const bool moved_in = phase_ == link_phase::open && move_in();
    if (phase_ == link_phase::open && !moved_out && !moved_in)
      return false;
  }
  if (phase_ == link_phase::closing)
    close_in_order();
  return phase_ == link_phase::open;
}

} // namespace dynamix::links
