#include "replication/guarded_io.hpp"

#include "replication/voter.hpp"

#include <algorithm>
#include <memory>

namespace dynamix::replication {
namespace {

struct append_call {
  raft_io_append request{}; // first: a pointer to it is one to this
  raft_io_append* original = nullptr;
  raft_io_append_cb appended = nullptr;
  raft_io* io = nullptr;
};

/// What the receiver would have taken over.
void discard(raft_message& message) {
  if (message.type == RAFT_IO_APPEND_ENTRIES) {
    auto& content = message.append_entries;
    if (content.n_entries > 0)
      ::raft_free(content.entries[0].batch);
    ::raft_free(content.entries);
  } else if (message.type == RAFT_IO_INSTALL_SNAPSHOT) {
    ::raft_configuration_close(&message.install_snapshot.conf);
    ::raft_free(message.install_snapshot.data.base);
  }
}

} // namespace

int guarded_io::init(uv_loop_t& loop, const std::string& directory, raft_uv_transport& transport) {
  auto& io = wrapped_.io;
  wrapped_.self = this;
  if (const auto code = ::raft_uv_init(&io, &loop, directory.c_str(), &transport); code != 0)
    return code;
  // A damaged log is not to be cut short behind our back: this voter would forget what it has acknowledged.
  ::raft_uv_set_auto_recovery(&io, false);
  original_ = io;
  io.start = &guarded_io::start;
  io.send = &guarded_io::send;
  io.append = &guarded_io::append;
  io.set_term = &guarded_io::set_term;
  io.set_vote = &guarded_io::set_vote;
  io.truncate = &guarded_io::truncate;
  return 0;
}

int guarded_io::note(const char* what, int code) {
  if (code != 0 && code != RAFT_CANCELED && fault_.empty()) {
    const std::string text = wrapped_.io.errmsg;
    fault_ = std::string("cannot ") + what + ": " + ::raft_strerror(code) + (text.empty() ? "" : ", " + text);
  }
  return code;
}

int guarded_io::start(raft_io* io, unsigned tick_ms, raft_io_tick_cb tick, raft_io_recv_cb receive) {
  auto& self = of(io);
  self.receive_ = receive;
  return self.original_.start(io, tick_ms, tick, &guarded_io::receive);
}

void guarded_io::receive(raft_io* io, raft_message* message) {
  auto& self = of(io);
  if (self.on_probation() && !self.admit(*message))
    return discard(*message);
  self.receive_(io, message);
}

/// Whether libraft may see it; tells the probation what it says.
bool guarded_io::admit(raft_message& message) {
  const auto from = message.server_id;
  switch (message.type) {
  case RAFT_IO_APPEND_ENTRIES: {
    // Heard before judged: it may be the last voice that was missing.
    const auto& appended = message.append_entries;
    probation_->heard(from, appended.term, false);
    if (!probation_->follows(appended.term)) {
      depose(message);
      return false;
    }
    for (unsigned index = 0; index < appended.n_entries; ++index)
      probation_->sent(appended.prev_log_index + 1 + index, appended.entries[index].term);
    return true;
  }
  case RAFT_IO_INSTALL_SNAPSHOT: {
    const auto& snapshot = message.install_snapshot;
    probation_->heard(from, snapshot.term, false);
    if (!probation_->follows(snapshot.term))
      return false; // the leader's next heartbeat is answered
    probation_->sent(snapshot.last_index, snapshot.last_term);
    return true;
  }
  case RAFT_IO_REQUEST_VOTE: {
    // A pre-vote asks about the term after the sender's.
    const auto& asked = message.request_vote;
    probation_->heard(from, asked.pre_vote ? asked.term - 1 : asked.term, asked.last_log_index <= 1);
    return true;
  }
  case RAFT_IO_REQUEST_VOTE_RESULT:
    probation_->heard(from, message.request_vote_result.term, false); // its own term, or, if granted, at most this
    message.request_vote_result.vote_granted = false;                 // so that it never stands
    return true;
  default:
    return false;
  }
}

/// A leader below the promised term gets what libraft would answer if it knew of the promise, and steps down.
void guarded_io::depose(const raft_message& appended) {
  if (probation_->now() != probation::phase::catching_up)
    return;
  raft_message answer{};
  answer.type = RAFT_IO_APPEND_ENTRIES_RESULT;
  answer.server_id = appended.server_id;
  answer.server_address = appended.server_address;
  answer.append_entries_result.term = probation_->promised_term();
  answer.append_entries_result.rejected = appended.append_entries.prev_log_index;
  auto request = std::make_unique<raft_io_send>();
  const auto sent = [](raft_io_send* done, int) { delete done; };
  if (original_.send(&wrapped_.io, request.get(), &answer, sent) == 0)
    request.release();
}

void guarded_io::reconnect(std::uint64_t peer) {
  constexpr int messages = 2; // the first one is answered with a reset, by which the second fails
  const auto name = raft_name(peer);
  raft_message told{}; // only the term, which is true, in case that it does arrive
  told.type = RAFT_IO_REQUEST_VOTE_RESULT;
  told.server_id = peer;
  told.server_address = name.c_str();
  told.request_vote_result.term = static_cast<const raft*>(wrapped_.io.data)->current_term;
  told.request_vote_result.vote_granted = false;
  told.request_vote_result.pre_vote = raft_tribool_true;
  for (int count = 0; count < messages; ++count) {
    auto request = std::make_unique<raft_io_send>();
    const auto sent = [](raft_io_send* done, int) { delete done; };
    if (original_.send(&wrapped_.io, request.get(), &told, sent) == 0)
      request.release();
  }
}

int guarded_io::send(raft_io* io, raft_io_send* request, const raft_message* message, raft_io_send_cb sent) {
  auto& self = of(io);
  const auto& voters = static_cast<const raft*>(io->data)->configuration;
  if (std::none_of(voters.servers, voters.servers + voters.n,
                   [&](const auto& one) { return one.id == message->server_id; })) {
    // The disk has written what a leader sent that is none any more. libraft answers it all the same, to nobody or, as
    // a candidate, to what its votes look like as an address, and would crash.
    sent(request, RAFT_NOCONNECTION);
    return 0;
  }
  const bool judges_pre_vote =
      message->type == RAFT_IO_REQUEST_VOTE_RESULT && message->request_vote_result.pre_vote == raft_tribool_true;
  if (judges_pre_vote && (self.on_probation() || !message->request_vote_result.vote_granted)) {
    // libraft answers a pre-vote under the term that was asked about, which tells one on probation nothing.
    auto refusal = *message;
    refusal.request_vote_result.vote_granted = false;
    refusal.request_vote_result.term = static_cast<const raft*>(io->data)->current_term;
    return self.original_.send(io, request, &refusal, sent);
  }
  const bool asks = message->type == RAFT_IO_REQUEST_VOTE && message->request_vote.pre_vote;
  const bool acknowledges = message->type == RAFT_IO_APPEND_ENTRIES_RESULT && self.on_probation() &&
                            self.probation_->now() == probation::phase::catching_up;
  if (!self.on_probation() || asks || acknowledges)
    return self.original_.send(io, request, message, sent);
  // As if the network had lost it. An error instead would make libraft free some messages twice.
  sent(request, RAFT_NOCONNECTION);
  return 0;
}

int guarded_io::append(raft_io* io, raft_io_append* request, const raft_entry entries[], unsigned count,
                       raft_io_append_cb appended) {
  auto call = std::make_unique<append_call>();
  call->original = request;
  call->appended = appended;
  call->io = io;
  const auto finished = [](raft_io_append* inner, int status) {
    const std::unique_ptr<append_call> call(reinterpret_cast<append_call*>(inner));
    of(call->io).note("append to the log", status);
    call->appended(call->original, status);
  };
  const auto code = of(io).original_.append(io, &call->request, entries, count, finished);
  if (code == 0)
    call.release();
  return of(io).note("append to the log", code);
}

int guarded_io::set_term(raft_io* io, raft_term term) {
  return of(io).note("store the term", of(io).original_.set_term(io, term));
}

int guarded_io::set_vote(raft_io* io, raft_id server) {
  return of(io).note("store the vote", of(io).original_.set_vote(io, server));
}

int guarded_io::truncate(raft_io* io, raft_index index) {
  return of(io).note("truncate the log", of(io).original_.truncate(io, index));
}

} // namespace dynamix::replication
