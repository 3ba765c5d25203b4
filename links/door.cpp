#include "links/door.hpp"

#include "links/event_thread.hpp"
#include "links/pump.hpp"
#include "links/refusals.hpp"
#include "links/sockets.hpp"

#include <atomic>
#include <cerrno>
#include <fmt/core.h>
#include <map>
#include <optional>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace dynamix::links {
namespace {

constexpr std::chrono::milliseconds accept_pause{100}; ///< of a process that has no descriptor left
constexpr int accepts_max = 64;                        ///< in a row

/// Somebody who shakes hands.
struct caller {
  std::unique_ptr<connection> link;
  watched peer;
};

} // namespace

class door::loop final : public event_thread {
public:
  loop(door_options options, tls_identity identity)
      : options_(std::move(options)), identity_(std::move(identity)), lines_(options_.report) {
    start();
  }
  ~loop() override { end(); }

  void lead_to(std::shared_ptr<pump> to) {
    ask([&] {
      const auto& wanted = to->options();
      rules_.push_back(
          {.listed = listed(wanted.protocol), .accepted = wanted.accepted, .accepts_all = wanted.accepts_all});
      pumps_.push_back(std::move(to));
    });
  }

  std::string listen(const std::string& address, std::uint16_t port) {
    std::string problem = host_ends;
    ask([&] {
      problem.clear();
      std::uint16_t bound = 0;
      listener_ = listen_tcp(address, port, bound, problem);
      if (!listener_)
        return;
      port_ = bound;
      accept_again();
    });
    return problem;
  }

  std::uint16_t port() const { return port_; }
  door_counts counts() const { return {.proven = proven_, .refused = refused_, .shaking_hands = shaking_}; }

private:
  void handle(source from, std::uint64_t id) override {
    if (from == source::listener)
      accept();
    else
      advance(id);
  }

  int wait_ms() const override {
    return callers_.empty() && !paused_until_ ? -1 : static_cast<int>(look_interval.count());
  }

  void accept_again() { accepting_.want(epoll(), listener_.get(), EPOLLIN, tag(0, source::listener)); }

  void accept() {
    if (!listener_)
      return;
    refresh_identity();
    for (int i = 0; i < accepts_max; ++i) {
      descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        accepting_.want(epoll(), listener_.get(), 0, 0);
        paused_until_ = now() + accept_pause;
      }
      if (!socket)
        return;
      prepare_tcp(socket.get());
      make_room();
      auto place = peer_text(socket.get());
      const auto id = next_id_++;
      callers_.emplace(id, caller{.link = std::make_unique<connection>(std::move(socket), std::move(place), "",
                                                                       now() + options_.handshake_timeout),
                                  .peer = {}});
      shaking_ = callers_.size();
      advance(id);
    }
  }

  void refresh_identity() {
    if (const auto problem = identity_.refresh(now()); !problem.empty())
      lines_.add(now(), "new keys are not used: " + problem);
  }

  void make_room() {
    if (callers_.size() >= options_.handshakes_max)
      refuse(callers_.begin()->first,
             fmt::format("there are {} connections in handshake, and it was the oldest", callers_.size()));
  }

  /// Does for a caller what can be done now.
  void advance(std::uint64_t id) {
    const auto found = callers_.find(id);
    if (found == callers_.end())
      return;
    auto& [link, peer] = found->second;
    if (link->shake_hands(identity_, &rules_)) {
      peer.want(epoll(), link->peer_socket(), 0, 0);
      return lead(id);
    }
    if (link->phase() == link_phase::over)
      return refuse(id, link->problem());
    peer.want(epoll(), link->peer_socket(), link->wanted().peer, tag(id, source::peer));
  }

  /// It is proven.
  void lead(std::uint64_t id) {
    const auto at = callers_.extract(id);
    shaking_ = callers_.size();
    auto link = std::move(at.mapped().link);
    const auto place = link->address();
    if (pumps_[link->rule()]->take_over(std::move(link)))
      ++proven_;
    else
      tell_refusal(place, host_ends);
  }

  void refuse(std::uint64_t id, const std::string& problem) {
    const auto at = callers_.extract(id); // its descriptor leaves the epoll set as it is closed
    shaking_ = callers_.size();
    tell_refusal(at.mapped().link->address(), problem);
  }

  void tell_refusal(const std::string& place, const std::string& problem) {
    lines_.add(now(), fmt::format("refused {}: {}", place, problem));
    ++refused_;
  }

  void after_events() override {
    const auto moment = now();
    if (paused_until_ && moment >= *paused_until_ && listener_) {
      paused_until_.reset();
      accept_again();
    }
    const auto seconds = static_cast<double>(options_.handshake_timeout.count()) / 1000;
    while (!callers_.empty() && *callers_.begin()->second.link->deadline() <= moment) { // all have the same time
      const bool silent = callers_.begin()->second.link->phase() == link_phase::silent;
      refuse(callers_.begin()->first, silent ? fmt::format("it said nothing within {} s", seconds)
                                             : fmt::format("it did not finish its handshake within {} s", seconds));
    }
  }

  void depart() override {
    departing_ = true;
    listener_ = {};
    port_ = 0;
    while (!callers_.empty())
      refuse(callers_.begin()->first, host_ends);
  }
  bool departed() const override { return departing_; }

  const door_options options_;
  std::atomic<std::uint64_t> proven_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
  std::atomic<std::size_t> shaking_ = 0;
  std::atomic<std::uint16_t> port_ = 0;

  // The thread's own.
  tls_identity identity_;
  refusal_lines lines_;
  protocol_rules rules_;
  std::vector<std::shared_ptr<pump>> pumps_; ///< of each of the rules
  descriptor listener_;
  watched accepting_;
  std::uint64_t next_id_ = 1;               ///< never used twice, so that a late event finds nobody
  std::map<std::uint64_t, caller> callers_; ///< the oldest first
  std::optional<std::chrono::steady_clock::time_point> paused_until_;
  bool departing_ = false;
};

std::unique_ptr<door> door::start(door_options options, std::string& problem) {
  tls_identity identity(options.directory, options.host, "");
  problem = identity.load();
  if (!problem.empty())
    return nullptr;
  return std::unique_ptr<door>(new door(std::make_unique<loop>(std::move(options), std::move(identity))));
}

door::door(std::unique_ptr<loop> running) : loop_(std::move(running)) {}

door::~door() = default;

void door::lead_to(std::shared_ptr<pump> to) {
  loop_->lead_to(std::move(to));
}

std::string door::listen(const std::string& address, std::uint16_t port) {
  return loop_->listen(address, port);
}

std::uint16_t door::port() const {
  return loop_->port();
}

void door::end() {
  loop_->end();
}

door_counts door::counts() const {
  return loop_->counts();
}

} // namespace dynamix::links
