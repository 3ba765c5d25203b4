#include "trainer/gloo_rendezvous.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

namespace dynamix::trainer {

namespace {

/// A little longer each time, so that a store on another host is not flooded.
class back_off {
public:
  double next_seconds() { return seconds_ = std::min(2 * seconds_, 0.1); }

private:
  double seconds_ = 0.001;
};

} // namespace

/// Lets calls through to the store while it is there.
class gloo_rendezvous::gate {
public:
  explicit gate(store& backing) : backing_(&backing) {}

  template <typename Call>
  auto through(Call&& call) {
    const std::lock_guard lock(mutex_);
    if (backing_ == nullptr)
      throw store_error("the generation has ended while its workers were meeting");
    return call(*backing_);
  }

  void close() {
    const std::lock_guard lock(mutex_);
    backing_ = nullptr;
  }

private:
  std::mutex mutex_;
  store* backing_;
};

/// Keys under the generation's prefix, and waiting, which our store does not have.
class gloo_rendezvous::prefixed_store final : public c10d::Store {
public:
  prefixed_store(std::shared_ptr<gate> gate, std::string prefix, std::chrono::milliseconds timeout)
      : c10d::Store(timeout), gate_(std::move(gate)), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    gate_->through([&](store& backing) { backing.set(full(key), value); });
  }
  std::vector<std::uint8_t> get(const std::string& key) override {
    wait({key});
    auto value = gate_->through([&](store& backing) { return backing.get(full(key)); });
    if (!value)
      throw store_error("the key " + key + " has gone from the store");
    return std::move(*value);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return gate_->through([&](store& backing) { return backing.add(full(key), value); });
  }
  bool deleteKey(const std::string& key) override {
    return gate_->through([&](store& backing) { return backing.remove(full(key)); });
  }
  bool check(const std::vector<std::string>& keys) override {
    std::vector<std::string> prefixed;
    prefixed.reserve(keys.size());
    for (const auto& key : keys)
      prefixed.push_back(full(key));
    return gate_->through([&](store& backing) { return backing.check(prefixed); });
  }
  std::int64_t getNumKeys() override {
    return gate_->through([](store& backing) { return backing.count(); });
  }
  void wait(const std::vector<std::string>& keys) override { wait(keys, timeout_); }
  /// For as long as the join may take: Gloo's own time-out is for connecting.
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout_;
    back_off poll;
    while (!check(keys)) {
      if (std::chrono::steady_clock::now() > deadline)
        throw store_error("a peer has not announced its address within " + std::to_string(timeout_.count()) + " ms");
      std::this_thread::sleep_for(std::chrono::duration<double>(poll.next_seconds()));
    }
  }

private:
  std::string full(const std::string& key) const { return prefix_ + "/" + key; }

  std::shared_ptr<gate> gate_;
  std::string prefix_;
};

gloo_rendezvous::gloo_rendezvous(const membership& place, store& backing)
    : place_(place), gate_(std::make_shared<gate>(backing)),
      store_(c10::make_intrusive<prefixed_store>(gate_, place.store_prefix,
                                                 std::chrono::milliseconds(place.join_timeout_ms))) {}

gloo_rendezvous::~gloo_rendezvous() {
  gate_->close();
}

c10::intrusive_ptr<c10d::Store> gloo_rendezvous::c10d_store() const {
  return store_;
}

void gloo_rendezvous::await_members(clock& time, const interruption& stop) {
  std::vector<std::string> keys;
  for (const auto rank : place_.members)
    keys.push_back("present/" + std::to_string(rank));
  store_->set("present/" + std::to_string(place_.rank), {1});
  const double deadline = time.now_seconds() + place_.join_timeout_ms / 1000.0;
  back_off poll;
  while (!store_->check(keys)) {
    if (time.now_seconds() > deadline) {
      std::string missing;
      for (std::size_t i = 0; i < keys.size(); ++i)
        if (!store_->check({keys[i]}))
          missing += (missing.empty() ? "" : ", ") + std::to_string(place_.members[i]);
      if (missing.empty())
        return;
      throw exchange_error("after " + std::to_string(place_.join_timeout_ms) +
                           " ms the workers of these ranks have not come: " + missing);
    }
    if (stop.wait_for(poll.next_seconds()))
      throw exchange_error(stop.reason());
  }
}

} // namespace dynamix::trainer
