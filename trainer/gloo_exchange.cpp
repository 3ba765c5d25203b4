#include "trainer/gloo_exchange.hpp"

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <chrono>
#include <future>
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

/// Sleeps a little longer each time, so that a store on another host is not flooded.
class back_off {
public:
  explicit back_off(clock& time) : time_(time) {}
  void pause() {
    time_.sleep_seconds(seconds_);
    seconds_ = std::min(2 * seconds_, 0.1);
  }

private:
  clock& time_;
  double seconds_ = 0.002;
};

/// Our store as c10d sees one: keys under the generation's prefix, and waiting, which ours does not have.
class rendezvous_store final : public c10d::Store {
public:
  rendezvous_store(store& backing, std::string prefix, clock& time, std::chrono::milliseconds timeout)
      : c10d::Store(timeout), backing_(backing), prefix_(std::move(prefix)), time_(time) {}

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override { backing_.set(full(key), value); }
  std::vector<std::uint8_t> get(const std::string& key) override {
    wait({key});
    auto value = backing_.get(full(key));
    if (!value)
      throw store_error("the key " + key + " has gone from the store");
    return std::move(*value);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override { return backing_.add(full(key), value); }
  bool deleteKey(const std::string& key) override { return backing_.remove(full(key)); }
  bool check(const std::vector<std::string>& keys) override {
    std::vector<std::string> prefixed;
    prefixed.reserve(keys.size());
    for (const auto& key : keys)
      prefixed.push_back(full(key));
    return backing_.check(prefixed);
  }
  std::int64_t getNumKeys() override { return backing_.count(); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    const double limit_seconds = std::chrono::duration<double>(std::min(timeout, timeout_)).count();
    const double deadline = time_.now_seconds() + limit_seconds;
    back_off poll(time_);
    while (!check(keys)) {
      if (time_.now_seconds() > deadline)
        throw store_error("a peer has not announced its address within " + std::to_string(limit_seconds) + " s");
      poll.pause();
    }
  }

private:
  std::string full(const std::string& key) const { return prefix_ + "/" + key; }

  store& backing_;
  std::string prefix_;
  clock& time_;
};

/// Announces this worker and waits for the others, so that a time-out can name who is missing. Gloo's own text cannot.
void await_workers(const membership& place, c10d::Store& meeting, clock& time) {
  std::vector<std::string> keys;
  for (std::uint32_t rank = 0; rank < place.world_size; ++rank)
    keys.push_back("present/" + std::to_string(rank));
  meeting.set(keys[place.rank], {1});
  const double deadline = time.now_seconds() + place.join_timeout_ms / 1000.0;
  back_off poll(time);
  while (!meeting.check(keys)) {
    if (time.now_seconds() > deadline) {
      std::string missing;
      for (std::uint32_t rank = 0; rank < place.world_size; ++rank)
        if (!meeting.check({keys[rank]}))
          missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
      if (missing.empty())
        return;
      throw exchange_error("after " + std::to_string(place.join_timeout_ms) +
                           " ms the workers of these ranks have not come: " + missing);
    }
    poll.pause();
  }
}

class gloo_exchange final : public exchange {
public:
  gloo_exchange(const membership& place, store& rendezvous, clock& time) : place_(place) {
    const auto join_timeout = std::chrono::milliseconds(place.join_timeout_ms);
    auto meeting = c10::make_intrusive<rendezvous_store>(rendezvous, place.store_prefix, time, join_timeout);
    await_workers(place, *meeting, time);
    auto options = c10d::ProcessGroupGloo::Options::create(std::chrono::milliseconds(place.collective_timeout_ms));
    options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(place.address));
    options->threads = 2;
    group_ = c10::make_intrusive<c10d::ProcessGroupGloo>(meeting, static_cast<int>(place.rank),
                                                         static_cast<int>(place.world_size), options);
  }

  /// The group's destructor first finishes its queue, which a silent peer can hold up for the collective time-out each.
  /// It then runs on by itself; what it still touches belongs to it.
  ~gloo_exchange() override {
    std::promise<void> promise;
    auto finished = promise.get_future();
    std::thread([group = std::move(group_), promise = std::move(promise)]() mutable {
      group.reset();
      promise.set_value();
    }).detach();
    finished.wait_for(std::chrono::seconds(2));
  }

  std::uint32_t rank() const override { return place_.rank; }
  std::uint32_t world_size() const override { return place_.world_size; }

  std::unique_ptr<pending_exchange> all_reduce_sum(torch::Tensor tensor) override {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return start("all-reduce", [&] { return group_->allreduce(tensors); });
  }

  std::unique_ptr<pending_exchange> all_gather(torch::Tensor row, torch::Tensor rows) override {
    std::vector<at::Tensor> inputs{std::move(row)};
    std::vector<std::vector<at::Tensor>> outputs{rows.unbind(0)};
    return start("all-gather", [&] { return group_->allgather(outputs, inputs); });
  }

  void broadcast(torch::Tensor tensor) override {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    start("broadcast", [&] { return group_->broadcast(tensors); })->wait();
  }

  /// Who comes out of this gather knows that all peers have gone into it, so their earlier collectives are complete: a
  /// connection that closes from then on takes nothing away from anybody.
  void leave() noexcept override {
    try {
      all_gather(torch::zeros({1}, torch::kInt64), torch::zeros({world_size(), 1}, torch::kInt64))->wait();
    } catch (const std::exception&) {
      // A peer came out first and has closed its connections, or is gone; neither matters any more.
    }
  }

private:
  class work final : public pending_exchange {
  public:
    work(const char* name, c10::intrusive_ptr<c10d::Work> handle) : name_(name), handle_(std::move(handle)) {}
    void wait() override {
      at_border(name_, [this] { return handle_->wait(); });
    }

  private:
    const char* name_;
    c10::intrusive_ptr<c10d::Work> handle_;
  };

  template <typename Collective>
  std::unique_ptr<pending_exchange> start(const char* name, Collective&& collective) {
    return std::make_unique<work>(name, at_border(name, collective));
  }

  membership place_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
};

} // namespace

std::unique_ptr<exchange> join_gloo_exchange(const membership& place, store& rendezvous, clock& time) {
  return at_border("cannot join the other workers",
                   [&] { return std::unique_ptr<exchange>(std::make_unique<gloo_exchange>(place, rendezvous, time)); });
}

} // namespace dynamix::trainer
