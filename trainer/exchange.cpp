#include "trainer/exchange.hpp"

#include "trainer/gloo_exchange.hpp"

namespace dynamix::trainer {

namespace {

/// A generation of one worker: every collective is complete at once.
class single_exchange final : public exchange {
public:
  std::uint32_t rank() const override { return 0; }
  std::uint32_t world_size() const override { return 1; }
  std::unique_ptr<pending_exchange> all_reduce_sum(torch::Tensor) override { return std::make_unique<complete>(); }
  std::unique_ptr<pending_exchange> all_gather(torch::Tensor row, torch::Tensor rows) override {
    rows[0].copy_(row);
    return std::make_unique<complete>();
  }
  void broadcast(torch::Tensor) override {}
  void leave() noexcept override {}

private:
  struct complete final : pending_exchange {
    void wait() override {}
  };
};

} // namespace

void broadcast_bytes(exchange& peers, std::vector<std::uint8_t>& bytes) {
  constexpr std::int64_t limit_bytes = std::int64_t{16} << 30;
  auto length = torch::tensor({static_cast<std::int64_t>(bytes.size())}, torch::kInt64);
  peers.broadcast(length);
  const auto count = length.item<std::int64_t>();
  if (count < 0 || count > limit_bytes)
    throw exchange_error("rank 0 announces " + std::to_string(count) + " bytes; 16 GiB are allowed");
  bytes.resize(static_cast<std::size_t>(count));
  if (count > 0)
    peers.broadcast(torch::from_blob(bytes.data(), {count}, torch::kUInt8));
}

std::unique_ptr<exchange> join_exchange(const membership& place, store& rendezvous, clock& time) {
  if (place.world_size == 1)
    return std::make_unique<single_exchange>();
  return join_gloo_exchange(place, rendezvous, time);
}

} // namespace dynamix::trainer
