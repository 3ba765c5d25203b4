#include "exchange/meeting.hpp"

#include "exchange/group.hpp"
#include "exchange/interruption.hpp"
#include "exchange/peer_links.hpp"
#include "links/sockets.hpp"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <mutex>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/random.h>
#include <sys/socket.h>
#include <thread>
#include <utility>

namespace dynamix::exchange {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using bytes = std::vector<std::uint8_t>;

/// So that within five seconds people can read who does not reach whom.
constexpr milliseconds call_time{4000};
/// For what a stranger may leave out: who it is.
constexpr milliseconds introduction_time{2000};
constexpr std::size_t introductions_max = 256;
constexpr std::size_t clear_announcement_bytes_max = 512;

/// A little longer each time, so that a store on another host is not flooded.
class back_off {
public:
  double next_seconds() { return seconds_ = std::min(2 * seconds_, 0.1); }

private:
  double seconds_ = 0.001;
};

/// What only those know who read it in the store.
using token = std::array<std::uint8_t, 16>;

/// The first bytes of a connection in the clear, sent by the member that has connected.
struct introduction {
  token expected{}; ///< of the member that is called
  std::uint32_t position = 0;
};

/// Where a member without links is reached.
struct announcement {
  std::uint16_t port = 0;
  token expected{};
  std::string address;

  bytes encode() const {
    bytes out(sizeof port + expected.size() + address.size());
    out[0] = static_cast<std::uint8_t>(port >> 8);
    out[1] = static_cast<std::uint8_t>(port & 0xff);
    std::ranges::copy(address, std::ranges::copy(expected, out.begin() + sizeof port).out);
    return out;
  }
  static std::optional<announcement> decode(const bytes& in) {
    announcement made;
    const auto fixed = sizeof made.port + made.expected.size();
    if (in.size() <= fixed || in.size() > clear_announcement_bytes_max)
      return std::nullopt;
    made.port = static_cast<std::uint16_t>(in[0] << 8 | in[1]);
    std::copy_n(in.begin() + sizeof made.port, made.expected.size(), made.expected.begin());
    made.address.assign(in.begin() + static_cast<std::ptrdiff_t>(fixed), in.end());
    return made;
  }
};

/// Announces this worker and waits for the others, so that a time-out can name who is missing. All announcements, by
/// position.
std::vector<bytes> await_members(const place& own, store& rendezvous, const bytes& announced,
                                 const interruption& stop) {
  std::vector<std::string> keys;
  for (const auto rank : own.members)
    keys.push_back(fmt::format("{}/present/{}", own.store_prefix, rank));
  rendezvous.set(keys[own.position_of(own.rank)], announced);
  const auto deadline = steady_clock::now() + milliseconds(own.join_timeout_ms);
  back_off poll;
  while (!rendezvous.check(keys)) {
    if (steady_clock::now() > deadline) {
      std::vector<std::uint32_t> missing;
      for (std::size_t i = 0; i < keys.size(); ++i)
        if (!rendezvous.check({keys[i]}))
          missing.push_back(own.members[i]);
      if (missing.empty())
        break;
      throw error(fmt::format("after {} ms the workers of these ranks have not come: {}", own.join_timeout_ms,
                              fmt::join(missing, ", ")));
    }
    if (stop.wait_for(poll.next_seconds()))
      throw error(stop.reason());
  }
  std::vector<bytes> all;
  for (const auto& key : keys) {
    auto value = rendezvous.get(key);
    if (!value)
      throw error(fmt::format("the key {} has gone from the store", key));
    all.push_back(std::move(*value));
  }
  return all;
}

// --- in the clear ----------------------------------------------------------------------------------------------------

/// Who has connected and not said yet who it is.
struct newcomer {
  links::descriptor socket;
  steady_clock::time_point deadline;
  std::array<char, sizeof(introduction)> said{};
  std::size_t size = 0;
};

/// A listener that takes the members of higher positions.
class clear_meeting {
public:
  explicit clear_meeting(const place& own) : own_(own), position_(own.position_of(own.rank)) {
    std::string problem;
    announced_.address = own.address;
    listener_ = links::listen_tcp(own.address, 0, announced_.port, problem);
    if (!listener_)
      throw error(fmt::format("cannot listen at {} for the other workers: {}", own.address, problem));
    if (::getrandom(announced_.expected.data(), announced_.expected.size(), 0) !=
        static_cast<ssize_t>(announced_.expected.size()))
      throw error("the system has no random numbers");
  }

  bytes announced() const { return announced_.encode(); }

  std::vector<links::descriptor> connect(const std::vector<bytes>& all, const interruption& stop) {
    std::vector<links::descriptor> made(own_.members.size());
    for (std::uint32_t i = 0; i < position_; ++i)
      made[i] = call(i, all[i]);
    const auto deadline = steady_clock::now() + milliseconds(own_.join_timeout_ms);
    for (auto missing = own_.members.size() - 1 - position_; missing > 0;) {
      throw_if_raised(stop);
      if (steady_clock::now() > deadline)
        throw error(fmt::format("after {} ms {} of the workers that had come have not connected", own_.join_timeout_ms,
                                missing));
      await_input();
      accept_all();
      missing -= hear(made);
    }
    for (const auto& each : made)
      if (each) {
        links::prepare_tcp(each.get()); // messages are small, too, and wait for answers
        if (own_.silent_peer_ms > 0)
          links::end_silent(each.get(), own_.silent_peer_ms);
      }
    return made;
  }

private:
  links::descriptor call(std::uint32_t position, const bytes& said) {
    const auto where = announcement::decode(said);
    if (!where)
      throw error(fmt::format("rank {} has announced no address: it may have keys", own_.members[position]));
    std::string problem;
    auto made = links::connect_tcp(where->address, where->port, call_time, problem);
    const introduction self{.expected = where->expected, .position = position_};
    if (made && ::send(made.get(), &self, sizeof self, MSG_NOSIGNAL) != sizeof self)
      problem = "it closed the connection";
    if (!problem.empty())
      throw error(fmt::format("rank {} at {}:{} is not reached: {}", own_.members[position], where->address,
                              where->port, problem));
    return made;
  }

  void await_input() {
    const int listener = std::exchange(accepts_, true) ? listener_.get() : -1;
    std::vector<pollfd> waiting = {{.fd = listener, .events = POLLIN, .revents = 0}};
    for (const auto& each : newcomers_)
      waiting.push_back({.fd = each.socket.get(), .events = POLLIN, .revents = 0});
    ::poll(waiting.data(), waiting.size(), 20); // an interruption has no descriptor
  }

  void accept_all() {
    for (;;) {
      links::descriptor accepted(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!accepted) {
        accepts_ = errno == EAGAIN;
        return;
      }
      if (newcomers_.size() < introductions_max)
        newcomers_.push_back({.socket = std::move(accepted), .deadline = steady_clock::now() + introduction_time});
    }
  }

  /// Reads what newcomers say. Those who do not know the token, or say nothing, are strangers. The number of members
  /// that have come.
  std::size_t hear(std::vector<links::descriptor>& made) {
    std::size_t came = 0;
    std::erase_if(newcomers_, [&](newcomer& each) {
      const auto got = ::recv(each.socket.get(), each.said.data() + each.size, each.said.size() - each.size, 0);
      if (got == 0)
        return true;
      each.size += static_cast<std::size_t>(std::max<ssize_t>(0, got));
      if (each.size < each.said.size())
        return steady_clock::now() > each.deadline;
      introduction said;
      std::memcpy(&said, each.said.data(), sizeof said);
      if (said.expected == announced_.expected && said.position > position_ && said.position < made.size() &&
          !made[said.position]) {
        made[said.position] = std::move(each.socket);
        ++came;
      }
      return true;
    });
    return came;
  }

  const place own_;
  const std::uint32_t position_;
  links::descriptor listener_;
  announcement announced_;
  std::vector<newcomer> newcomers_;
  bool accepts_ = true; ///< not where there was no descriptor left, for one look
};

// -----------------------------------------------------------------------------------------------------------------

/// Over links each end is one of a pair within this process, of which the link carries the other.
std::vector<links::descriptor> connect_over_links(const place& own, const std::vector<bytes>& all) {
  peer_links::announcements announced;
  for (std::size_t i = 0; i < all.size(); ++i)
    announced[own.members[i]] = all[i];
  std::string problem;
  auto made = own.links->connect(own, announced, problem);
  if (!problem.empty())
    throw error(problem);
  return made;
}

/// What the thread that connects hands over. It is left behind where the interruption is raised: a host that does not
/// answer may hold it up for some seconds.
struct connecting {
  std::mutex mutex;
  std::vector<links::descriptor> made;
  std::exception_ptr problem;
};

} // namespace

std::vector<links::descriptor> meet(const place& own, store& rendezvous, const interruption& stop) {
  std::optional<clear_meeting> in_the_clear;
  if (!own.links)
    in_the_clear.emplace(own);
  const auto all =
      await_members(own, rendezvous, in_the_clear ? in_the_clear->announced() : own.links->announcement(), stop);
  if (in_the_clear)
    return in_the_clear->connect(all, stop);
  auto shared = std::make_shared<connecting>();
  auto connected = stop.make_event();
  std::thread([shared, connected, own, all] {
    try {
      auto made = connect_over_links(own, all);
      const std::lock_guard lock(shared->mutex);
      shared->made = std::move(made);
    } catch (...) {
      const std::lock_guard lock(shared->mutex);
      shared->problem = std::current_exception();
    }
    connected->complete();
  }).detach();
  if (!stop.wait(*connected))
    throw error(stop.reason());
  const std::lock_guard lock(shared->mutex);
  if (shared->problem)
    std::rethrow_exception(shared->problem);
  return std::move(shared->made);
}

} // namespace dynamix::exchange
