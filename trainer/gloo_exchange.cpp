#include "trainer/gloo_exchange.hpp"

#include "trainer/gloo_rendezvous.hpp"

#include <gloo/context.h>
#include <gloo/transport/unbound_buffer.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <mutex>
#include <string>
#include <thread>

namespace dynamix::trainer {

namespace {

/// Runs `action` at the library's border: whatever it throws leaves as an exchange_error.
template <typename Action>
auto at_border(const char* what, Action&& action) {
  try {
    return action();
  } catch (const exchange_error&) {
    throw;
  } catch (const c10::Error& error) {
    throw exchange_error(std::string(what) + ": " + error.what_without_backtrace());
  } catch (const std::exception& error) {
    throw exchange_error(std::string(what) + ": " + error.what());
  }
}

/// Gloo waits this many times a pair's time-out for the pair's connection.
constexpr std::uint32_t connect_factor = 5;

class process_group final : public c10d::ProcessGroupGloo {
public:
  process_group(const c10::intrusive_ptr<c10d::Store>& meeting, const membership& place)
      : c10d::ProcessGroupGloo(meeting, static_cast<int>(position_of(place, place.rank)),
                               static_cast<int>(place.members.size()), options_for(place)) {
    for (const auto& context : contexts_)
      context->setTimeout(std::chrono::milliseconds(place.collective_timeout_ms));
  }

  /// Fails everything that waits, and closes all connections. Gloo has no call for it, but does so when a wait for a
  /// buffer times out.
  void abort() {
    for (const auto& context : contexts_) {
      char never_received = 0;
      try {
        context->createUnboundBuffer(&never_received, 1)->waitRecv(nullptr, std::chrono::milliseconds(1));
      } catch (const std::exception&) {
        // The time-out that it is for.
      }
    }
  }

private:
  static c10::intrusive_ptr<Options> options_for(const membership& place) {
    auto options =
        Options::create(std::chrono::milliseconds(std::max(1000U, place.collective_timeout_ms / connect_factor)));
    options->devices.push_back(createDeviceForHostname(place.address));
    options->threads = 2;
    return options;
  }
};

using group_pointer = c10::intrusive_ptr<process_group>;

/// What the thread that connects hands over; the last of the two to let go destroys a group that nobody took.
struct connecting {
  std::mutex mutex;
  group_pointer group;
  std::exception_ptr error;
};

/// Gloo writes to a connection that the peer has closed, which would end the process. The threads that it starts
/// inherit what is blocked here, and get an error instead.
void block_broken_pipe_signal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

/// Builds the mesh of connections on a thread of its own, since Gloo's waiting for a peer cannot be ended. A thread
/// that is left behind ends when the peer connects or the time-out is over.
group_pointer connect(const membership& place, c10::intrusive_ptr<c10d::Store> meeting, const interruption& stop) {
  auto shared = std::make_shared<connecting>();
  auto connected = stop.make_event();
  std::thread([shared, connected, place, meeting = std::move(meeting)]() mutable {
    block_broken_pipe_signal();
    try {
      auto group = c10::make_intrusive<process_group>(meeting, place);
      const std::lock_guard lock(shared->mutex);
      shared->group = std::move(group);
    } catch (...) {
      const std::lock_guard lock(shared->mutex);
      shared->error = std::current_exception();
    }
    meeting.reset();
    connected->complete();
  }).detach();
  if (!stop.wait(*connected))
    throw exchange_error(stop.reason());
  const std::lock_guard lock(shared->mutex);
  if (shared->error)
    std::rethrow_exception(shared->error);
  return std::move(shared->group);
}

class gloo_exchange final : public exchange {
public:
  gloo_exchange(const membership& place, group_pointer group, const interruption& stop)
      : position_(position_of(place, place.rank)), world_size_(static_cast<std::uint32_t>(place.members.size())),
        group_(std::move(group)), stop_(stop) {}

  /// The group's destructor first finishes its queue, and its threads with it. Should something hold it up, it runs on
  /// by itself; what it still touches belongs to it.
  ~gloo_exchange() override {
    std::promise<void> promise;
    auto finished = promise.get_future();
    std::thread([group = std::move(group_), orderly = left_, promise = std::move(promise)]() mutable {
      block_broken_pipe_signal();
      if (!orderly)
        group->abort();
      group.reset();
      promise.set_value();
    }).detach();
    finished.wait_for(std::chrono::milliseconds(left_ ? 2000 : 500));
  }

  std::uint32_t position() const override { return position_; }
  std::uint32_t world_size() const override { return world_size_; }

  std::unique_ptr<pending_exchange> all_reduce_sum(torch::Tensor tensor) override {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return start("all-reduce", [&] { return group_->allreduce(tensors); });
  }

  std::unique_ptr<pending_exchange> all_gather(torch::Tensor row, torch::Tensor rows) override {
    std::vector<at::Tensor> inputs{std::move(row)};
    std::vector<std::vector<at::Tensor>> outputs{rows.unbind(0)};
    return start("all-gather", [&] { return group_->allgather(outputs, inputs); });
  }

  void broadcast(torch::Tensor tensor, std::uint32_t root) override {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = static_cast<int>(root);
    start("broadcast", [&] { return group_->broadcast(tensors, options); })->wait();
  }

  /// Who comes out of this gather knows that all peers have gone into it, so their earlier collectives are complete: a
  /// connection that closes from then on takes nothing away from anybody.
  void leave() noexcept override {
    try {
      all_gather(torch::zeros({1}, torch::kInt64), torch::zeros({world_size(), 1}, torch::kInt64))->wait();
      left_ = true;
    } catch (const std::exception&) {
      // A peer came out first and has closed its connections, or is gone; neither matters any more.
    }
  }

private:
  class work final : public pending_exchange {
  public:
    work(const char* name, c10::intrusive_ptr<c10d::Work> handle, const interruption& stop)
        : name_(name), handle_(std::move(handle)), stop_(stop) {}
    void wait() override {
      at_border(name_, [this] {
        if (!handle_->isCompleted()) {
          auto arrived = stop_.make_event();
          handle_->getFuture()->addCallback([arrived](c10::ivalue::Future&) { arrived->complete(); });
          if (!stop_.wait(*arrived))
            throw exchange_error(stop_.reason());
        }
        return handle_->wait();
      });
    }

  private:
    const char* name_;
    c10::intrusive_ptr<c10d::Work> handle_;
    const interruption& stop_;
  };

  template <typename Collective>
  std::unique_ptr<pending_exchange> start(const char* name, Collective&& collective) {
    return std::make_unique<work>(name, at_border(name, collective), stop_);
  }

  std::uint32_t position_;
  std::uint32_t world_size_;
  group_pointer group_;
  const interruption& stop_;
  bool left_ = false;
};

} // namespace

std::unique_ptr<exchange> join_gloo_exchange(const membership& place, store& rendezvous, clock& time,
                                             const interruption& stop) {
  return at_border("cannot join the other workers", [&] {
    gloo_rendezvous meeting(place, rendezvous);
    meeting.await_members(time, stop);
    return std::unique_ptr<exchange>(
        std::make_unique<gloo_exchange>(place, connect(place, meeting.c10d_store(), stop), stop));
  });
}

} // namespace dynamix::trainer
