#include "exchange/mesh.hpp"

#include "exchange/group.hpp"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

namespace dynamix::exchange {
namespace {

using std::chrono::steady_clock;

struct header {
  enum kind : std::uint64_t { ready = 0x7964616572, data = 0x61746164 }; ///< the words themselves
  std::uint64_t what = ready;
  std::uint64_t lane = 0;
  std::uint64_t bytes = 0;
};

/// Rows of messages that a peer may wait for before they are sent. A bucket is two rows at most through servers and in a
/// gather, and eight in a ring, so this is of 512 buckets at least.
constexpr std::size_t awaited_rows_max = 1 << 12;
/// Headers are small and come many at a time.
constexpr std::size_t input_bytes = 4 << 10;
/// Read from one peer before the next has its turn.
constexpr std::size_t turn_bytes = 1 << 20;
/// Frames of one call of the kernel: two pieces each.
constexpr std::size_t frames_a_call = 16;
constexpr std::chrono::milliseconds flush_time{2000};
/// For peers to close their ends first, so that what travels is not cut off by a reset.
constexpr std::chrono::milliseconds linger_time{500};
constexpr int linger_poll_ms = 10;

struct outgoing {
  header begin;
  std::span<const std::byte> bytes; ///< none of `ready`
  mesh::completion done;
  std::size_t sent = 0; ///< of header and bytes

  std::size_t size() const { return sizeof begin + bytes.size(); }
};

struct incoming {
  std::span<std::byte> bytes;
  mesh::completion done;
};

/// Messages of one length that are waited for one after the other.
struct awaited_row {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
};

/// Messages to one peer in one lane. The peer says how many lanes there are, so lists, which are small while empty.
struct lane_out {
  std::list<outgoing> messages;   ///< that nobody waits for yet
  std::list<awaited_row> awaited; ///< that were not sent yet
};

struct peer {
  int socket = -1;
  std::uint32_t position = 0;
  std::uint32_t rank = 0;
  std::optional<std::string> ended;

  std::deque<outgoing> out;
  bool wants_output = false; ///< of the kernel
  std::map<std::uint64_t, lane_out> lanes_out;
  std::size_t awaited_rows = 0; ///< in all lanes

  std::map<std::uint64_t, std::deque<incoming>> lanes_in;
  std::array<std::byte, input_bytes> input;
  std::size_t input_size = 0;
  std::optional<incoming> arriving;
  std::size_t arrived = 0; ///< bytes of it
};

class socket_mesh final : public mesh, public std::enable_shared_from_this<socket_mesh> {
public:
  socket_mesh(std::vector<int> sockets, std::vector<std::uint32_t> ranks, std::uint32_t own)
      : own_(own), peers_(sockets.size()), epoll_(::epoll_create1(EPOLL_CLOEXEC)),
        bell_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    watch(bell_, EPOLL_CTL_ADD, EPOLLIN, own);
    for (std::uint32_t i = 0; i < sockets.size(); ++i) {
      peers_[i].socket = sockets[i];
      peers_[i].position = i;
      peers_[i].rank = ranks[i];
      if (i == own)
        continue;
      ::fcntl(sockets[i], F_SETFL, ::fcntl(sockets[i], F_GETFL) | O_NONBLOCK);
      watch(sockets[i], EPOLL_CTL_ADD, EPOLLIN, i);
    }
  }
  ~socket_mesh() override {
    for (const auto& each : peers_)
      if (each.position != own_)
        ::close(each.socket);
    ::close(epoll_);
    ::close(bell_);
  }

  /// Throws where there is no descriptor left.
  void begin() {
    if (epoll_ < 0 || bell_ < 0)
      throw error("there is no descriptor left for the connections to the other workers");
    std::thread([self = shared_from_this()] { self->loop(); }).detach();
  }

  std::uint32_t position() const override { return own_; }
  std::uint32_t size() const override { return static_cast<std::uint32_t>(peers_.size()); }

  void run(std::function<void()> action) override {
    {
      const std::lock_guard lock(mutex_);
      if (!over_) {
        actions_.push_back(std::move(action));
        return ring();
      }
    }
    action();
  }

  void break_up(const std::string& problem) override {
    const std::lock_guard lock(mutex_);
    if (problem_.empty())
      problem_ = problem;
    ring();
  }

  void finish() override {
    std::unique_lock lock(mutex_);
    finishing_ = true;
    ring();
    flushed_.wait_for(lock, flush_time, [this] { return all_sent_; });
  }

  void send(std::uint32_t to, std::uint64_t lane, std::span<const std::byte> bytes, completion done) override {
    auto& other = peers_.at(to);
    if (other.ended)
      return done(*other.ended);
    other.lanes_out[lane].messages.push_back({{header::data, lane, bytes.size()}, bytes, std::move(done)});
    if (const auto problem = match(other, lane); !problem.empty())
      return end(other, problem);
    flush(other);
  }

  void receive(std::uint32_t from, std::uint64_t lane, std::span<std::byte> bytes, completion done) override {
    auto& other = peers_.at(from);
    if (other.ended)
      return done(*other.ended);
    other.lanes_in[lane].push_back({bytes, std::move(done)});
    other.out.push_back({{header::ready, lane, bytes.size()}, {}, {}});
    flush(other);
  }

private:
  void loop() {
    std::array<epoll_event, 64> events{};
    while (go_on()) {
      const int count = ::epoll_wait(epoll_, events.data(), static_cast<int>(events.size()),
                                     leaving_since_ ? linger_poll_ms : -1);
      for (int i = 0; i < count; ++i)
        serve(events[static_cast<std::size_t>(i)]);
    }
    for (auto& each : peers_)
      end(each, problem());
    // What was asked for too late fails at once.
    for (auto actions = take_actions(true); !actions.empty(); actions = take_actions(true))
      for (const auto& action : actions)
        action();
  }

  std::string problem() {
    const std::lock_guard lock(mutex_);
    return problem_.empty() ? "the group was left" : problem_;
  }

  /// With `last`, nothing is put off from now on once there is nothing to take.
  std::vector<std::function<void()>> take_actions(bool last) {
    const std::lock_guard lock(mutex_);
    over_ = last && actions_.empty();
    if (last) {
      all_sent_ = true;
      flushed_.notify_all();
    }
    return std::exchange(actions_, {});
  }

  /// Runs what was asked for. False once the mesh ends.
  bool go_on() {
    for (const auto& action : take_actions(false))
      action();
    bool leaves = false;
    {
      const std::lock_guard lock(mutex_);
      if (!problem_.empty())
        return false;
      leaves = finishing_;
    }
    return !leaves || linger();
  }

  /// The end of an orderly leave: all that is under way is sent, then the peers close or the time for it is over.
  bool linger() {
    const auto now = steady_clock::now();
    if (!leaving_since_)
      leaving_since_ = now;
    const auto is_open = [this](const peer& each) { return each.position != own_ && !each.ended; };
    if (!sent_since_ && now - *leaving_since_ < flush_time &&
        std::ranges::any_of(peers_, [&](const peer& each) { return is_open(each) && !each.out.empty(); }))
      return true;
    if (!sent_since_) {
      sent_since_ = now;
      for (const auto& each : peers_)
        if (is_open(each))
          ::shutdown(each.socket, SHUT_WR);
      const std::lock_guard lock(mutex_);
      all_sent_ = true;
      flushed_.notify_all();
    }
    return now - *sent_since_ < linger_time && std::ranges::any_of(peers_, is_open);
  }

  void serve(const epoll_event& event) {
    if (event.data.u64 == own_) {
      std::uint64_t rung = 0;
      [[maybe_unused]] const auto got = ::read(bell_, &rung, sizeof rung);
      return;
    }
    auto& other = peers_[event.data.u64];
    if ((event.events & EPOLLOUT) != 0)
      flush(other);
    if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0)
      read(other);
  }

  void read(peer& other) {
    for (std::size_t taken = 0; taken < turn_bytes && !other.ended;) {
      // A message that is under way first; what comes behind it is input. A part of a header may be there already.
      const std::size_t of_message = other.arriving ? other.arriving->bytes.size() - other.arrived : 0;
      const std::array<iovec, 2> into = {
          iovec{of_message > 0 ? other.arriving->bytes.data() + other.arrived : nullptr, of_message},
          iovec{other.input.data() + other.input_size, other.input.size() - other.input_size}};
      const auto got = ::readv(other.socket, into.data(), static_cast<int>(into.size()));
      if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
      if (got <= 0)
        return end(other, got == 0 ? fmt::format("rank {} has closed its connection", other.rank)
                                   : fmt::format("the connection to rank {} broke: {}", other.rank,
                                                 std::strerror(errno)));
      taken += static_cast<std::size_t>(got);
      const auto placed = std::min(static_cast<std::size_t>(got), of_message);
      other.arrived += placed;
      other.input_size += static_cast<std::size_t>(got) - placed;
      take_input(other);
    }
  }

  /// Goes through the input, from frame to frame.
  void take_input(peer& other) {
    std::size_t at = 0;
    while (!other.ended) {
      if (other.arriving) {
        const auto more = std::min(other.input_size - at, other.arriving->bytes.size() - other.arrived);
        std::copy_n(other.input.data() + at, more, other.arriving->bytes.data() + other.arrived);
        other.arrived += more;
        at += more;
        if (other.arrived < other.arriving->bytes.size())
          break;
        std::exchange(other.arriving, std::nullopt)->done({});
      } else {
        header begin;
        if (other.input_size - at < sizeof begin)
          break;
        std::memcpy(&begin, other.input.data() + at, sizeof begin);
        at += sizeof begin;
        if (const auto problem = begin_frame(other, begin); !problem.empty())
          return end(other, problem);
      }
    }
    std::memmove(other.input.data(), other.input.data() + at, other.input_size - at);
    other.input_size -= at;
  }

  /// Returns what is wrong with it.
  std::string begin_frame(peer& other, const header& begin) {
    if (begin.what == header::ready) {
      auto& awaited = other.lanes_out[begin.lane].awaited;
      if (awaited.empty() || awaited.back().bytes != begin.bytes) {
        awaited.push_back({.bytes = begin.bytes});
        ++other.awaited_rows;
      }
      ++awaited.back().count;
      if (begin.bytes == 0 || other.awaited_rows > awaited_rows_max)
        return fmt::format("rank {} waits for more than a member can send", other.rank);
      auto problem = match(other, begin.lane);
      flush(other);
      return problem;
    }
    const auto lane = other.lanes_in.find(begin.lane);
    if (begin.what != header::data || lane == other.lanes_in.end() || lane->second.front().bytes.size() != begin.bytes)
      return fmt::format("rank {} has sent what nobody waits for", other.rank);
    other.arriving = std::move(lane->second.front());
    other.arrived = 0;
    lane->second.pop_front();
    if (lane->second.empty())
      other.lanes_in.erase(lane);
    return {};
  }

  /// Moves the messages that are waited for to the stream. Returns why they cannot be sent.
  std::string match(peer& other, std::uint64_t lane) {
    const auto found = other.lanes_out.find(lane);
    auto& [messages, awaited] = found->second;
    while (!messages.empty() && !awaited.empty()) {
      auto& row = awaited.front();
      if (messages.front().bytes.size() != row.bytes)
        return fmt::format("rank {} waits for {} bytes where {} are sent: members do not exchange the same", other.rank,
                           row.bytes, messages.front().bytes.size());
      other.out.push_back(std::move(messages.front()));
      messages.pop_front();
      if (--row.count == 0) {
        awaited.pop_front();
        --other.awaited_rows;
      }
    }
    if (messages.empty() && awaited.empty())
      other.lanes_out.erase(found);
    return {};
  }

  /// Writes as much as the stream takes. An error is left to the next read, which finds the stream ended.
  void flush(peer& other) {
    std::vector<completion> sent;
    while (!other.out.empty() && write_some(other, sent)) {
    }
    if (const bool wants = !other.out.empty(); wants != other.wants_output && !other.ended) {
      other.wants_output = wants;
      watch(other.socket, EPOLL_CTL_MOD, wants ? EPOLLIN | EPOLLOUT : EPOLLIN, other.position);
    }
    for (const auto& done : sent)
      done({});
  }

  /// False once the stream takes no more.
  static bool write_some(peer& other, std::vector<completion>& sent) {
    std::array<iovec, 2 * frames_a_call> pieces;
    std::size_t count = 0;
    for (std::size_t i = 0; i < std::min(frames_a_call, other.out.size()); ++i) {
      auto& each = other.out[i];
      const auto of_header = std::min(each.sent, sizeof(header));
      if (of_header < sizeof(header))
        pieces[count++] = {reinterpret_cast<std::byte*>(&each.begin) + of_header, sizeof(header) - of_header};
      if (const auto of_bytes = each.sent - of_header; of_bytes < each.bytes.size())
        pieces[count++] = {const_cast<std::byte*>(each.bytes.data()) + of_bytes, each.bytes.size() - of_bytes};
    }
    const msghdr message{.msg_iov = pieces.data(), .msg_iovlen = count};
    const auto taken = ::sendmsg(other.socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (taken < 0 && errno != EAGAIN && errno != EINTR)
      ::shutdown(other.socket, SHUT_RDWR);
    for (auto left = static_cast<std::size_t>(std::max<ssize_t>(0, taken)); left > 0;) {
      auto& front = other.out.front();
      const auto step = std::min(left, front.size() - front.sent);
      front.sent += step;
      left -= step;
      if (front.sent < front.size())
        break;
      if (front.done)
        sent.push_back(std::move(front.done));
      other.out.pop_front();
    }
    return taken > 0;
  }

  /// Ends one peer's stream, and fails all that waits for it.
  void end(peer& other, const std::string& problem) {
    if (other.ended || other.position == own_)
      return;
    other.ended = problem;
    ::epoll_ctl(epoll_, EPOLL_CTL_DEL, other.socket, nullptr);
    ::shutdown(other.socket, SHUT_RDWR);
    std::vector<completion> failed;
    if (other.arriving)
      failed.push_back(std::move(other.arriving->done));
    for (auto& [lane, waiting] : other.lanes_in)
      for (auto& each : waiting)
        failed.push_back(std::move(each.done));
    for (auto& each : other.out)
      if (each.done)
        failed.push_back(std::move(each.done));
    for (auto& [lane, waiting] : other.lanes_out)
      for (auto& each : waiting.messages)
        failed.push_back(std::move(each.done));
    other.arriving.reset();
    other.lanes_in.clear();
    other.out.clear();
    other.lanes_out.clear();
    for (const auto& done : failed)
      done(problem);
  }

  void watch(int socket, int how, std::uint32_t events, std::uint32_t at) const {
    epoll_event event{.events = events, .data = {.u64 = at}};
    ::epoll_ctl(epoll_, how, socket, &event);
  }

  void ring() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(bell_, &one, sizeof one);
  }

  // Of the mesh's thread.
  const std::uint32_t own_;
  std::vector<peer> peers_;
  const int epoll_;
  const int bell_;
  std::optional<steady_clock::time_point> leaving_since_;
  std::optional<steady_clock::time_point> sent_since_;

  std::mutex mutex_; // guards what follows
  std::condition_variable flushed_;
  std::vector<std::function<void()>> actions_;
  std::string problem_; ///< that breaks the mesh
  bool finishing_ = false;
  bool all_sent_ = false;
  bool over_ = false; ///< the thread runs no more actions
};

} // namespace

std::shared_ptr<mesh> mesh::start(std::vector<int> sockets, std::vector<std::uint32_t> ranks, std::uint32_t own) {
  auto made = std::make_shared<socket_mesh>(std::move(sockets), std::move(ranks), own);
  made->begin();
  return made;
}

} // namespace dynamix::exchange
