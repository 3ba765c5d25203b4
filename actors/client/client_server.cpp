#include "actors/client/client_server.hpp"

#include <spdlog/spdlog.h>

#include <cerrno>
#include <cstdint>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <type_traits>
#include <unistd.h>
#include <utility>
#include <variant>

namespace dynamix::actors {

namespace {

namespace slot_effects = session::client_effects;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds tick_interval{500};
constexpr milliseconds close_patience{1000};
constexpr int process_end_wait_ms = 20; ///< a process closes its sockets shortly before it has ended

double steady_seconds() {
  return std::chrono::duration<double>(steady_clock::now().time_since_epoch()).count();
}

bool is_readable(int descriptor, int wait_ms) {
  pollfd one{.fd = descriptor, .events = POLLIN, .revents = 0};
  return descriptor >= 0 && ::poll(&one, 1, wait_ms) > 0;
}

/// The functions of the slot that take what clients send.
template <class T>
concept client_message = requires(session::client_slot slot, T value) {
  slot.received(0, value);
};

} // namespace

client_server::client_server(std::shared_ptr<client_listener> listener, session::client_slot_options options,
                             teller told)
    : listener_(std::move(listener)), told_(std::move(told)), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      slot_(std::move(options)) {
  if (wake_ < 0)
    throw std::system_error(errno, std::generic_category(), "eventfd");
  thread_ = std::thread([this] { run(); });
}

client_server::~client_server() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  wake();
  thread_.join();
  ::close(wake_);
}

void client_server::wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_, &one, sizeof(one)); // full: it wakes already
}

void client_server::act(const std::function<void(session::client_slot&)>& action) {
  {
    const std::scoped_lock lock(mutex_);
    action(slot_);
    perform();
  }
  wake(); // there may be output left, or a connection to close
}

void client_server::run() {
  while (wait_and_serve()) {
  }
}

bool client_server::wait_and_serve() {
  std::vector<pollfd> waited{
      {.fd = wake_, .events = POLLIN, .revents = 0},
      {.fd = std::exchange(accepts_, true) ? listener_->descriptor() : -1, .events = POLLIN, .revents = 0}};
  std::vector<session::connection_number> numbers;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [number, one] : connections_) {
      const bool closes = one.closes_at.has_value();
      const auto wanted = static_cast<short>((closes ? 0 : POLLIN) | (one.connection->has_output() ? POLLOUT : 0));
      waited.push_back({.fd = one.connection->descriptor(), .events = wanted, .revents = 0});
      waited.push_back({.fd = closes ? -1 : one.connection->process_descriptor(), .events = POLLIN, .revents = 0});
      numbers.push_back(number);
    }
  }
  ::poll(waited.data(), waited.size(), static_cast<int>(tick_interval.count()));
  std::uint64_t woken = 0;
  while (::read(wake_, &woken, sizeof(woken)) > 0) {
  }
  const std::scoped_lock lock(mutex_);
  if (over_)
    return false;
  // First whatever has ended: a new connection may be the same process's next.
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto events = waited[2 + 2 * i].revents;
    if ((events & POLLOUT) != 0 && !connections_.at(numbers[i]).connection->flush())
      disconnect(numbers[i], "it closed the connection");
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0)
      read(numbers[i]);
    if (waited[3 + 2 * i].revents != 0)
      process_ended(numbers[i]);
  }
  if (waited[1].revents != 0)
    accept_all();
  slot_.tick(steady_seconds());
  perform();
  drop_closed();
  return true;
}

void client_server::accept_all() {
  for (;;) {
    const int descriptor = ::accept4(listener_->descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor < 0) {
      accepts_ = errno == EAGAIN;
      return;
    }
    auto connection = std::make_unique<client_connection>(descriptor);
    const auto peer = connection->peer();
    connections_[++newest_].connection = std::move(connection);
    slot_.connected(steady_seconds(), newest_, peer);
    perform();
  }
}

void client_server::read(session::connection_number number) {
  const auto found = connections_.find(number);
  if (found == connections_.end() || found->second.closes_at)
    return;
  std::optional<std::string> ended;
  for (const auto& frame : found->second.connection->read(ended)) {
    std::visit(
        [&](const auto& said) {
          if constexpr (client_message<std::decay_t<decltype(said)>>)
            slot_.received(number, said);
          else
            slot_.violated(number, "it sends a " + std::string(messages::kind_name(*frame)));
        },
        *frame);
    perform();
  }
  if (!ended)
    return;
  if (is_readable(found->second.connection->process_descriptor(), process_end_wait_ms))
    ended = "it has ended";
  else if (!ended->starts_with(client_connection::closed))
    slot_.violated(number, *ended);
  perform();
  disconnect(number, *ended);
}

/// What it had sent before is read first; its children may go on sending for ever.
void client_server::process_ended(session::connection_number number) {
  read(number);
  disconnect(number, "it has ended");
}

void client_server::disconnect(session::connection_number number, const std::string& reason) {
  const auto found = connections_.find(number);
  if (found == connections_.end())
    return;
  slot_.disconnected(number, reason);
  connections_.erase(found);
  perform();
}

/// A refusal is read by whoever was refused, before the end of the connection.
void client_server::drop_closed() {
  const auto now = steady_clock::now();
  std::vector<session::connection_number> over;
  for (const auto& [number, one] : connections_)
    if (one.closes_at && (!one.connection->has_output() || now >= *one.closes_at))
      over.push_back(number);
  for (const auto number : over)
    disconnect(number, "it was closed");
}

void client_server::perform() {
  for (auto& effect : slot_.take_effects()) {
    if (const auto* sent = std::get_if<slot_effects::send>(&effect)) {
      const auto found = connections_.find(sent->connection);
      const auto message = std::visit([](const auto& value) { return messages::any_message(value); }, sent->message);
      if (found != connections_.end() && !found->second.connection->write(message))
        found->second.closes_at = steady_clock::now(); // the next look ends it
    } else if (const auto* closed = std::get_if<slot_effects::close>(&effect)) {
      if (const auto found = connections_.find(closed->connection); found != connections_.end())
        found->second.closes_at = steady_clock::now() + close_patience;
    } else if (const auto* line = std::get_if<slot_effects::log>(&effect)) {
      spdlog::log(line->warning ? spdlog::level::warn : spdlog::level::info, "{}", line->text);
    } else {
      told_(effect);
    }
  }
}

} // namespace dynamix::actors
