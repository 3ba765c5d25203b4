#pragma once

#include "replication/transport.hpp"

#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dynamix::replication {

/// A transport on a loop and a thread of its own, with a stand-in for libraft that keeps what it is handed. Its
/// functions may be called from the test's thread.
class transport_host {
public:
  transport_host(std::uint64_t id, std::vector<voter> others, std::shared_ptr<links::pump> links,
                 std::uint32_t handshake_ms = 20'000);
  transport_host(const transport_host&) = delete;
  ~transport_host();

  /// libraft's code for the attempt, once it is over.
  int connect(std::uint64_t id);
  void begin_connect(std::uint64_t id);
  void send_on_stream(const std::string& text);
  /// The result of a connect that was under way, 0 if none.
  int close();

  std::vector<std::uint64_t> accepted();
  std::vector<std::uint64_t> hung_up();
  std::string received(); ///< on all streams
  std::vector<std::string> reports();
  transport_counts counts();
  /// Until it holds, up to 60 s.
  bool wait(const std::function<bool()>& condition);

private:
  struct attempt;
  /// Runs `work` on the loop's thread and waits for it.
  void on_loop(std::function<void()> work);
  std::future<int> begin(std::uint64_t id);
  void accept(std::uint64_t id, uv_stream_t* stream);

  uv_loop_t loop_{};
  uv_async_t wake_{};
  std::unique_ptr<transport> transport_;
  bool closed_ = false;
  std::future<int> under_way_;
  std::string sent_;
  uv_write_t write_{};
  uv_stream_t* outgoing_ = nullptr;
  std::vector<uv_stream_t*> streams_;
  std::thread thread_;

  std::mutex mutex_;
  std::vector<std::function<void()>> inbox_;
  std::vector<std::uint64_t> accepted_;
  std::vector<std::uint64_t> hung_up_;
  std::string received_;
  std::vector<std::string> reports_;
};

} // namespace dynamix::replication
