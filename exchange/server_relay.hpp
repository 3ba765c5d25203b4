#pragma once

/// What a member of a group with servers does in threads of its own: it sends its parts to the servers and receives
/// their sums, and sums its own share. Internal to the room.

#include "exchange/collectives.hpp"
#include "exchange/ring.hpp"

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace dynamix::exchange {

/// One member's side of all sums, as worker and as server. Three threads take them in the order in which they were
/// started, which is the same on all members:
///
///   post     begins to send this member's parts to their servers and to receive the sums
///   serve    receives all workers' parts of this member's share, adds them up, begins to send the sum
///   collect  waits for what the others have begun, and says that the sum is there
///
/// Where this member only serves, a fourth one hears from the first worker what is started.
///
/// A part leaves when its server receives it, so what is under way is bounded by what servers hold. Threads that a lost
/// peer holds up end with the group's connections.
class relay : public std::enable_shared_from_this<relay> {
public:
  /// One sum on its way.
  struct summation;
  using summation_pointer = std::shared_ptr<summation>;

  /// The first `workers` of the ring's members bring gradients. `left`, where this member does not: completed when the
  /// workers have left, or something broke.
  relay(ring_group& ring, std::uint32_t workers, std::vector<double> shares,
        std::shared_ptr<interruption::event> left = nullptr);
  ~relay();

  void begin();
  /// Of `all`, which `owner` keeps, into the same memory.
  summation_pointer start(std::shared_ptr<void> owner, std::span<std::byte> all, arithmetic how,
                          const interruption& stop);
  void wait(const summation& started, const interruption& stop);
  /// Of the first worker, when all workers have all sums: tells those who only serve to leave.
  void call_off(std::uint64_t word);
  /// That the workers have left with.
  std::uint64_t last_word();
  /// Lets threads end once all is done that was begun, and waits for those a moment.
  void close();

private:
  using queue = std::deque<summation_pointer>;
  using buffers = std::vector<std::vector<std::byte>>;
  struct turn;

  /// Brings gradients.
  bool works() const { return position_ < workers_; }

  summation_pointer enter(summation_pointer started);
  void run(void (relay::*part)());
  void fail(const std::string& problem);

  void listen();
  bool wait_for_room(std::uint64_t bytes);

  summation_pointer take(queue& from);
  summation_pointer take_if_any(queue& from);
  summation_pointer take_locked(queue& from) const;

  /// The first `count` members but this one, each member beginning with another one.
  template <typename Action>
  void for_each_other(std::uint32_t count, Action&& action) const {
    for (std::uint32_t i = 1; i < size_; ++i)
      if (const auto other = (position_ + i) % size_; other < count)
        action(other);
  }

  void post();
  void serve();
  void hold_share(summation& of) const;
  std::span<std::byte> part_buffer(buffers& all, const turn& of, std::uint32_t member) const;
  turn begin_turn(const summation_pointer& of, std::size_t piece, std::size_t buffer, buffers& all);
  void finish_turn(turn& now, buffers& all);
  void add_in_order(turn& now, std::span<std::byte> own, buffers& all);
  void add_exactly(turn& now, std::span<std::byte> own, buffers& all);
  void note_served(summation& of);
  void collect();

  const std::shared_ptr<peer_messages> messages_;
  const std::uint32_t position_;
  const std::uint32_t size_;
  const std::uint32_t workers_;
  const std::vector<double> shares_;
  const std::shared_ptr<interruption::event> left_;

  std::mutex mutex_;
  std::condition_variable changed_;
  queue posting_;
  queue serving_;
  queue collecting_;
  std::set<summation_pointer> open_;
  std::string problem_; ///< what broke the group
  std::optional<std::uint64_t> word_;
  bool closed_ = false;
  std::size_t threads_ = 0;
};

} // namespace dynamix::exchange
