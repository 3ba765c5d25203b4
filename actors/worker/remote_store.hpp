#pragma once

#include "actors/interfaces.hpp"
#include "exchange/interruption.hpp"
#include "exchange/rendezvous.hpp"

#include <chrono>
#include <mutex>

namespace dynamix::actors {

/// The store of a generation as the training thread sees it: each call is one request to a store_actor. Fails once
/// `stop`, which must outlive it, is raised.
class remote_store final : public exchange::store {
public:
  remote_store(caf::actor_system& system, store_actor target, std::chrono::milliseconds timeout,
               const exchange::interruption& stop);

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override;
  std::optional<std::vector<std::uint8_t>> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t amount) override;
  bool check(const std::vector<std::string>& keys) override;
  bool remove(const std::string& key) override;
  std::int64_t count() override;

private:
  messages::store_result ask(messages::store_operation operation);

  std::mutex mutex_; ///< a scoped actor serves one thread at a time
  caf::scoped_actor self_;
  store_actor target_;
  std::chrono::milliseconds timeout_;
  const exchange::interruption& stop_;
};

} // namespace dynamix::actors
