#pragma once

/// Follows a run's ledger file on a thread of its own and hands out what it says: the state, the metrics, and every
/// change as a server-sent event. Nobody who writes the ledger ever waits for it, and whoever comes to a run late,
/// after a restart of the arbitrator or of the page, reads the same past from the same file.

#include "dashboard/window_explanation.hpp"
#include "ledger/line_reader.hpp"
#include "ledger/run.hpp"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dynamix::dashboard {

struct feed_limits {
  std::uint64_t past_bytes = 2ULL << 30; ///< of a ledger that is there already; what lies before is passed over
  std::size_t line_bytes = 64U << 20;    ///< a longer line is passed over
  bool through_links = true;             ///< to the ledger; otherwise none is followed
  std::size_t events = 256;              ///< kept for clients that come back
  std::size_t event_bytes = 8U << 20;
  std::chrono::milliseconds look_interval{100};
};

class feed {
public:
  /// What a page warns of that no ledger says; asked once a minute.
  using find_notices = std::function<std::vector<std::string>()>;
  feed(const cluster::cluster_file& file, std::string ledger, feed_limits limits = {}, find_notices notices = {});
  feed(const feed&) = delete;
  feed& operator=(const feed&) = delete;
  ~feed();

  std::string state(bool history) const;
  std::string metrics() const;
  /// The answer of explain_at; empty where it is not found yet: ask again. Found on the feed's thread, one a second,
  /// the newest question first.
  std::string explain(const explanation_question& asked);

  /// One update as a frame of an event stream: "id: N\ndata: ...\n\n". Ids are positions in the ledger.
  using frame = std::shared_ptr<const std::string>;
  struct news {
    std::vector<frame> frames;
    std::uint64_t position = 0; ///< to ask behind next
    bool gap = false;           ///< what lies behind the position asked for is not kept: read the state anew
    bool stopped = false;
  };
  /// What came behind `position`, the first `frames_max` of it; waits for it as long as `patience`. Nothing before the
  /// ledger's past is read.
  news read_behind(std::uint64_t position, std::chrono::milliseconds patience,
                   std::size_t frames_max = std::numeric_limits<std::size_t>::max()) const;

  /// Updates are made only while somebody reads them.
  void subscribe();
  void unsubscribe();
  /// Nobody waits in read_behind any more.
  void stop();

private:
  void follow();
  bool stopped() const;
  void look_for_notices();
  void answer_question();
  void begin_anew();
  bool read_line();
  void take(const ledger::row* row);
  void push(const ledger::row& row);

  const cluster::cluster_file file_;
  const feed_limits limits_;

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::unique_ptr<ledger::run> run_;
  std::uint64_t position_ = 0;  ///< behind the last whole line that was taken
  std::uint64_t size_ = 0;      ///< of the ledger, when it was last looked at
  std::uint64_t skipped_ = 0;   ///< bytes passed over
  std::uint64_t kept_from_ = 0; ///< events behind this position are kept
  struct event {
    std::uint64_t id;
    frame text;
  };
  std::deque<event> events_;
  std::vector<std::string> notices_;
  std::size_t event_bytes_ = 0;
  std::optional<explanation_question> asked_;
  std::deque<std::pair<explanation_question, std::string>> answers_; ///< the newest last
  std::size_t subscribers_ = 0;
  bool caught_up_ = false; ///< the past is read: what comes now is news
  bool stopped_ = false;

  // Of the thread alone.
  find_notices find_notices_;
  std::chrono::steady_clock::time_point noticed_;
  std::chrono::steady_clock::time_point answered_;
  const std::string ledger_;
  ledger::line_reader lines_;
  bool first_line_ = true;
  std::thread thread_;
};

} // namespace dynamix::dashboard
