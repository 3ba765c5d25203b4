#pragma once

/// Collectives over a mesh. Each is a state machine that the mesh's thread drives from message to message, so none has
/// a thread of its own and several may be under way. All members begin the same ones in the same order.

#include "exchange/interruption.hpp"
#include "exchange/mesh.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>

namespace dynamix::exchange {

/// How elements of several members become one: element by element or, by servers alone, by sum_exactly
/// (exchange/float_sum.hpp). Hosts that only serve are told the number.
enum class arithmetic : std::uint8_t { add_float32, add_float64, add_words, or_words, add_exactly };

std::size_t element_bytes(arithmetic how);
/// The elements of `from` with as many of `into`. Not exactly: that takes all parts at once.
void combine(arithmetic how, std::span<std::byte> into, std::span<const std::byte> from);

/// A collective under way. It stays alive, with the memory that it works on, for as long as a message may touch that.
class collective : public std::enable_shared_from_this<collective> {
public:
  collective(std::shared_ptr<mesh> through, std::uint64_t lane, const char* name);
  virtual ~collective() = default;
  collective(const collective&) = delete;
  collective& operator=(const collective&) = delete;

  void start(const interruption& stop);
  /// Blocks until it is complete. Throws exchange::error once `stop` is raised, a peer is gone, or nothing has come or
  /// left for `timeout`, which breaks the mesh.
  void wait(const interruption& stop, std::chrono::milliseconds timeout);

protected:
  // All on the mesh's thread.
  virtual void begin() = 0;
  /// All that was sent and received so far has left and come.
  virtual void settled() { finish({}); }

  /// `after` is run once the message has come; receives of one peer come in order.
  template <typename Action>
  void receive(std::uint32_t from, std::span<std::byte> bytes, Action after) {
    ++open_;
    mesh_->receive(from, lane_, bytes, [self = shared_from_this(), this, after](const std::string& problem) {
      if (moved(problem))
        after();
      close_one();
    });
  }
  void send(std::uint32_t to, std::span<const std::byte> bytes);
  void finish(const std::string& problem);

  std::uint32_t position() const { return mesh_->position(); }
  std::uint32_t size() const { return mesh_->size(); }

private:
  bool moved(const std::string& problem);
  void close_one();

  const std::shared_ptr<mesh> mesh_;
  const std::uint64_t lane_;
  const char* const name_;
  std::shared_ptr<interruption::event> done_;
  std::atomic<std::chrono::steady_clock::rep> moved_at_{0};
  // Of the mesh's thread.
  std::size_t open_ = 0; ///< messages under way
  bool finished_ = false;
  // Read by who waits, once `done_` is completed.
  std::mutex mutex_;
  std::string problem_;
};

/// Combines `data`, as many elements on all members, into the same memory, which `owner` keeps. Large data go around
/// in a ring, cut into pieces that are combined and sent on as they come; small ones are gathered and combined by
/// everybody. In an order of members that is the same on all of them, so all get the same bits.
std::shared_ptr<collective> all_reduce(std::shared_ptr<mesh> through, std::uint64_t lane, std::span<std::byte> data,
                                       std::shared_ptr<void> owner, arithmetic how);

/// `all` holds the members' equal blocks in the order of positions, this member's own filled in.
std::shared_ptr<collective> all_gather(std::shared_ptr<mesh> through, std::uint64_t lane, std::span<std::byte> all,
                                       std::shared_ptr<void> owner);

/// The i-th of the equal blocks of `blocks` goes to the member at position i, whose block for this one comes into
/// `into`.
std::shared_ptr<collective> all_to_all(std::shared_ptr<mesh> through, std::uint64_t lane,
                                       std::span<const std::byte> blocks, std::span<std::byte> into,
                                       std::shared_ptr<void> owner);

/// The bytes of the member at position `root`, as many on all, from member to member in pieces.
std::shared_ptr<collective> broadcast(std::shared_ptr<mesh> through, std::uint64_t lane, std::uint32_t root,
                                      std::span<std::byte> data, std::shared_ptr<void> owner);

} // namespace dynamix::exchange
