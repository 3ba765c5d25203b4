#include "trainer/exchange.hpp"

#include "trainer/gloo_exchange.hpp"

#include <algorithm>
#include <string>

namespace dynamix::trainer {

namespace {

/// A generation of one worker: every collective is complete at once.
class single_exchange final : public exchange {
public:
  std::uint32_t position() const override { return 0; }
  std::uint32_t world_size() const override { return 1; }
  std::unique_ptr<pending_exchange> all_reduce_sum(torch::Tensor) override { return std::make_unique<complete>(); }
  std::unique_ptr<pending_exchange> all_gather(torch::Tensor row, torch::Tensor rows) override {
    rows[0].copy_(row);
    return std::make_unique<complete>();
  }
  void broadcast(torch::Tensor, std::uint32_t) override {}
  void leave() noexcept override {}

private:
  struct complete final : pending_exchange {
    void wait() override {}
  };
};

} // namespace

void throw_if_raised(const interruption& stop) {
  if (stop.raised())
    throw exchange_error(stop.reason());
}

torch::Tensor broadcast_bytes(exchange& peers, std::uint32_t root, std::span<const std::uint8_t> bytes) {
  constexpr std::int64_t limit_bytes = std::int64_t{16} << 30;
  const bool sends = peers.position() == root;
  auto length = torch::tensor({sends ? static_cast<std::int64_t>(bytes.size()) : 0}, torch::kInt64);
  peers.broadcast(length, root);
  const auto count = length.item<std::int64_t>();
  if (count < 0 || count > limit_bytes)
    throw exchange_error("a peer announces " + std::to_string(count) + " bytes; 16 GiB are allowed");
  // Not over the caller's memory: a broadcast that is given up may go on for a while.
  auto sent = torch::empty({count}, torch::kUInt8);
  if (sends)
    std::ranges::copy(bytes, sent.data_ptr<std::uint8_t>());
  if (count > 0)
    peers.broadcast(sent, root);
  return sent;
}

std::uint32_t position_of(const membership& place, std::uint32_t rank) {
  return static_cast<std::uint32_t>(std::ranges::find(place.members, rank) - place.members.begin());
}

std::unique_ptr<exchange> join_exchange(const membership& place, store& rendezvous, clock& time,
                                        const interruption& stop) {
  throw_if_raised(stop);
  if (place.members.size() == 1)
    return std::make_unique<single_exchange>();
  return join_gloo_exchange(place, rendezvous, time, stop);
}

} // namespace dynamix::trainer
