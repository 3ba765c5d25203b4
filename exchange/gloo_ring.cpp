#include "exchange/gloo_ring.hpp"

#include "exchange/exact_sum.hpp"
#include "exchange/peer_links.hpp"
#include "links/inner_listener.hpp"

#include <gloo/context.h>
#include <gloo/transport/tcp/address.h>
#include <gloo/transport/unbound_buffer.h>
#include <gloo/types.h>
#include <spdlog/fmt/fmt.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
#include <future>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

namespace dynamix::exchange {

namespace {

using milliseconds = std::chrono::milliseconds;

/// Runs `action` at the library's border: whatever it throws leaves as an exchange::error.
template <typename Action>
auto at_border(const char* what, Action&& action) {
  try {
    return action();
  } catch (const error&) {
    throw;
  } catch (const c10::Error& problem) {
    throw error(fmt::format("{}: {}", what, problem.what_without_backtrace()));
  } catch (const std::exception& problem) {
    throw error(fmt::format("{}: {}", what, problem.what()));
  }
}

/// A little longer each time, so that a store on another host is not flooded.
class back_off {
public:
  double next_seconds() { return seconds_ = std::min(2 * seconds_, 0.1); }

private:
  double seconds_ = 0.001;
};

/// Gloo listens for every pair, and the one of the two whose address is higher connects. Over links each end is to
/// connect, to an end within its own process, so it listens at the highest address of loopback, which is a broadcast
/// address: nobody can connect to it, on this machine either.
constexpr const char* unreachable_address = "127.255.255.255";

/// The position in the key under which Gloo keeps a member's addresses: "0/3"; nothing for other keys.
std::optional<std::uint32_t> position_in(const std::string& key) {
  std::uint32_t position = 0;
  if (!key.starts_with("0/") ||
      std::from_chars(key.data() + 2, key.data() + key.size(), position).ptr != key.data() + key.size())
    return std::nullopt;
  return position;
}

/// Our store as c10d's: keys under the group's prefix, and waiting, which ours does not have. Gloo's connecting may go
/// on after it was given up, so ours is used until `close` only; later calls throw. Over links Gloo gets addresses
/// within this process, and the store none of it.
class meeting_store final : public c10d::Store {
  template <typename Call>
  auto ask(Call&& call) {
    const std::lock_guard lock(mutex_);
    if (backing_ == nullptr)
      throw store_error("the group was given up while its members were meeting");
    return call(*backing_);
  }

public:
  meeting_store(const place& own, store& backing)
      : c10d::Store(milliseconds(own.join_timeout_ms)), backing_(&backing), prefix_(own.store_prefix),
        members_(own.members) {}

  /// Before Gloo connects.
  void lead_to(std::shared_ptr<peer_links::ends> ends) { ends_ = std::move(ends); }

  /// Waits for the call that is under way.
  void close() {
    const std::lock_guard lock(mutex_);
    backing_ = nullptr;
  }

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    if (!is_led(key))
      ask([&](store& backing) { backing.set(full(key), value); });
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    if (is_led(key))
      return addresses_for(*position_in(key));
    wait({key});
    auto value = ask([&](store& backing) { return backing.get(full(key)); });
    if (!value)
      throw store_error(fmt::format("the key {} has gone from the store", key));
    return std::move(*value);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return ask([&](store& backing) { return backing.add(full(key), value); });
  }
  bool deleteKey(const std::string& key) override {
    return ask([&](store& backing) { return backing.remove(full(key)); });
  }
  bool check(const std::vector<std::string>& keys) override {
    std::vector<std::string> prefixed;
    prefixed.reserve(keys.size());
    for (const auto& key : keys)
      if (!is_led(key))
        prefixed.push_back(full(key));
    return prefixed.empty() || ask([&](store& backing) { return backing.check(prefixed); });
  }
  std::int64_t getNumKeys() override {
    return ask([](store& backing) { return backing.count(); });
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  /// For as long as the join may take: Gloo's own time-out is for connecting.
  void wait(const std::vector<std::string>& keys, const milliseconds&) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout_;
    back_off poll;
    while (!check(keys)) {
      if (std::chrono::steady_clock::now() > deadline)
        throw store_error(fmt::format("a peer has not announced its address within {} ms", timeout_.count()));
      std::this_thread::sleep_for(std::chrono::duration<double>(poll.next_seconds()));
    }
  }

private:
  std::string full(const std::string& key) const { return prefix_ + "/" + key; }
  bool is_led(const std::string& key) const { return ends_ && position_in(key); }

  /// A member's addresses for all others, of which Gloo takes the one for this member: they are all the same.
  std::vector<std::uint8_t> addresses_for(std::uint32_t position) const {
    const auto rank = members_.at(position);
    const auto end = links::socket_address(ends_->address(rank), ends_->port(rank));
    sockaddr_storage address{};
    std::memcpy(&address, end.data(), std::min(end.size(), sizeof address));
    const auto one = gloo::transport::tcp::Address(address).bytes();
    std::vector<std::uint8_t> all;
    for (std::size_t i = 1; i < members_.size(); ++i)
      all.insert(all.end(), one.begin(), one.end());
    return all;
  }

  std::mutex mutex_;
  store* backing_;
  const std::string prefix_;
  const std::vector<std::uint32_t> members_;
  std::shared_ptr<peer_links::ends> ends_; ///< null: Gloo's addresses are those that it connects to
};

using meeting_pointer = c10::intrusive_ptr<meeting_store>;

std::string presence_of(std::uint32_t rank) {
  return fmt::format("present/{}", rank);
}

/// Announces this worker and waits for the others, so that a time-out can name who is missing. Gloo's own text cannot.
void await_members(const place& own, meeting_store& meeting, const interruption& stop) {
  std::vector<std::string> keys;
  for (const auto rank : own.members)
    keys.push_back(presence_of(rank));
  meeting.set(presence_of(own.rank), own.links ? own.links->announcement() : std::vector<std::uint8_t>{1});
  const auto deadline = std::chrono::steady_clock::now() + milliseconds(own.join_timeout_ms);
  back_off poll;
  while (!meeting.check(keys)) {
    if (std::chrono::steady_clock::now() > deadline) {
      std::vector<std::uint32_t> missing;
      for (std::size_t i = 0; i < keys.size(); ++i)
        if (!meeting.check({keys[i]}))
          missing.push_back(own.members[i]);
      if (missing.empty())
        return;
      throw error(fmt::format("after {} ms the workers of these ranks have not come: {}", own.join_timeout_ms,
                              fmt::join(missing, ", ")));
    }
    if (stop.wait_for(poll.next_seconds()))
      throw error(stop.reason());
  }
}

class gloo_transfer final : public transfer {
public:
  gloo_transfer(std::shared_ptr<gloo::Context> context, void* bytes, std::size_t count)
      : context_(std::move(context)), buffer_(context_->createUnboundBuffer(bytes, count)) {}

  void begin_sending(std::uint32_t to, std::uint64_t slot) {
    at_border("send", [&] { buffer_->send(static_cast<int>(to), slot); });
  }
  void begin_receiving(std::uint32_t from, std::uint64_t slot) {
    receives_ = true;
    at_border("receive", [&] { buffer_->recv(static_cast<int>(from), slot); });
  }
  void wait() override {
    at_border(receives_ ? "receive" : "send", [this] {
      const auto timeout = context_->getTimeout();
      return receives_ ? buffer_->waitRecv(timeout) : buffer_->waitSend(timeout);
    });
  }
  void wait_for_long() override {
    static constexpr std::chrono::hours year(365 * 24);
    at_border("receive", [this] { return receives_ ? buffer_->waitRecv(year) : buffer_->waitSend(year); });
  }

private:
  std::shared_ptr<gloo::Context> context_;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
  bool receives_ = false;
};

/// Keeps Gloo's connections, and nothing of c10d's process group, whose collectives use other slots.
class gloo_messages final : public peer_messages {
public:
  explicit gloo_messages(std::shared_ptr<gloo::Context> context) : context_(std::move(context)) {}

  std::unique_ptr<transfer> send(std::uint32_t to, std::uint8_t lane, std::span<const std::byte> bytes) override {
    // Gloo has one kind of buffer for both directions, and writes nothing into one that is sent.
    auto made = std::make_unique<gloo_transfer>(context_, const_cast<std::byte*>(bytes.data()), bytes.size());
    made->begin_sending(to, slot_of(lane));
    return made;
  }
  std::unique_ptr<transfer> receive(std::uint32_t from, std::uint8_t lane, std::span<std::byte> bytes) override {
    auto made = std::make_unique<gloo_transfer>(context_, bytes.data(), bytes.size());
    made->begin_receiving(from, slot_of(lane));
    return made;
  }

private:
  /// Gloo's collectives have prefixes from 1 to 8.
  static std::uint64_t slot_of(std::uint8_t lane) { return gloo::Slot::build(0x20, lane); }

  std::shared_ptr<gloo::Context> context_;
};

/// Gloo waits this many times a pair's time-out for the pair's connection.
constexpr std::uint32_t connect_factor = 5;

class process_group final : public c10d::ProcessGroupGloo {
public:
  process_group(const meeting_pointer& meeting, const place& own)
      : c10d::ProcessGroupGloo(meeting, static_cast<int>(own.position_of(own.rank)),
                               static_cast<int>(own.members.size()), options_for(own)) {
    for (const auto& context : contexts_)
      context->setTimeout(milliseconds(own.collective_timeout_ms));
  }

  /// Fails everything that waits, and closes all connections. Gloo has no call for it, but does so when a wait for a
  /// buffer times out.
  void abort() {
    for (const auto& context : contexts_) {
      char never_received = 0;
      try {
        context->createUnboundBuffer(&never_received, 1)->waitRecv(nullptr, milliseconds(1));
      } catch (const std::exception&) {
        // The time-out that it is for.
      }
    }
  }

  std::shared_ptr<peer_messages> messages() const { return std::make_shared<gloo_messages>(contexts_.front()); }

private:
  static c10::intrusive_ptr<Options> options_for(const place& own) {
    auto options = Options::create(milliseconds(std::max(1000U, own.collective_timeout_ms / connect_factor)));
    options->devices.push_back(createDeviceForHostname(own.links ? unreachable_address : own.address));
    options->threads = 2;
    return options;
  }
};

using process_group_pointer = c10::intrusive_ptr<process_group>;

/// What the thread that connects hands over; the last of the two to let go destroys a process group that nobody took.
struct connecting {
  std::mutex mutex;
  process_group_pointer group;
  std::exception_ptr problem;
};

/// Builds the group. Over links Gloo finds itself connected at once; what it writes waits for the links.
process_group_pointer make_group(const place& own, const meeting_pointer& meeting) {
  if (!own.links)
    return c10::make_intrusive<process_group>(meeting, own);
  peer_links::announcements announced;
  for (const auto rank : own.members)
    announced[rank] = meeting->get(presence_of(rank));
  std::string problem;
  const std::shared_ptr<peer_links::ends> ends = own.links->open(own, announced, problem);
  if (!ends)
    throw error(problem);
  meeting->lead_to(ends);
  auto group = c10::make_intrusive<process_group>(meeting, own);
  if (problem = ends->carry(); !problem.empty())
    throw error(problem);
  return group;
}

/// Builds the mesh of connections on a thread of its own, since Gloo's waiting for a peer cannot be ended. A thread
/// that is left behind ends when the peer connects or the time-out is over.
process_group_pointer connect(const place& own, meeting_pointer meeting, const interruption& stop) {
  auto shared = std::make_shared<connecting>();
  auto connected = stop.make_event();
  std::thread([shared, connected, own, meeting = std::move(meeting)]() mutable {
    block_broken_pipe_signal();
    try {
      auto group = make_group(own, meeting);
      const std::lock_guard lock(shared->mutex);
      shared->group = std::move(group);
    } catch (...) {
      const std::lock_guard lock(shared->mutex);
      shared->problem = std::current_exception();
    }
    meeting.reset();
    connected->complete();
  }).detach();
  if (!stop.wait(*connected))
    throw error(stop.reason());
  const std::lock_guard lock(shared->mutex);
  if (shared->problem)
    std::rethrow_exception(shared->problem);
  return std::move(shared->group);
}

/// A collective of c10d's in flight. Its handle keeps the tensors alive until Gloo has let go of them, also where
/// nobody waits any more.
class work {
public:
  template <typename Collective>
  work(const char* name, const interruption& stop, Collective&& begin)
      : name_(name), stop_(stop), handle_(at_border(name, begin)) {}

  /// c10d's own wait knows no interruption: so its completion rings a bell that the interruption rings, too.
  void wait() {
    at_border(name_, [this] {
      if (!handle_->isCompleted()) {
        auto arrived = stop_.make_event();
        handle_->getFuture()->addCallback([arrived](c10::ivalue::Future&) { arrived->complete(); });
        if (!stop_.wait(*arrived))
          throw error(stop_.reason());
      }
      return handle_->wait();
    });
  }

private:
  const char* name_;
  const interruption& stop_;
  c10::intrusive_ptr<c10d::Work> handle_;
};

/// One tensor: the gradients, then the digits of the sums. So a bucket is one all-reduce, and no step waits twice.
class ring_bucket final : public flat_bucket {
public:
  ring_bucket(process_group& group, const interruption& stop, element type, std::size_t gradients, std::size_t sums)
      : group_(group), stop_(stop), gradient_count_(gradients), sums_(sums),
        flat_(torch::zeros({static_cast<std::int64_t>(gradients + sums * exact_digits)},
                           type == element::float64 ? torch::kFloat64 : torch::kFloat32)) {}

  std::variant<std::span<float>, std::span<double>> gradients() override {
    if (flat_.scalar_type() == torch::kFloat64)
      return std::span(flat_.data_ptr<double>(), gradient_count_);
    return std::span(flat_.data_ptr<float>(), gradient_count_);
  }
  std::span<double> sums() override { return sums_; }

  void start() override {
    split();
    std::vector<at::Tensor> tensors{flat_};
    pending_.emplace("all-reduce", stop_, [&] { return group_.allreduce(tensors); });
  }
  void wait() override {
    std::exchange(pending_, std::nullopt)->wait();
    unpack();
  }

  std::span<float> pack() override {
    split();
    return {flat_.data_ptr<float>(), static_cast<std::size_t>(flat_.numel())};
  }
  void unpack() override {
    with_digits([this]<typename Scalar>(std::span<Scalar> digits) {
      join_digits(std::span<const Scalar>(digits), std::span(sums_));
    });
  }

private:
  void split() {
    with_digits([this](auto digits) { split_into_digits(std::span<const double>(sums_), digits); });
  }

  template <typename Action>
  void with_digits(Action&& action) {
    std::visit(
        [&](auto gradients) { action(std::span(gradients.data() + gradients.size(), sums_.size() * exact_digits)); },
        gradients());
  }

  process_group& group_;
  const interruption& stop_;
  const std::size_t gradient_count_;
  std::vector<double> sums_;
  const torch::Tensor flat_;
  std::optional<work> pending_;
};

class ring_gathering final : public gathering {
public:
  ring_gathering(process_group& group, const interruption& stop, std::span<const std::int64_t> row)
      : rows_(torch::empty({group.getSize(), static_cast<std::int64_t>(row.size())}, torch::kInt64)),
        pending_("all-gather", stop, [&] {
          std::vector<at::Tensor> inputs{torch::tensor(at::ArrayRef(row.data(), row.size()), torch::kInt64)};
          std::vector<std::vector<at::Tensor>> outputs{rows_.unbind(0)};
          return group.allgather(outputs, inputs);
        }) {}

  std::vector<std::int64_t> wait() override {
    pending_.wait();
    const auto* numbers = rows_.data_ptr<std::int64_t>();
    return {numbers, numbers + rows_.numel()};
  }

private:
  const torch::Tensor rows_;
  work pending_;
};

/// The memory as a tensor, which keeps it for as long as Gloo has the tensor.
template <typename Element>
torch::Tensor share(const std::shared_ptr<std::vector<Element>>& memory, torch::ScalarType type) {
  return torch::from_blob(
      memory->data(), {static_cast<std::int64_t>(memory->size())}, [memory](void*) {}, type);
}

class ring_pending final : public pending {
public:
  template <typename Collective>
  ring_pending(const char* name, const interruption& stop, Collective&& begin)
      : work_(name, stop, std::forward<Collective>(begin)) {}
  void wait() override { work_.wait(); }

private:
  work work_;
};

class gloo_ring final : public ring_group {
public:
  gloo_ring(const place& own, process_group_pointer group, const interruption& stop)
      : position_(own.position_of(own.rank)), size_(static_cast<std::uint32_t>(own.members.size())),
        group_(std::move(group)), stop_(stop) {}

  /// The process group's destructor first finishes its queue, and its threads with it. Should something hold it up, it
  /// runs on by itself; what it still touches belongs to it.
  ~gloo_ring() override {
    std::promise<void> promise;
    auto finished = promise.get_future();
    std::thread([group = std::move(group_), orderly = left_, promise = std::move(promise)]() mutable {
      block_broken_pipe_signal();
      if (!orderly)
        group->abort();
      group.reset();
      promise.set_value();
    }).detach();
    finished.wait_for(milliseconds(left_ ? 2000 : 500));
  }

  std::uint32_t position() const override { return position_; }
  std::uint32_t size() const override { return size_; }
  std::shared_ptr<peer_messages> messages() override { return group_->messages(); }

  std::unique_ptr<bucket> make_bucket(element type, std::size_t gradients, std::size_t sums) override {
    return std::make_unique<ring_bucket>(*group_, stop_, type, gradients, sums);
  }
  std::unique_ptr<flat_bucket> make_flat_bucket(std::size_t gradients, std::size_t sums) override {
    return std::make_unique<ring_bucket>(*group_, stop_, element::float32, gradients, sums);
  }

  std::unique_ptr<gathering> all_gather(std::span<const std::int64_t> row) override {
    return std::make_unique<ring_gathering>(*group_, stop_, row);
  }

  std::unique_ptr<pending> combine(shared_words words, combining how) override {
    return std::make_unique<ring_pending>("all-reduce", stop_, [&] {
      std::vector<at::Tensor> tensors{share(words, torch::kInt64)};
      c10d::AllreduceOptions options;
      options.reduceOp = how == combining::bitwise_or ? c10d::ReduceOp::BOR : c10d::ReduceOp::SUM;
      return group_->allreduce(tensors, options);
    });
  }

  std::unique_ptr<pending> exchange_blocks(shared_floats blocks, shared_floats into) override {
    return std::make_unique<ring_pending>("all-to-all", stop_, [&] {
      auto from = share(blocks, torch::kFloat32);
      auto to = share(into, torch::kFloat32);
      std::vector<std::int64_t> equal;
      return group_->alltoall_base(to, from, equal, equal);
    });
  }

  std::vector<std::uint8_t> broadcast(std::uint32_t root, std::span<const std::uint8_t> bytes) override {
    const bool sends = position_ == root;
    auto length = torch::tensor({sends ? static_cast<std::int64_t>(bytes.size()) : 0}, torch::kInt64);
    broadcast(length, root);
    const auto count = length.item<std::int64_t>();
    if (count < 0 || static_cast<std::uint64_t>(count) > broadcast_bytes_max)
      throw error(fmt::format("a peer announces {} bytes; {} are allowed", count, broadcast_bytes_max));
    // Not over the caller's memory: a broadcast that is given up may go on for a while, and then keeps these bytes.
    const auto contents = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(count));
    if (sends)
      std::ranges::copy(bytes, contents->begin());
    if (count > 0)
      broadcast(torch::from_blob(
                    contents->data(), {count}, [contents](void*) {}, torch::kUInt8),
                root);
    return std::move(*contents);
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
  void broadcast(const torch::Tensor& tensor, std::uint32_t root) {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = static_cast<int>(root);
    work("broadcast", stop_, [&] { return group_->broadcast(tensors, options); }).wait();
  }

  std::uint32_t position_;
  std::uint32_t size_;
  process_group_pointer group_;
  const interruption& stop_;
  bool left_ = false;
};

} // namespace

void block_broken_pipe_signal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

std::unique_ptr<ring_group> join_gloo_ring(const place& own, store& rendezvous, const interruption& stop) {
  if (own.members.size() > exact_members_max)
    throw error(fmt::format("{} members; at most {} are allowed", own.members.size(), exact_members_max));
  const auto meeting = c10::make_intrusive<meeting_store>(own, rendezvous);
  const auto close = [](meeting_store* closed) { closed->close(); };
  const std::unique_ptr<meeting_store, decltype(close)> until_joined(meeting.get());
  return at_border("cannot join the other workers", [&]() -> std::unique_ptr<ring_group> {
    await_members(own, *meeting, stop);
    return std::make_unique<gloo_ring>(own, connect(own, meeting, stop), stop);
  });
}

} // namespace dynamix::exchange
