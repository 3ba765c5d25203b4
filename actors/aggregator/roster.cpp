#include "actors/aggregator/roster.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

namespace dynamix::actors {

void roster::joined(std::uint32_t rank, std::uint64_t incarnation, double now_seconds) {
  workers_[rank] = {.incarnation = incarnation, .seen_seconds = now_seconds};
}

std::optional<std::uint64_t> roster::left(std::uint32_t rank) {
  const auto found = workers_.find(rank);
  if (found == workers_.end())
    return std::nullopt;
  const auto incarnation = found->second.incarnation;
  workers_.erase(found);
  return incarnation;
}

bool roster::holds_other(std::uint32_t rank, std::uint64_t incarnation) const {
  const auto found = workers_.find(rank);
  return incarnation != 0 && found != workers_.end() && found->second.incarnation != incarnation;
}

bool roster::beat(const messages::heartbeat& sign, double now_seconds) {
  const auto found = workers_.find(sign.rank);
  if (found == workers_.end() || found->second.leaving)
    return false;
  auto& one = found->second;
  if (one.incarnation != sign.incarnation)
    return true; // of a process before; its answer tells it nothing
  one.seen_seconds = now_seconds;
  one.told = false;
  one.sign = sign;
  return true;
}

void roster::send_away(std::uint32_t rank) {
  if (const auto found = workers_.find(rank); found != workers_.end())
    found->second.leaving = true;
}

std::vector<messages::absence> roster::find_silent(double now_seconds) {
  const double slept = looked_seconds_ < 0 ? 0 : now_seconds - looked_seconds_ - interval_seconds_;
  looked_seconds_ = now_seconds;
  std::vector<messages::absence> silent;
  for (auto& [rank, one] : workers_) {
    if (slept > 0)
      one.seen_seconds = std::min(now_seconds, one.seen_seconds + slept);
    const double silence = now_seconds - one.seen_seconds;
    if (silence <= silence_seconds_ || std::exchange(one.told, true))
      continue;
    silent.push_back({.rank = rank,
                      .incarnation = one.incarnation,
                      .detail = fmt::format("it has been silent for {:.0f} ms", 1000 * silence)});
  }
  return silent;
}

std::vector<messages::heartbeat> roster::take_beats() {
  std::vector<messages::heartbeat> beats;
  for (auto& [rank, one] : workers_)
    if (auto sign = std::exchange(one.sign, std::nullopt))
      beats.push_back(*sign);
  return beats;
}

} // namespace dynamix::actors
