#pragma once

#include "actors/client/client_connection.hpp"
#include "actors/client/client_listener.hpp"
#include "session/client_slot.hpp"

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace dynamix::actors {

/// Serves a slot at a socket: a thread that waits for connections, frames and the ends of processes. What the slot
/// wants of its connections is done here; everything else is given to `told`, in order, under the server's lock, on the
/// thread that it follows from.
class client_server {
public:
  using teller = std::function<void(session::client_effect& what)>;

  client_server(std::shared_ptr<client_listener> listener, session::client_slot_options options, teller told);
  /// Ends the thread; connections are closed.
  ~client_server();
  client_server(const client_server&) = delete;
  client_server& operator=(const client_server&) = delete;

  /// Does something to the slot, on any thread but within `told`.
  void act(const std::function<void(session::client_slot&)>& action);

private:
  struct served {
    std::unique_ptr<client_connection> connection;
    std::optional<std::chrono::steady_clock::time_point> closes_at; ///< set: ends once its output is written, or then
  };

  void run();
  bool wait_and_serve();
  void accept_all();
  void read(session::connection_number number);
  void process_ended(session::connection_number number);
  void disconnect(session::connection_number number, const std::string& reason);
  void drop_closed();
  void perform();
  void wake();

  std::shared_ptr<client_listener> listener_;
  teller told_;
  int wake_;

  std::mutex mutex_; ///< guards what follows
  session::client_slot slot_;
  std::map<session::connection_number, served> connections_;
  session::connection_number newest_ = 0;
  bool over_ = false;
  bool accepts_ = true; ///< of the thread alone: not where there was no descriptor left, for one look
  std::thread thread_;
};

} // namespace dynamix::actors
