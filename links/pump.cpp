#include "links/pump.hpp"

#include "links/pump_entries.hpp"
#include "links/refusals.hpp"
#include "links/sockets.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/core.h>
#include <map>
#include <mutex>
#include <optional>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace dynamix::links {
namespace {

using time_point = std::chrono::steady_clock::time_point;
using std::chrono::milliseconds;

constexpr milliseconds look_interval{50};     ///< at deadlines, while there are any
constexpr milliseconds accept_pause{100};     ///< of a process that has no descriptor left
constexpr milliseconds carriage_wait{20'000}; ///< of either end, for the other
constexpr milliseconds departure_time{2000};  ///< for what local users have written, at the pump's end
constexpr const char* host_ends = "this host ends";
constexpr int events_max = 64;
constexpr int accepts_max = 64; ///< in a row

/// As `take_link` reads it: the descriptor, then the name.
bool send_link(int queue, int plain, const std::string& host) {
  std::string text(sizeof plain, '\0');
  std::memcpy(text.data(), &plain, sizeof plain);
  text += host;
  return ::send(queue, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

} // namespace

class pump::loop {
public:
  loop(pump_options options, tls_identity identity)
      : options_(std::move(options)), identity_(std::move(identity)), lines_(options_.report),
        epoll_(::epoll_create1(EPOLL_CLOEXEC)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    wake_watched_.want(epoll_.get(), wake_.get(), EPOLLIN, tag(0, source::wake));
    thread_ = std::thread([this] { run(); });
  }

  ~loop() { end(); }

  void end() {
    const std::scoped_lock lock(ending_);
    if (!thread_.joinable())
      return;
    post([this] { depart(); });
    thread_.join();
  }

  std::string listen(const std::string& address, std::uint16_t port, listening& made) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) != 0)
      return "there is no descriptor left";
    descriptor theirs(ends[1]);
    std::string problem = host_ends;
    ask([&] {
      problem.clear();
      stop(port);
      listener added{.socket = {}, .queue = descriptor(ends[0]), .accepting = {}, .hand_over = {}};
      added.socket = listen_tcp(address, port, added.port, problem);
      if (!added.socket)
        return;
      made = {.port = added.port, .queue = theirs.release()};
      const auto id = next_id_++;
      auto& kept = listeners_.emplace(id, std::move(added)).first->second;
      kept.accepting.want(epoll_.get(), kept.socket.get(), EPOLLIN, tag(id, source::listener));
      kept.hand_over.want(epoll_.get(), kept.queue.get(), EPOLLRDHUP, tag(id, source::queue));
    });
    return problem;
  }

  std::string listen_for_carriages(const std::string& address, std::uint16_t port, std::uint16_t& bound) {
    std::string problem = host_ends;
    ask([&] {
      problem.clear();
      listener added{.socket = {}, .queue = {}, .accepting = {}, .hand_over = {}, .carriages = true};
      added.socket = listen_tcp(address, port, bound, problem);
      if (!added.socket)
        return;
      added.port = bound;
      const auto id = next_id_++;
      auto& kept = listeners_.emplace(id, std::move(added)).first->second;
      kept.accepting.want(epoll_.get(), kept.socket.get(), EPOLLIN, tag(id, source::listener));
    });
    return problem;
  }

  void stop_listening(std::uint16_t port) {
    ask([&] { stop(port); });
  }

  std::string carry_to(const carriage& wanted, const std::string& address, std::uint16_t port, milliseconds timeout,
                       int plain) {
    auto local = std::make_shared<descriptor>(plain);
    std::string problem;
    auto socket = std::make_shared<descriptor>(connect_tcp(address, port, timeout, problem));
    if (!*socket)
      return problem;
    const bool posted = post([this, local, socket, wanted, place = fmt::format("{}:{}", address, port)] {
      prepare_tcp(socket->get());
      mark_bulk(socket->get());
      refresh_identity();
      auto link =
          std::make_unique<connection>(std::move(*socket), place, wanted.host, now() + options_.handshake_timeout);
      link->introduce(wanted.purpose, continues());
      add({.link = std::move(link), .adopted = std::move(*local), .introduces = true});
    });
    return posted ? "" : host_ends;
  }

  void carry_from(const carriage& wanted, int plain) {
    auto local = std::make_shared<descriptor>(plain);
    post([this, local, wanted] {
      auto& half = halves_[{wanted.host, wanted.purpose}];
      half.plain = std::move(*local);
      half.until = now() + carriage_wait;
      if (half.link != 0)
        join(half.link);
    });
  }

  call_result connect(const std::string& host, const std::string& address, std::uint16_t port, milliseconds timeout) {
    call_result result;
    auto socket = connect_tcp(address, port, timeout, result.problem);
    if (!socket)
      return result;
    auto opened = std::make_shared<std::promise<call_result>>();
    auto told = opened->get_future();
    auto handed = std::make_shared<descriptor>(std::move(socket));
    const bool posted = post([this, handed, opened, host, place = fmt::format("{}:{}", address, port)] {
      prepare_tcp(handed->get());
      entry calling{
          .link = std::make_unique<connection>(std::move(*handed), place, host, now() + options_.handshake_timeout),
          .opened = std::move(*opened)};
      refresh_identity();
      add(std::move(calling));
    });
    return posted ? told.get() : call_result{.plain = -1, .problem = host_ends};
  }

  int adopt(int socket, const std::string& expected) {
    auto [ours, theirs] = make_plain_pair();
    auto taken = std::make_shared<descriptor>(socket);
    if (!ours)
      return -1;
    auto end = std::make_shared<descriptor>(std::move(ours));
    // Where the thread has ended, both are closed with this work.
    post([this, taken, end, expected] {
      prepare_tcp(taken->get());
      auto place = peer_text(taken->get());
      if (expected.empty())
        make_room();
      refresh_identity();
      add({.link = std::make_unique<connection>(std::move(*taken), std::move(place), expected,
                                                now() + options_.handshake_timeout),
           .adopted = std::move(*end)});
    });
    return theirs.release();
  }

  pump_counts counts() const {
    return {.opened = opened_, .refused = refused_, .shaking_hands = shaking_, .open = open_};
  }

private:
  static time_point now() { return std::chrono::steady_clock::now(); }
  /// How carriages go on once both ends are proven.
  protection continues() const {
    return options_.protocol == clear_gradient_protocol ? protection::none : protection::tls;
  }

  /// False where the thread has ended, or is about to.
  bool post(std::function<void()> work) {
    {
      const std::scoped_lock lock(mutex_);
      if (ended_)
        return false;
      posted_.push_back(std::move(work));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
    return true;
  }

  void ask(const std::function<void()>& work) {
    std::promise<void> done;
    if (post([&] {
          work();
          done.set_value();
        }))
      done.get_future().wait();
  }

  void run() {
    sigset_t signals; // a write to a connection that is gone is an error, and no more
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    std::array<epoll_event, events_max> events{};
    while (!departing_ || (!entries_.empty() && now() < departed_at_)) {
      const bool timed = !timed_.empty() || !halves_.empty() || paused_until_ || departing_;
      const auto timeout = !again_.empty() ? 0 : timed ? static_cast<int>(look_interval.count()) : -1;
      const int count = ::epoll_wait(epoll_.get(), events.data(), events.size(), timeout);
      for (int i = 0; i < count; ++i)
        handle(events[static_cast<std::size_t>(i)]);
      for (const auto id : std::exchange(again_, {}))
        advance(id);
      look_at_times();
    }
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    do_posted(); // whoever has asked before is answered
    depart();
    entries_.clear();
    listeners_.clear();
  }

  void do_posted() {
    std::vector<std::function<void()>> work;
    {
      const std::scoped_lock lock(mutex_);
      work.swap(posted_);
    }
    for (const auto& each : work)
      each();
  }

  void handle(const epoll_event& event) {
    const auto id = event.data.u64 / sources;
    switch (static_cast<source>(event.data.u64 % sources)) {
    case source::peer:
    case source::local:
      return advance(id);
    case source::listener:
      return accept_from(id);
    case source::queue: // whoever took links from it is gone
      listeners_.erase(id);
      return;
    case source::wake:
      std::uint64_t ignored = 0;
      [[maybe_unused]] const auto count = ::read(wake_.get(), &ignored, sizeof ignored);
      return do_posted();
    }
  }

  void stop(std::uint16_t port) {
    std::erase_if(listeners_, [&](const auto& each) { return port != 0 && each.second.port == port; });
  }

  void refresh_identity() {
    if (const auto problem = identity_.refresh(now()); !problem.empty())
      lines_.add(now(), "new keys are not used: " + problem);
  }

  void accept_from(std::uint64_t id) {
    const auto found = listeners_.find(id);
    if (found == listeners_.end() || departing_)
      return;
    refresh_identity();
    auto& from = found->second;
    for (int i = 0; i < accepts_max; ++i) {
      descriptor socket(::accept4(from.socket.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        from.accepting.want(epoll_.get(), from.socket.get(), 0, 0);
        paused_until_ = now() + accept_pause;
      }
      if (!socket)
        return;
      prepare_tcp(socket.get());
      auto place = peer_text(socket.get());
      make_room();
      entry taken{.link = std::make_unique<connection>(std::move(socket), std::move(place), "",
                                                       now() + options_.handshake_timeout),
                  .listener = id,
                  .introduces = from.carriages};
      if (taken.introduces) {
        mark_bulk(taken.link->peer_socket());
        taken.link->expect_introduction(continues());
      }
      add(std::move(taken));
    }
  }

  void make_room() {
    if (greeting_.size() < options_.handshakes_max)
      return;
    const auto id = *greeting_.begin();
    entries_.at(id).link->refuse(
        fmt::format("there are {} connections in handshake, and it was the oldest", greeting_.size()));
    finish(id);
  }

  void add(entry added) {
    const auto id = next_id_++;
    if (!added.link->calls()) {
      greeting_.insert(id);
      shaking_ = greeting_.size();
    }
    entries_.emplace(id, std::move(added));
    advance(id);
  }

  /// Does for a connection what can be done now.
  void advance(std::uint64_t id) {
    const auto found = entries_.find(id);
    if (found == entries_.end())
      return;
    auto& link = found->second.link;
    if (link->phase() < link_phase::open &&
        link->shake_hands(identity_, options_.accepts_all ? nullptr : &options_.accepted))
      open(id, found->second);
    if (link->phase() == link_phase::open || link->phase() == link_phase::closing)
      if (link->transfer(now()))
        again_.push_back(id);
    if (link->phase() == link_phase::over)
      return finish(id);
    const auto wanted = link->wanted();
    found->second.peer.want(epoll_.get(), link->peer_socket(), wanted.peer, tag(id, source::peer));
    if (link->local_socket() >= 0)
      found->second.local.want(epoll_.get(), link->local_socket(), wanted.local, tag(id, source::local));
    if (link->deadline())
      timed_.insert(id);
    else
      timed_.erase(id);
  }

  /// The peer is proven.
  void open(std::uint64_t id, entry& proven) {
    auto& link = *proven.link;
    if (const auto count = links_of_.find(link.peer_name());
        count != links_of_.end() && count->second >= options_.links_a_host_max)
      return link.refuse(fmt::format("host \"{}\" has {} links already", link.peer_name(), count->second));
    if (proven.introduces && !link.calls()) {
      opened(id, proven); // so that those of one host that wait are limited, too
      return meet(id, proven);
    }
    if (proven.introduces)
      link.open(std::move(proven.adopted), "");
    else if (proven.adopted)
      link.open(std::move(proven.adopted), static_cast<char>(link.peer_name().size()) + link.peer_name());
    else if (const auto problem = hand_over(proven); !problem.empty())
      return link.refuse(problem);
    opened(id, proven);
  }

  /// A carriage's link has come: where its other end has not, it waits.
  void meet(std::uint64_t id, entry& proven) {
    auto& half = halves_[{proven.link->peer_name(), proven.link->introduction()}];
    const auto before = std::exchange(half.link, id);
    proven.link->wait_until(now() + carriage_wait);
    if (half.plain)
      return join(id);
    if (before != 0) {
      entries_.at(before).link->refuse("its host has called once more for the same");
      finish(before);
    }
  }

  /// Both ends are there.
  void join(std::uint64_t id) {
    auto& proven = entries_.at(id);
    auto found = halves_.extract({proven.link->peer_name(), proven.link->introduction()});
    proven.link->open(std::move(found.mapped().plain), "");
    again_.push_back(id);
  }

  void opened(std::uint64_t id, entry& proven) {
    auto& link = *proven.link;
    if (!link.calls()) {
      greeting_.erase(id);
      shaking_ = greeting_.size();
    }
    ++links_of_[link.peer_name()];
    proven.counted = true;
    ++opened_;
    ++open_;
  }

  /// Its plain end goes to who called, or takes links from the listener. Returns why not.
  std::string hand_over(entry& proven) {
    auto [ours, theirs] = make_plain_pair();
    if (!ours)
      return "there is no descriptor left";
    if (proven.link->calls()) {
      proven.opened.set_value({.plain = theirs.release(), .problem = ""});
    } else {
      const auto taker = listeners_.find(proven.listener);
      if (taker == listeners_.end() || !send_link(taker->second.queue.get(), theirs.get(), proven.link->peer_name()))
        return "nobody takes links any more";
      theirs.release();
    }
    proven.link->open(std::move(ours), "");
    return "";
  }

  void finish(std::uint64_t id) {
    const auto found = entries_.find(id);
    const auto& link = found->second.link;
    if (found->second.counted) {
      --open_;
      if (--links_of_[link->peer_name()] == 0)
        links_of_.erase(link->peer_name());
      if (!link->problem().empty() && link->problem() != closed_by_peer)
        lines_.add(now(),
                   fmt::format("link to {} at {} broke: {}", link->peer_name(), link->address(), link->problem()));
    } else if (link->calls()) {
      if (found->second.adopted)
        lines_.add(now(), fmt::format("link to {} failed: {}", link->address(), link->problem()));
      found->second.opened.set_value({.plain = -1, .problem = link->problem()});
    } else {
      ++refused_;
      greeting_.erase(id);
      shaking_ = greeting_.size();
      lines_.add(now(), fmt::format("refused {}: {}", link->address(), link->problem()));
    }
    if (found->second.introduces)
      std::erase_if(halves_, [id](const auto& half) { return half.second.link == id; });
    timed_.erase(id);
    entries_.erase(found); // its descriptors leave the epoll set as they are closed
  }

  void look_at_times() {
    const auto moment = now();
    if (paused_until_ && moment >= *paused_until_) {
      paused_until_.reset();
      for (auto& [id, each] : listeners_)
        each.accepting.want(epoll_.get(), each.socket.get(), EPOLLIN, tag(id, source::listener));
    }
    std::erase_if(halves_, [&](const auto& half) { return half.second.link == 0 && half.second.until <= moment; });
    std::vector<std::uint64_t> late;
    for (const auto id : timed_)
      if (*entries_.at(id).link->deadline() <= moment)
        late.push_back(id);
    for (const auto id : late) {
      auto& link = *entries_.at(id).link;
      const auto seconds = static_cast<double>(options_.handshake_timeout.count()) / 1000;
      if (link.phase() == link_phase::introduced)
        link.refuse("nothing here has waited for what it carries");
      else if (link.phase() == link_phase::silent)
        link.refuse(fmt::format("it said nothing within {} s", seconds));
      else if (link.phase() < link_phase::open)
        link.refuse(fmt::format("it did not finish its handshake within {} s", seconds));
      finish(id);
    }
  }

  /// What local users have written is sent; nobody new is taken.
  void depart() {
    departing_ = true;
    departed_at_ = now() + departure_time;
    listeners_.clear();
    std::erase_if(halves_, [](const auto& half) { return half.second.link == 0; });
    std::vector<std::uint64_t> ids;
    for (const auto& [id, each] : entries_)
      ids.push_back(id);
    for (const auto id : ids) {
      auto& link = *entries_.at(id).link;
      if (link.phase() < link_phase::open) {
        link.refuse(host_ends);
        finish(id);
        continue;
      }
      link.leave();
      advance(id);
    }
  }

  const pump_options options_;
  tls_identity identity_;
  refusal_lines lines_;
  descriptor epoll_;
  descriptor wake_;
  watched wake_watched_;
  std::mutex mutex_;
  std::vector<std::function<void()>> posted_; ///< guarded by the mutex
  bool ended_ = false;                        ///< guarded by the mutex
  std::mutex ending_;
  std::atomic<std::uint64_t> opened_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<std::size_t> shaking_ = 0;
  std::atomic<std::size_t> open_ = 0;

  // The thread's own.
  std::uint64_t next_id_ = 1; ///< never used twice, so that a late event finds nobody
  std::unordered_map<std::uint64_t, entry> entries_;
  std::map<std::uint64_t, listener> listeners_;
  std::set<std::uint64_t> greeting_; ///< who has connected and is not proven; the oldest first
  std::map<std::pair<std::string, std::string>, half_carriage> halves_; ///< by host and purpose
  std::unordered_set<std::uint64_t> timed_;
  std::vector<std::uint64_t> again_;
  std::map<std::string, std::size_t> links_of_;
  std::optional<time_point> paused_until_;
  bool departing_ = false;
  time_point departed_at_;
  std::thread thread_;
};

taken_link take_link(int queue) {
  std::array<char, 512> text; // NOLINT: filled by recv
  taken_link taken;
  const auto count = ::recv(queue, text.data(), text.size(), MSG_DONTWAIT);
  if (count <= static_cast<ssize_t>(sizeof taken.plain))
    return taken;
  std::memcpy(&taken.plain, text.data(), sizeof taken.plain);
  taken.host.assign(text.data() + sizeof taken.plain, static_cast<std::size_t>(count) - sizeof taken.plain);
  return taken;
}

std::unique_ptr<pump> pump::start(pump_options options, std::string& problem) {
  tls_identity identity(options.directory, options.host, options.protocol);
  problem = identity.load();
  if (!problem.empty())
    return nullptr;
  return std::unique_ptr<pump>(new pump(std::make_unique<loop>(std::move(options), std::move(identity))));
}

pump::pump(std::unique_ptr<loop> running) : loop_(std::move(running)) {}

pump::~pump() = default;

std::string pump::listen(const std::string& address, std::uint16_t port, listening& made) {
  return loop_->listen(address, port, made);
}

void pump::stop_listening(std::uint16_t port) {
  loop_->stop_listening(port);
}

int pump::connect(const std::string& host, const std::string& address, std::uint16_t port, milliseconds timeout,
                  std::string& problem) {
  auto result = loop_->connect(host, address, port, timeout);
  problem = std::move(result.problem);
  return result.plain;
}

void pump::end() {
  loop_->end();
}

int pump::adopt(int socket, const std::string& expected) {
  return loop_->adopt(socket, expected);
}

std::string pump::listen_for_carriages(const std::string& address, std::uint16_t port, std::uint16_t& bound) {
  return loop_->listen_for_carriages(address, port, bound);
}

std::string pump::carry_to(const carriage& wanted, const std::string& address, std::uint16_t port,
                           std::chrono::milliseconds timeout, int plain) {
  return loop_->carry_to(wanted, address, port, timeout, plain);
}

void pump::carry_from(const carriage& wanted, int plain) {
  loop_->carry_from(wanted, plain);
}

pump_counts pump::counts() const {
  return loop_->counts();
}

} // namespace dynamix::links
