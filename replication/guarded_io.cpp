#include "replication/guarded_io.hpp"

#include "replication/voter.hpp"

#include <algorithm>
#include <memory>

namespace dynamix::replication {
namespace {

/// What libraft asked for, on its way.
template <class Request, class Callback>
struct call {
  Request request{}; // first: a pointer to it is one to this
  Request* original = nullptr;
  Callback finished = nullptr;
  raft_io* io = nullptr;
};
using append_call = call<raft_io_append, raft_io_append_cb>;
using snapshot_put_call = call<raft_io_snapshot_put, raft_io_snapshot_put_cb>;
using snapshot_get_call = call<raft_io_snapshot_get, raft_io_snapshot_get_cb>;

template <class Call, class Request, class Callback>
std::unique_ptr<Call> make_call(raft_io* io, Request* original, Callback finished) {
  return std::unique_ptr<Call>(new Call{{}, original, finished, io});
}

/// Back from the disk.
template <class Call, class Request>
std::unique_ptr<Call> take_back(Request* request) {
  return std::unique_ptr<Call>(reinterpret_cast<Call*>(request));
}

/// What the receiver would have taken over.
void discard(raft_message& message) {
  if (kind_of(message) == message_kind::append_entries) {
    auto& content = message.append_entries;
    if (content.n_entries > 0)
      ::raft_free(content.entries[0].batch);
    ::raft_free(content.entries);
  } else if (kind_of(message) == message_kind::install_snapshot) {
    ::raft_configuration_close(&message.install_snapshot.conf);
    ::raft_free(message.install_snapshot.data.base);
  }
}

} // namespace

/// What made the input and output may know another address of it than libraft does.
guarded_io& guarded_io::of(raft_io* io) {
  return *reinterpret_cast<wrapped*>(static_cast<raft*>(io->data)->io)->self;
}

int guarded_io::init(uv_loop_t& loop, const std::string& directory, raft_uv_transport& transport) {
  auto& io = wrapped_.io;
  if (const auto code = ::raft_uv_init(&io, &loop, directory.c_str(), &transport); code != 0)
    return code;
  // A damaged log is not to be cut short behind our back: this voter would forget what it has acknowledged.
  ::raft_uv_set_auto_recovery(&io, false);
  never_retry_writes(io);
  on_wire_ = true;
  wrap();
  return 0;
}

void guarded_io::guard(raft& voter) {
  wrapped_.io = *voter.io;
  voter.io = &wrapped_.io;
  wrap();
}

void guarded_io::wrap() {
  auto& io = wrapped_.io;
  wrapped_.self = this;
  original_ = io;
  io.start = &guarded_io::start;
  io.send = &guarded_io::send;
  io.append = &guarded_io::append;
  io.set_term = &guarded_io::set_term;
  io.set_vote = &guarded_io::set_vote;
  io.truncate = &guarded_io::truncate;
  io.snapshot_put = &guarded_io::snapshot_put;
  io.snapshot_get = &guarded_io::snapshot_get;
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
  // libraft 0.22 crashes over a leader's snapshot that comes while it takes one of its own. The leader sends it again.
  const bool collides = self.stores_snapshot_ && kind_of(*message) == message_kind::install_snapshot;
  if (!self.fault_.empty() || collides || (self.on_probation() && !self.admit(*message)))
    return discard(*message);
  self.receive_(io, message);
}

/// Whether libraft may see it; tells the probation what it says.
bool guarded_io::admit(raft_message& message) {
  const auto from = message.server_id;
  switch (kind_of(message)) {
  case message_kind::append_entries: {
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
  case message_kind::install_snapshot: {
    const auto& snapshot = message.install_snapshot;
    probation_->heard(from, snapshot.term, false);
    if (!probation_->follows(snapshot.term))
      return false; // the leader's next heartbeat is answered
    probation_->sent(snapshot.last_index, snapshot.last_term);
    return true;
  }
  case message_kind::request_vote: {
    // A pre-vote asks about the term after the sender's.
    const auto& asked = message.request_vote;
    probation_->heard(from, asked.pre_vote ? asked.term - 1 : asked.term, asked.last_log_index <= 1);
    return true;
  }
  case message_kind::request_vote_result:
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
  set_kind(answer, message_kind::append_entries_result);
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
  set_kind(told, message_kind::request_vote_result);
  told.server_id = peer;
  told.server_address = name.c_str();
  told.request_vote_result.term = static_cast<const raft*>(wrapped_.io.data)->current_term;
  told.request_vote_result.vote_granted = false;
  told.request_vote_result.pre_vote = answers_pre_vote;
  for (int count = 0; count < messages; ++count) {
    auto request = std::make_unique<raft_io_send>();
    const auto sent = [](raft_io_send* done, int) { delete done; };
    if (original_.send(&wrapped_.io, request.get(), &told, sent) == 0)
      request.release();
  }
}

/// Whether it may leave; may change what it says.
bool guarded_io::release(raft_message& message) const {
  const auto& consensus = *static_cast<const raft*>(wrapped_.io.data);
  const auto& voters = consensus.configuration;
  // After a failure 0.22 goes on as if the disk had taken it. And when the disk has written what a leader sent that is
  // none any more, libraft answers it all the same, to nobody or, as a candidate, to what its votes look like as an
  // address, and would crash.
  if (!fault_.empty() || std::none_of(voters.servers, voters.servers + voters.n,
                                      [&](const auto& one) { return one.id == message.server_id; }))
    return false;
  const auto kind = kind_of(message);
  if (kind == message_kind::install_snapshot && loaded_term_ > 0)
    message.install_snapshot.last_term = loaded_term_;
  auto& judged = message.request_vote_result;
  if (kind == message_kind::request_vote_result && judged.pre_vote == answers_pre_vote &&
      (on_probation() || !judged.vote_granted)) {
    // libraft answers a pre-vote under the term that was asked about, which tells one on probation nothing.
    judged.vote_granted = false;
    judged.term = consensus.current_term;
    return true;
  }
  const bool asks = kind == message_kind::request_vote && message.request_vote.pre_vote;
  const bool acknowledges = kind == message_kind::append_entries_result && on_probation() &&
                            probation_->now() == probation::phase::catching_up;
  return !on_probation() || asks || acknowledges;
}

int guarded_io::send(raft_io* io, raft_io_send* request, const raft_message* message, raft_io_send_cb sent) {
  auto& self = of(io);
  auto told = *message;
  if (self.on_wire_)
    drop_version(told);
  // What does not leave is as if the network had lost it. An error instead would make libraft free some messages twice.
  if (!self.release(told) || self.original_.send(io, request, &told, sent) != 0)
    sent(request, RAFT_NOCONNECTION);
  return 0;
}

void guarded_io::begin_append() {
  if (open_appends_++ > 0)
    return;
  appended_ms_ = now_ms();
  wrapped_.io.errmsg[0] = '\0';
}

void guarded_io::end_append() {
  --open_appends_;
  appended_ms_ = now_ms();
}

const std::string& guarded_io::fault() {
  // 0.22 calls nobody when a write has failed; but it says why.
  if (is_libraft_022 && open_appends_ > 0 && wrapped_.io.errmsg[0] != '\0')
    note("append to the log", RAFT_IOERR);
  return fault_;
}

std::uint64_t guarded_io::stalled_ms() {
  const auto now = now_ms();
  return std::max(open_appends_ > 0 ? now - appended_ms_ : 0, stores_snapshot_ ? now - snapshot_ms_ : 0);
}

int guarded_io::append(raft_io* io, raft_io_append* request, const raft_entry entries[], unsigned count,
                       raft_io_append_cb appended) {
  auto& self = of(io);
  auto asked = make_call<append_call>(io, request, appended);
  const auto finished = [](raft_io_append* inner, int status) {
    const auto asked = take_back<append_call>(inner);
    of(asked->io).end_append();
    of(asked->io).note("append to the log", status);
    asked->finished(asked->original, status);
  };
  self.begin_append();
  int code = RAFT_IOERR;
  if (self.fault_.empty())
    code = self.note("append to the log", self.original_.append(io, &asked->request, entries, count, finished));
  if (code == 0) {
    asked.release();
    return 0;
  }
  self.end_append();
  if (!is_libraft_022)
    return code;
  appended(request, code); // it has freed the entries, and would again
  return 0;
}

int guarded_io::snapshot_put(raft_io* io, unsigned trailing, raft_io_snapshot_put* request,
                             const raft_snapshot* snapshot, raft_io_snapshot_put_cb stored) {
  auto& self = of(io);
  auto asked = make_call<snapshot_put_call>(io, request, stored);
  const auto finished = [](raft_io_snapshot_put* inner, int status) {
    const auto asked = take_back<snapshot_put_call>(inner);
    of(asked->io).stores_snapshot_ = false;
    asked->finished(asked->original, status);
  };
  const auto code = self.original_.snapshot_put(io, trailing, &asked->request, snapshot, finished);
  if (code != 0)
    return code;
  asked.release();
  self.stores_snapshot_ = true;
  self.snapshot_ms_ = self.now_ms();
  return 0;
}

int guarded_io::snapshot_get(raft_io* io, raft_io_snapshot_get* request, raft_io_snapshot_get_cb loaded) {
  auto asked = make_call<snapshot_get_call>(io, request, loaded);
  const auto finished = [](raft_io_snapshot_get* inner, raft_snapshot* snapshot, int status) {
    const auto asked = take_back<snapshot_get_call>(inner);
    // It is sent before this returns. 0.22 gives it the term of the one that was the newest when it was asked for.
    of(asked->io).loaded_term_ = status == 0 ? snapshot->term : 0;
    asked->finished(asked->original, snapshot, status);
    of(asked->io).loaded_term_ = 0;
  };
  const auto code = of(io).original_.snapshot_get(io, &asked->request, finished);
  if (code == 0)
    asked.release();
  return code;
}

int guarded_io::set_term(raft_io* io, raft_term term) {
  return of(io).note("store the term", of(io).original_.set_term(io, term));
}

int guarded_io::set_vote(raft_io* io, raft_id server) {
  return of(io).note("store the vote", of(io).original_.set_vote(io, server));
}

int guarded_io::truncate(raft_io* io, raft_index index) {
  const auto code = of(io).note("truncate the log", of(io).original_.truncate(io, index));
  return is_libraft_022 ? 0 : code; // it has freed the entries that come next, and would again
}

} // namespace dynamix::replication
