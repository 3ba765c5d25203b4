/// What a proven voter says: libraft's own reader of its messages, over its own transport.

#include "replication/frame_check.hpp"
#include "replication/libraft.hpp"
#include "tests/fuzz/described_file.hpp"
#include "tests/fuzz/targets.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace dynamix::fuzz {
namespace {

constexpr std::size_t memory_max = 16U << 20U; ///< that a reader gets for one message; the rest is none

/// Of zeros: libraft writes headers with bytes that it has not set.
void* get(void*, std::size_t size) {
  return size > memory_max ? nullptr : std::calloc(1, size);
}

/// One voter's input and output, which are never closed. Its connections are handed to it by hand.
class voter_io {
public:
  voter_io() {
    static raft_heap heap{.data = nullptr,
                          .malloc = get,
                          .free = [](void*, void* memory) { std::free(memory); },
                          .calloc = [](void*, std::size_t count, std::size_t size) -> void* {
                            return size != 0 && count > memory_max / size ? nullptr : std::calloc(count, size);
                          },
                          .realloc = [](void*, void* memory, std::size_t size) -> void* {
                            return size > memory_max ? nullptr : std::realloc(memory, size);
                          },
                          .aligned_alloc = [](void*, std::size_t alignment,
                                              std::size_t size) { return std::aligned_alloc(alignment, size); },
                          .aligned_free = [](void*, std::size_t, void* memory) { std::free(memory); }};
    ::raft_heap_set(&heap);
    std::string pattern = (std::filesystem::temp_directory_path() / "dynamix-XXXXXX").string();
    require(::mkdtemp(pattern.data()) != nullptr, "a directory for libraft");
    ::uv_loop_init(&loop_);
    replication::set_version(transport_);
    transport_.impl = this; // `data` is libraft's
    transport_.init = [](raft_uv_transport*, raft_id, const char*) { return 0; };
    transport_.listen = [](raft_uv_transport* self, raft_uv_accept_cb accepted) {
      static_cast<voter_io*>(self->impl)->accepted_ = accepted;
      return 0;
    };
    transport_.connect = [](raft_uv_transport* self, raft_uv_connect* request, raft_id, const char*,
                            raft_uv_connect_cb connected) {
      request->cb = connected;
      static_cast<voter_io*>(self->impl)->calls_.push_back(request);
      return 0;
    };
    transport_.close = [](raft_uv_transport*, raft_uv_transport_close_cb) {};
    require(::raft_uv_init(&io_, &loop_, pattern.c_str(), &transport_) == 0, "libraft's input and output");
    machine_.version = 1;
    // 0.22's input and output calls the voter that it belongs to, which is never started.
    require(::raft_init(&voter_, &io_, &machine_, 1, "1") == 0, "a voter");
    voter_.data = this;
    raft_term term = 0;
    raft_id vote = 0;
    raft_snapshot* snapshot = nullptr;
    raft_index first = 0;
    raft_entry* entries = nullptr;
    std::size_t count = 0;
    require(io_.load(&io_, &term, &vote, &snapshot, &first, &entries, &count) == 0, "an empty log");
    constexpr unsigned tick_ms = 60000;
    require(io_.start(
                &io_, tick_ms, [](raft_io*) {}, &voter_io::receive) == 0,
            "listening");
    std::filesystem::remove_all(pattern); // nothing is written to it
  }

  /// How many messages are read.
  std::size_t read(byte_span bytes) {
    std::array<int, 2> ends{};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0, "a connection");
    read_ = 0;
    accepted_(&transport_, 2, "2", open(ends[0]));
    std::size_t written = 0;
    char byte = 0;
    for (int turn = 0;; ++turn) { // until libraft has closed its end
      require(turn < 100'000, "a connection that has ended is closed");
      const auto count = ::send(ends[1], bytes.data() + written, bytes.size() - written, MSG_NOSIGNAL | MSG_DONTWAIT);
      written += count > 0 ? static_cast<std::size_t>(count) : 0;
      if (written == bytes.size())
        ::shutdown(ends[1], SHUT_WR);
      ::uv_run(&loop_, UV_RUN_NOWAIT);
      if (const auto got = ::recv(ends[1], &byte, 1, MSG_DONTWAIT); got == 0 || (got < 0 && errno != EAGAIN))
        break;
    }
    ::close(ends[1]);
    return read_;
  }

  /// How libraft writes it.
  std::string write(raft_message message) {
    message.server_id = ++peers_; // each has a connection of its own, after one message that says who we are
    const auto name = std::to_string(peers_);
    message.server_address = name.c_str();
    raft_io_send request{};
    require(io_.send(&io_, &request, &message, [](raft_io_send*, int) {}) == 0, "a message to send");
    require(!calls_.empty(), "a call"); // behind those of others that have ended
    std::array<int, 2> ends{};
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0, "a connection");
    auto* call = calls_.back();
    calls_.clear();
    call->cb(call, open(ends[0]), 0);
    ::uv_run(&loop_, UV_RUN_NOWAIT);
    std::string text(65536, '\0');
    const auto count = ::recv(ends[1], text.data(), text.size(), MSG_DONTWAIT);
    ::close(ends[1]);
    text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
    return text;
  }

private:
  uv_stream_t* open(int number) {
    auto* pipe = static_cast<uv_pipe_t*>(::raft_malloc(sizeof(uv_pipe_t)));
    ::uv_pipe_init(&loop_, pipe, 0);
    require(::uv_pipe_open(pipe, number) == 0, "a stream");
    return reinterpret_cast<uv_stream_t*>(pipe);
  }

  /// Reads all that libraft would, and frees what it would take over.
  static void receive(raft_io* io, raft_message* message) {
    ++static_cast<voter_io*>(static_cast<raft*>(io->data)->data)->read_;
    require(message->server_id == 2, "of whom it is");
    std::size_t sum = 0;
    const auto look_at = [&](const raft_buffer& data) {
      for (std::size_t at = 0; at < data.len; ++at)
        sum += static_cast<const unsigned char*>(data.base)[at];
    };
    if (replication::kind_of(*message) == replication::message_kind::append_entries) {
      auto& content = message->append_entries;
      for (unsigned at = 0; at < content.n_entries; ++at)
        look_at(content.entries[at].buf);
      if (content.n_entries > 0)
        ::raft_free(content.entries[0].batch);
      ::raft_free(content.entries);
    } else if (replication::kind_of(*message) == replication::message_kind::install_snapshot) {
      auto& content = message->install_snapshot;
      for (unsigned at = 0; at < content.conf.n; ++at)
        sum += std::string(content.conf.servers[at].address).size();
      look_at(content.data);
      ::raft_configuration_close(&content.conf);
      ::raft_free(content.data.base);
    } else {
      require(replication::kind_of(*message) == replication::message_kind::request_vote ||
                  replication::kind_of(*message) == replication::message_kind::request_vote_result ||
                  replication::kind_of(*message) == replication::message_kind::append_entries_result ||
                  replication::kind_of(*message) == replication::message_kind::timeout_now,
              "a message that there is");
    }
    [[maybe_unused]] static volatile std::size_t seen = 0;
    seen = sum;
  }

  uv_loop_t loop_{};
  raft_uv_transport transport_{};
  raft_io io_{};
  raft_fsm machine_{};
  raft voter_{};
  raft_uv_accept_cb accepted_ = nullptr;
  std::vector<raft_uv_connect*> calls_;
  std::size_t read_ = 0;
  raft_id peers_ = 100;
};

voter_io& voter() {
  static auto* one = new voter_io; // its loop is never closed
  return *one;
}

} // namespace

/// As over a link: what the check lets pass.
std::size_t read_raft(byte_span bytes) {
  replication::frame_check check;
  std::size_t passed = 0;
  for (; passed < bytes.size(); ++passed) {
    const auto byte = static_cast<char>(bytes[passed]);
    if (!check.feed({&byte, 1}).empty())
      break;
  }
  return voter().read(bytes.first(passed));
}

#ifdef RAFT_VERSION_NUMBER
constexpr auto* append_result = "append-result-features"; ///< libraft 0.22's has a field more
#else
constexpr auto* append_result = "append-result";
#endif

target raft_target() {
  return {"raft", [](byte_span bytes) { read_raft(bytes); }};
}

std::map<std::string, kept_example> raft_examples() {
  raft_message vote{};
  replication::set_kind(vote, replication::message_kind::request_vote);
  vote.request_vote.term = 3;
  vote.request_vote.candidate_id = 2;
  vote.request_vote.last_log_index = 7;
  vote.request_vote.last_log_term = 2;
  vote.request_vote.pre_vote = true;
  raft_message result{};
  replication::set_kind(result, replication::message_kind::request_vote_result);
  result.request_vote_result.term = 3;
  result.request_vote_result.vote_granted = true;
  raft_message acknowledged{};
  replication::set_kind(acknowledged, replication::message_kind::append_entries_result);
  acknowledged.append_entries_result.term = 3;
  acknowledged.append_entries_result.last_log_index = 8;
  std::array<char, 16> words = {'t', 'w', 'o', ' ', 'w', 'o', 'r', 'd', 's'};
  std::array<raft_entry, 2> entries{};
  for (auto& entry : entries)
    entry = {.term = 3, .type = RAFT_COMMAND, .buf = {.base = words.data(), .len = words.size()}, .batch = nullptr};
  raft_message append{};
  replication::set_kind(append, replication::message_kind::append_entries);
  append.append_entries = {.term = 3,
                           .prev_log_index = 7,
                           .prev_log_term = 2,
                           .leader_commit = 7,
                           .entries = entries.data(),
                           .n_entries = entries.size()};
  raft_message install{};
  replication::set_kind(install, replication::message_kind::install_snapshot);
  auto& snapshot = install.install_snapshot;
  snapshot = {
      .term = 3, .last_index = 7, .last_term = 2, .conf = {}, .conf_index = 1, .data = {words.data(), words.size()}};
  ::raft_configuration_init(&snapshot.conf);
  for (const auto* name : {"1", "2", "3"})
    require(::raft_configuration_add(&snapshot.conf, static_cast<raft_id>(name[0] - '0'), name, RAFT_VOTER) == 0,
            "a configuration");
  return {{"vote", {voter().write(vote), 1}},
          {"vote-result", {voter().write(result), 1}},
          {"append", {voter().write(append), 1}},
          {append_result, {voter().write(acknowledged), 1}},
          {"snapshot", {voter().write(install), 1}}};
}

} // namespace dynamix::fuzz
