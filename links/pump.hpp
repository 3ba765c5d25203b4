#pragma once

/// The links of one process to other hosts that speak one protocol: TLS towards them, plain bytes towards the process,
/// one thread for all. Nothing that a peer sends is passed on before its certificate has proven that it is a host which
/// may connect, or that was called. Those who connect come from a door (links/door.hpp).

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>

namespace dynamix::links {

// What is spoken over links, as ALPN names it: by actors, by replicas of the arbitrator, by workers' collectives.
constexpr const char* control_protocol = "dynamix-control/1";
constexpr const char* raft_protocol = "dynamix-raft/1";
constexpr const char* gradient_protocol = "dynamix-gradients/1";
/// Both ends prove who they are as ever; what carriages carry is neither encrypted nor authenticated after that.
constexpr const char* clear_gradient_protocol = "dynamix-gradients-clear/1";

/// SO_PRIORITY of TCP connections with gradients, at the calling end from before the handshake, at the other from when
/// the caller is proven: telemetry tells them from control by it, and a queue that knows priorities (pfifo_fast) lets
/// control pass. TC_PRIO_BULK, which anybody may set.
constexpr int bulk_priority = 2;

struct pump_options {
  std::string directory;          ///< of this host's three files (links/identity.hpp)
  std::string host;               ///< this one's name
  std::set<std::string> accepted; ///< names of the hosts that may connect to this one
  bool accepts_all = false;       ///< any host may that proves its name, whatever it is
  std::string protocol = control_protocol;
  std::chrono::milliseconds handshake_timeout{3000}; ///< of those that are called
  std::size_t links_a_host_max = 64;
  /// Makes, for each link that is accepted, what looks at the bytes of its peer before this process reads them, and
  /// says why the link breaks; empty where they are passed on. None: all are.
  std::function<std::function<std::string(std::span<const char>)>()> inspect;
  std::uint32_t silent_peer_ms = 0; ///< bytes not acknowledged, or not taken, so long end a link; 0: the system's own
  /// One line a refused or broken link, at most 20 per minute of this pump, and one that counts the others. Called on
  /// the pump's thread.
  std::function<void(const std::string& line)> report = [](const std::string&) {};
};

/// What a pump has done so far, and reported.
struct pump_counts {
  std::uint64_t opened = 0;
  std::uint64_t refused = 0; ///< of those whom a door has led here
  std::size_t open = 0;      ///< now
};

/// An accepted link.
struct taken_link {
  int plain = -1;      ///< which the caller closes; -1: none waits
  std::string host;    ///< its peer's proven name
  std::string address; ///< from which it has come, in numbers; empty where that cannot be told
};
taken_link take_link(int queue);

/// A connection within this process that a link carries to one within another host's.
struct carriage {
  std::string host;    ///< at the other end, which must prove that it is that host
  std::string purpose; ///< the same at both ends; of one carriage between two hosts at a time; 1 to 255 bytes
};

class connection;
enum class connect_failure : std::uint8_t;

class pump {
public:
  /// Reads this host's keys and starts the thread. Null where that is not possible, with the reason.
  static std::unique_ptr<pump> start(pump_options options, std::string& problem);
  /// As `end`.
  ~pump();
  pump(const pump&) = delete;
  pump& operator=(const pump&) = delete;

  /// Where accepted links are taken from, by `take_link`, instead of what was returned before: the caller closes it, no
  /// link is accepted from then on, and those that were not taken end. -1 where there is no descriptor left. Not of
  /// gradients, which have carriages.
  int take_links();

  const pump_options& options() const;
  /// For a door, from any thread: the connection of a proven peer. False once this pump has ended.
  bool take_over(std::unique_ptr<connection> proven);

  /// Connects to `host`, which must prove that it is that host. Returns the plain descriptor, which the caller closes,
  /// or -1 and why not. Blocks for at most `timeout` (the TCP connection) and the handshake's time-out; not to be
  /// called on the pump's thread.
  int connect(const std::string& host, const std::string& address, std::uint16_t port,
              std::chrono::milliseconds timeout, std::string& problem, connect_failure* kind = nullptr);

  /// Takes over `socket`, a TCP connection to `expected`, which must prove that it is that host. Returns the plain
  /// descriptor at once, which the caller closes; -1 where there is none left. What is read from it first is the proven
  /// name, after one byte with its length; where the peer is refused, it ends.
  int adopt(int socket, const std::string& expected);

  /// Both ends of a carriage: one host calls, the other takes. `plain`, a connection within this process, is the pump's
  /// from here on, and ends with the link, or when there is none within 20 s. `carry_to` blocks for at most `timeout`,
  /// and returns an empty string once it has a TCP connection, or why it has none.
  std::string carry_to(const carriage& wanted, const std::string& address, std::uint16_t port,
                       std::chrono::milliseconds timeout, int plain);
  void carry_from(const carriage& wanted, int plain);

  /// Sends what local users have written, for at most two seconds, closes all, and ends the thread. Nobody is reached
  /// from then on.
  void end();

  pump_counts counts() const;

private:
  class loop;
  explicit pump(std::unique_ptr<loop> running);
  std::unique_ptr<loop> loop_;
};

} // namespace dynamix::links
