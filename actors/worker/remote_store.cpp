#include "actors/worker/remote_store.hpp"

#include "actors/handlers.hpp"
#include "actors/packing.hpp"

namespace dynamix::actors {

using messages::store_verb;

remote_store::remote_store(caf::actor_system& system, store_actor target, std::chrono::milliseconds timeout,
                           const exchange::interruption& stop)
    : self_(system), target_(std::move(target)), timeout_(timeout), stop_(stop) {}

messages::store_result remote_store::ask(messages::store_operation operation) {
  if (stop_.raised())
    throw exchange::store_error(stop_.reason());
  const std::scoped_lock lock(mutex_);
  std::optional<messages::store_result> result;
  std::string failure = "the store sent an invalid answer";
  self_->request(target_, timeout_, atom::apply_v, pack(operation))
      .receive(
          [&](const message<messages::store_result>& answer) {
            if (const auto said = unpack<messages::store_result>(answer, "remote_store"))
              result = *said;
          },
          [&](const caf::error& error) { failure = "the arbitrator's store does not answer: " + to_text(error); });
  if (!result)
    throw exchange::store_error(failure);
  return std::move(*result);
}

void remote_store::set(const std::string& key, const std::vector<std::uint8_t>& value) {
  const auto result = ask({.verb = store_verb::set, .keys = {key}, .value = value});
  if (result.status != messages::store_status::ok)
    throw exchange::store_error("the arbitrator's store is full");
}

std::optional<std::vector<std::uint8_t>> remote_store::get(const std::string& key) {
  auto result = ask({.verb = store_verb::get, .keys = {key}});
  if (result.status != messages::store_status::ok)
    return std::nullopt;
  return std::move(result.value);
}

std::int64_t remote_store::add(const std::string& key, std::int64_t amount) {
  const auto result = ask({.verb = store_verb::add, .keys = {key}, .amount = amount});
  if (result.status != messages::store_status::ok)
    throw exchange::store_error("the arbitrator's store is full");
  return result.number;
}

bool remote_store::check(const std::vector<std::string>& keys) {
  return ask({.verb = store_verb::check, .keys = keys}).number != 0;
}

bool remote_store::remove(const std::string& key) {
  return ask({.verb = store_verb::remove, .keys = {key}}).number != 0;
}

std::int64_t remote_store::count() {
  return ask({.verb = store_verb::count, .keys = {}}).number;
}

} // namespace dynamix::actors
