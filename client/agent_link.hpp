#pragma once

#include "client/silence_watch.hpp"
#include "messages/codec.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::client {

/// A frame's most words, either way: 64 KiB.
inline constexpr std::size_t agent_frame_words_max = 8192;

/// The connection to the agent of this host over its Unix socket. No call but `open` and `close` waits for anything. An
/// agent that is lost is looked for once a second. One that hangs counts as lost: it is connected to anew, and answers
/// when it goes on.
class agent_link {
public:
  /// What the agent has sent. A welcome comes first, and again behind each loss.
  using receiver = std::function<void(messages::any_message& what)>;

  agent_link(std::string path, messages::client_hello hello);
  ~agent_link();
  agent_link(const agent_link&) = delete;
  agent_link& operator=(const agent_link&) = delete;

  /// Connects and waits for the welcome. Returns an empty string, or why there is none and what to do.
  std::string open(std::uint32_t timeout_ms, messages::client_welcome& welcome);
  /// Welcomed.
  bool connected() const { return state_ == state::welcomed; }
  /// Dropped where nobody listens; frames that the agent is slow to take wait, up to a limit.
  void send(const messages::any_message& what);
  /// Takes what has come, and looks for an agent that was lost. `now_seconds` is on a clock that never goes back.
  void pump(double now_seconds, const receiver& receive);
  /// Sends what waits, and waits until the agent has closed the connection.
  void close(std::uint32_t timeout_ms);
  /// The last thing that happened to the connection, once: "lost the agent ...".
  std::string take_news() { return std::exchange(news_, {}); }

private:
  enum class state : std::uint8_t { down, greeting, welcomed };

  std::string connect();
  void drop(const std::string& why);
  /// False: nothing more can be written now.
  bool flush();
  /// False: nothing more has come.
  bool fill();
  /// Of what was sent, in about as many bytes.
  std::size_t unread() const;
  void take_all(const receiver& receive);
  void take_frames(const receiver& receive);
  void take(messages::any_message& what, const receiver& receive);

  std::string path_;
  messages::client_hello hello_;
  state state_ = state::down;
  int socket_ = -1;
  double pumped_seconds_ = 0;
  double retry_seconds_ = 0;
  silence_watch silence_; ///< of the agent that has welcomed
  std::vector<std::uint8_t> received_;
  std::vector<std::uint8_t> waiting_; ///< to be sent
  std::string ended_;                 ///< why nothing more comes
  std::string refusal_;               ///< of the welcome that was not one
  std::string news_;
  std::string told_; ///< the last refusal in the news
};

} // namespace dynamix::client
