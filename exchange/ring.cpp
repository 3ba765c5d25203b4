#include "exchange/ring.hpp"

#include "exchange/collectives.hpp"
#include "exchange/exact_sum.hpp"
#include "exchange/meeting.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace dynamix::exchange {
namespace {

using std::chrono::milliseconds;

/// Lanes below are those of messages.
constexpr std::uint64_t first_collective_lane = std::uint64_t{1} << 32;

constexpr std::size_t broadcast_part_bytes = 32 << 20;
/// Of what is announced, before it has come: a machine may refuse more.
constexpr std::uint64_t reserved_bytes_max = 1 << 30;

/// Waits for one message. Shared with its completion, which may come when nobody waits any more.
struct arrival {
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<std::string> result;

  mesh::completion completion(const std::shared_ptr<arrival>& self) {
    return [self](const std::string& problem) {
      const std::lock_guard lock(self->mutex);
      self->result = problem;
      self->changed.notify_all();
    };
  }
};

class mesh_transfer final : public transfer {
public:
  mesh_transfer(std::shared_ptr<mesh> through, std::shared_ptr<arrival> arrives, milliseconds timeout)
      : mesh_(std::move(through)), arrives_(std::move(arrives)), timeout_(timeout) {}
  /// The memory is the caller's again afterwards.
  ~mesh_transfer() override {
    std::unique_lock lock(arrives_->mutex);
    if (arrives_->result)
      return;
    mesh_->break_up("a message was given up");
    arrives_->changed.wait(lock, [this] { return arrives_->result.has_value(); });
  }

  void wait() override {
    std::unique_lock lock(arrives_->mutex);
    if (!arrives_->changed.wait_for(lock, timeout_, [this] { return arrives_->result.has_value(); })) {
      const auto problem = fmt::format("a message has not left or come within {} ms", timeout_.count());
      mesh_->break_up(problem);
      throw error(problem);
    }
    throw_if_failed();
  }
  void wait_for_long() override {
    std::unique_lock lock(arrives_->mutex);
    arrives_->changed.wait(lock, [this] { return arrives_->result.has_value(); });
    throw_if_failed();
  }

private:
  void throw_if_failed() const {
    if (!arrives_->result->empty())
      throw error(*arrives_->result);
  }

  const std::shared_ptr<mesh> mesh_;
  const std::shared_ptr<arrival> arrives_;
  const milliseconds timeout_;
};

class mesh_messages final : public peer_messages {
public:
  mesh_messages(std::shared_ptr<mesh> through, milliseconds timeout) : mesh_(std::move(through)), timeout_(timeout) {}

  std::unique_ptr<transfer> send(std::uint32_t to, std::uint8_t lane, std::span<const std::byte> bytes) override {
    return begin([=](mesh& through, mesh::completion done) { through.send(to, lane, bytes, std::move(done)); });
  }
  std::unique_ptr<transfer> receive(std::uint32_t from, std::uint8_t lane, std::span<std::byte> bytes) override {
    return begin([=](mesh& through, mesh::completion done) { through.receive(from, lane, bytes, std::move(done)); });
  }

private:
  template <typename Action>
  std::unique_ptr<transfer> begin(Action action) {
    auto arrives = std::make_shared<arrival>();
    mesh_->run([through = mesh_, arrives, action] { action(*through, arrives->completion(arrives)); });
    return std::make_unique<mesh_transfer>(mesh_, std::move(arrives), timeout_);
  }

  const std::shared_ptr<mesh> mesh_;
  const milliseconds timeout_;
};

/// What all collectives of a group need.
struct context {
  std::shared_ptr<mesh> through;
  const interruption* stop = nullptr;
  milliseconds timeout{0};
  std::uint64_t next_lane = first_collective_lane;

  /// `make(mesh, lane)`, begun.
  template <typename Make>
  std::shared_ptr<collective> start(Make make) {
    auto made = make(through, next_lane++);
    made->start(*stop);
    return made;
  }
  void wait(collective& begun) const { begun.wait(*stop, timeout); }
};

/// The gradients, then the digits of the sums. So a bucket is one all-reduce, and no step waits twice.
template <typename Scalar>
class ring_bucket final : public flat_bucket {
public:
  ring_bucket(std::shared_ptr<context> group, std::size_t gradients, std::size_t sums)
      : group_(std::move(group)), gradient_count_(gradients), sums_(sums),
        flat_(std::make_shared<std::vector<Scalar>>(gradients + sums * exact_digits)) {}

  std::variant<std::span<float>, std::span<double>> gradients() override {
    return std::span(flat_->data(), gradient_count_);
  }
  std::span<double> sums() override { return sums_; }

  void start() override {
    split();
    pending_ = group_->start([&](const auto& through, std::uint64_t lane) {
      return all_reduce(through, lane, std::as_writable_bytes(std::span(*flat_)), flat_,
                        std::is_same_v<Scalar, float> ? arithmetic::add_float32 : arithmetic::add_float64);
    });
  }
  void wait() override {
    group_->wait(*std::exchange(pending_, nullptr));
    unpack();
  }

  std::span<float> pack() override {
    if constexpr (std::is_same_v<Scalar, float>) {
      split();
      return *flat_;
    }
    return {};
  }
  void unpack() override { join_digits(std::span<const Scalar>(digits()), std::span(sums_)); }

private:
  void split() { split_into_digits(std::span<const double>(sums_), digits()); }
  std::span<Scalar> digits() { return std::span(*flat_).subspan(gradient_count_); }

  const std::shared_ptr<context> group_;
  const std::size_t gradient_count_;
  std::vector<double> sums_;
  const std::shared_ptr<std::vector<Scalar>> flat_;
  std::shared_ptr<collective> pending_;
};

class ring_gathering final : public gathering {
public:
  ring_gathering(std::shared_ptr<context> group, std::span<const std::int64_t> row)
      : group_(std::move(group)),
        rows_(std::make_shared<std::vector<std::int64_t>>(row.size() * group_->through->size())) {
    std::ranges::copy(row, rows_->begin() + static_cast<std::ptrdiff_t>(group_->through->position() * row.size()));
    pending_ = group_->start([&](const auto& through, std::uint64_t lane) {
      return exchange::all_gather(through, lane, std::as_writable_bytes(std::span(*rows_)), rows_);
    });
  }
  std::vector<std::int64_t> wait() override {
    group_->wait(*pending_);
    return std::move(*rows_);
  }

private:
  const std::shared_ptr<context> group_;
  const std::shared_ptr<std::vector<std::int64_t>> rows_;
  std::shared_ptr<collective> pending_;
};

class ring_pending final : public pending {
public:
  ring_pending(std::shared_ptr<context> group, std::shared_ptr<collective> begun)
      : group_(std::move(group)), begun_(std::move(begun)) {}
  void wait() override { group_->wait(*begun_); }

private:
  const std::shared_ptr<context> group_;
  const std::shared_ptr<collective> begun_;
};

class mesh_ring final : public ring_group {
public:
  explicit mesh_ring(context made) : group_(std::make_shared<context>(std::move(made))) {}

  ~mesh_ring() override {
    if (left_)
      group_->through->finish();
    else
      group_->through->break_up("the group was left");
  }

  std::uint32_t position() const override { return group_->through->position(); }
  std::uint32_t size() const override { return group_->through->size(); }
  std::shared_ptr<peer_messages> messages() override {
    return std::make_shared<mesh_messages>(group_->through, group_->timeout);
  }

  std::unique_ptr<bucket> make_bucket(element type, std::size_t gradients, std::size_t sums) override {
    if (type == element::float64)
      return std::make_unique<ring_bucket<double>>(group_, gradients, sums);
    return make_flat_bucket(gradients, sums);
  }
  std::unique_ptr<flat_bucket> make_flat_bucket(std::size_t gradients, std::size_t sums) override {
    return std::make_unique<ring_bucket<float>>(group_, gradients, sums);
  }

  std::unique_ptr<gathering> all_gather(std::span<const std::int64_t> row) override {
    return std::make_unique<ring_gathering>(group_, row);
  }

  std::unique_ptr<pending> combine(shared_words words, combining how) override {
    return start([&](const auto& through, std::uint64_t lane) {
      return all_reduce(through, lane, std::as_writable_bytes(std::span(*words)), words,
                        how == combining::bitwise_or ? arithmetic::or_words : arithmetic::add_words);
    });
  }

  std::unique_ptr<pending> exchange_blocks(shared_floats blocks, shared_floats into) override {
    return start([&](const auto& through, std::uint64_t lane) {
      auto both = std::make_shared<std::pair<shared_floats, shared_floats>>(blocks, into);
      return all_to_all(through, lane, std::as_bytes(std::span(*blocks)), std::as_writable_bytes(std::span(*into)),
                        std::move(both));
    });
  }

  std::vector<std::uint8_t> broadcast(std::uint32_t root, std::span<const std::uint8_t> bytes) override {
    const auto length = std::make_shared<std::uint64_t>(bytes.size());
    send_around(root, std::as_writable_bytes(std::span(length.get(), 1)), length);
    if (*length > broadcast_bytes_max)
      throw error(fmt::format("a peer announces {} bytes; {} are allowed", *length, broadcast_bytes_max));
    // Memory is taken as bytes come, and not as they are announced. Not over the caller's or the result's: a broadcast
    // that is given up may go on for a while, and then keeps its part.
    std::vector<std::uint8_t> contents;
    contents.reserve(std::min<std::uint64_t>(*length, reserved_bytes_max));
    while (contents.size() < *length) {
      const auto size = std::min<std::size_t>(broadcast_part_bytes, *length - contents.size());
      const auto part = std::make_shared<std::vector<std::uint8_t>>(size);
      if (position() == root)
        std::ranges::copy(bytes.subspan(contents.size(), size), part->begin());
      send_around(root, std::as_writable_bytes(std::span(*part)), part);
      contents.insert(contents.end(), part->begin(), part->end());
    }
    return contents;
  }

  /// Who comes out of this gather knows that all peers have gone into it, so their earlier collectives are complete: a
  /// connection that closes from then on takes nothing away from anybody.
  void leave(std::uint64_t) noexcept override {
    try {
      const std::int64_t goodbye = 0;
      all_gather({&goodbye, 1})->wait();
      left_ = true;
    } catch (const std::exception&) {
      // A peer came out first and has closed its connections, or is gone; neither matters any more.
    }
  }

private:
  template <typename Make>
  std::unique_ptr<pending> start(Make make) {
    return std::make_unique<ring_pending>(group_, group_->start(make));
  }
  void send_around(std::uint32_t root, std::span<std::byte> data, std::shared_ptr<void> owner) {
    start([&](const auto& through, std::uint64_t lane) {
      return exchange::broadcast(through, lane, root, data, std::move(owner));
    })->wait();
  }

  const std::shared_ptr<context> group_;
  bool left_ = false;
};

} // namespace

std::unique_ptr<ring_group> join_ring(const place& own, store& rendezvous, const interruption& stop) {
  if (own.members.size() > exact_members_max)
    throw error(fmt::format("{} members; at most {} are allowed", own.members.size(), exact_members_max));
  std::vector<int> sockets;
  try {
    for (auto& each : meet(own, rendezvous, stop))
      sockets.push_back(each.release());
  } catch (const error& problem) {
    throw error(stop.raised() ? stop.reason() : fmt::format("cannot join the other workers: {}", problem.what()));
  } catch (const store_error& problem) {
    throw error(fmt::format("cannot join the other workers: {}", problem.what()));
  }
  return std::make_unique<mesh_ring>(context{.through = mesh::start(std::move(sockets), own.members,
                                                                    own.position_of(own.rank)),
                                             .stop = &stop,
                                             .timeout = milliseconds(own.collective_timeout_ms)});
}

} // namespace dynamix::exchange
