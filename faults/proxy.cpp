#include "faults/proxy.hpp"

#include "faults/proxy_connection.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <chrono>
#include <cmath>
#include <list>
#include <map>
#include <mutex>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

namespace dynamix::faults {
namespace {

constexpr std::size_t links_most = 4096;
constexpr std::size_t connections_most = 64; ///< of a link
constexpr int idle_ms = 1000;

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace

class proxy::loop {
public:
  loop() : wake_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), thread_([this] { run(); }) {}
  loop(const loop&) = delete;
  loop& operator=(const loop&) = delete;
  ~loop() {
    {
      const std::scoped_lock lock(mutex_);
      ending_ = true;
    }
    wake();
    thread_.join();
  }

  std::uint16_t add(const std::string& name, const std::string& address, std::uint16_t port) {
    sockaddr_in target{};
    target.sin_family = AF_INET;
    target.sin_port = htons(port);
    if (::inet_pton(AF_INET, address.c_str(), &target.sin_addr) != 1)
      return 0;
    tcp_socket listener(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof own;
    auto* bound = reinterpret_cast<sockaddr*>(&own);
    if (::bind(listener.get(), bound, sizeof own) != 0 || ::listen(listener.get(), 64) != 0 ||
        ::getsockname(listener.get(), bound, &size) != 0)
      return 0;
    const std::scoped_lock lock(mutex_);
    if (links_.size() >= links_most || links_.contains(name))
      return 0;
    links_[name] = std::make_unique<link>(std::move(listener), target);
    wake();
    return ntohs(own.sin_port);
  }

  struct link {
    link(tcp_socket&& of, const sockaddr_in& to) : listener(std::move(of)), target(to) {}
    tcp_socket listener;
    sockaddr_in target;
    link_state state;
    std::list<proxy_connection> connections;
  };

  /// Changes a link under the lock.
  template <class Change>
  void change(const std::string& name, Change&& change) {
    const std::scoped_lock lock(mutex_);
    change(*links_.at(name));
    wake();
  }
  link_counters counters(const std::string& name) const {
    const std::scoped_lock lock(mutex_);
    return links_.at(name)->state.counters;
  }

private:
  void wake() const {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
  }

  void run() {
    std::vector<pollfd> polls;
    for (;;) {
      double wait_ms = idle_ms;
      {
        const std::scoped_lock lock(mutex_);
        if (ending_)
          return;
        polls.assign(1, {.fd = wake_.get(), .events = POLLIN, .revents = 0});
        const double now = seconds_now();
        for (auto& [name, each] : links_)
          wait_ms = std::min(wait_ms, turn(*each, now, polls));
      }
      ::poll(polls.data(), polls.size(), static_cast<int>(std::ceil(wait_ms)));
      std::uint64_t woken = 0;
      [[maybe_unused]] const auto count = ::read(wake_.get(), &woken, sizeof woken);
    }
  }

  /// One link's turn. Returns for how long it may be left alone, in milliseconds.
  static double turn(link& of, double now, std::vector<pollfd>& polls) {
    accept_all(of);
    double wait_ms = idle_ms;
    for (auto each = of.connections.begin(); each != of.connections.end();) {
      each->advance(now);
      if (each->torn() && !each->over() && !of.state.dropping()) {
        each->reset();
        ++of.state.counters.resets;
      }
      if (each->over()) {
        each = of.connections.erase(each);
        continue;
      }
      each->add_polls(polls);
      if (const auto next = each->next_seconds(now))
        wait_ms = std::min(wait_ms, std::max(0.0, (*next - now) * 1000));
      ++each;
    }
    polls.push_back({.fd = of.listener.get(), .events = POLLIN, .revents = 0});
    return wait_ms;
  }

  static void accept_all(link& of) {
    for (;;) {
      const int client = ::accept4(of.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (client < 0)
        return;
      if (of.connections.size() >= connections_most)
        ::close(client);
      else
        of.connections.emplace_back(client, of.target, of.state);
    }
  }

  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<link>> links_;
  bool ending_ = false;
  tcp_socket wake_;
  std::thread thread_; ///< last: it uses the others
};

proxy::proxy() : loop_(std::make_unique<loop>()) {}
proxy::~proxy() = default;

std::uint16_t proxy::add_link(const std::string& name, const std::string& address, std::uint16_t port) {
  return loop_->add(name, address, port);
}

void proxy::set(const std::string& name, way which, const link_condition& condition) {
  loop_->change(name, [&](auto& link) { link.state.conditions[static_cast<std::size_t>(which)] = condition; });
}

void proxy::reset(const std::string& name) {
  loop_->change(name, [](auto& link) {
    for (auto& each : link.connections) {
      each.reset();
      ++link.state.counters.resets;
    }
  });
}

void proxy::corrupt_next(const std::string& name, way which) {
  loop_->change(name, [&](auto& link) { link.state.corrupt_next[static_cast<std::size_t>(which)] = true; });
}

void proxy::truncate_next(const std::string& name, way which) {
  loop_->change(name, [&](auto& link) { link.state.truncate_next[static_cast<std::size_t>(which)] = true; });
}

link_counters proxy::counters(const std::string& name) const {
  return loop_->counters(name);
}

} // namespace dynamix::faults
