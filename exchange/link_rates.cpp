#include "exchange/link_rates.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>
#include <thread>

namespace dynamix::exchange {

namespace {

/// Others to which a member sends, one after the other, and as many from which it receives, spread over the circle of
/// all.
constexpr std::uint32_t partners_max = 8;
constexpr std::size_t first_bytes = 64 << 10;
constexpr std::size_t last_bytes = 32 << 20;
/// More is sent until the slowest pair takes this long.
constexpr double long_enough_seconds = 0.1;
/// After this, fewer partners have to do.
constexpr double all_rounds_seconds = 2;
constexpr std::uint8_t probe_lane = 2;

/// What one round sends and receives, shared with its thread: one left behind ends with the group's connections.
struct round {
  round(std::size_t bytes, std::shared_ptr<interruption::event> ends)
      : sent(bytes), received(bytes), done(std::move(ends)) {}

  std::vector<std::byte> sent;
  std::vector<std::byte> received;
  std::mutex mutex;
  double seconds = 0;
  std::string problem;
  const std::shared_ptr<interruption::event> done;
};

double send_and_receive(std::uint32_t to, std::uint32_t from, peer_messages& messages, round& now) {
  const auto begin = std::chrono::steady_clock::now();
  const auto incoming = messages.receive(from, probe_lane, now.received);
  const auto outgoing = messages.send(to, probe_lane, now.sent);
  incoming->wait();
  const auto end = std::chrono::steady_clock::now();
  outgoing->wait();
  return std::chrono::duration<double>(end - begin).count();
}

/// Sends to one member while another one sends to this one; the seconds until all of that one's had come.
double run_round(ring_group& peers, std::uint32_t to, std::uint32_t from, std::size_t bytes, const interruption& stop) {
  const std::int64_t here = 0;
  peers.all_gather({&here, 1})->wait(); // so that all begin at once
  const auto now = std::make_shared<round>(bytes, stop.make_event());
  std::thread([to, from, now, messages = peers.messages()] {
    double seconds = 0;
    std::string problem;
    try {
      seconds = send_and_receive(to, from, *messages, *now);
    } catch (const std::exception& thrown) {
      problem = thrown.what();
    }
    const std::lock_guard lock(now->mutex);
    now->seconds = seconds;
    now->problem = problem;
    now->done->complete();
  }).detach();
  if (!stop.wait(*now->done))
    throw error(stop.reason());
  const std::lock_guard lock(now->mutex);
  if (!now->problem.empty())
    throw error(now->problem);
  return now->seconds;
}

double longest_of_all(group& peers, double own_seconds) {
  const auto own = static_cast<std::int64_t>(own_seconds * 1e9);
  return static_cast<double>(std::ranges::max(peers.all_gather({&own, 1})->wait())) * 1e-9;
}

} // namespace

std::vector<double> measure_link_rates(ring_group& peers, const interruption& stop) {
  const auto size = peers.size();
  const auto partners = std::min(partners_max, size - 1);
  // Bytes a second, by position: from the others, and to them as they say.
  const auto came = std::make_shared<std::vector<float>>(size);
  const auto went = std::make_shared<std::vector<float>>(size);
  std::size_t bytes = first_bytes;
  double all_seconds = 0;
  for (std::uint32_t i = 0; i < partners && all_seconds < all_rounds_seconds; ++i) {
    const auto distance = 1 + i * (size - 1) / partners;
    const auto to = (peers.position() + distance) % size;
    const auto from = (peers.position() + size - distance) % size;
    double seconds = run_round(peers, to, from, bytes, stop);
    double longest = longest_of_all(peers, seconds);
    while (i == 0 && longest < long_enough_seconds && 4 * bytes <= last_bytes) {
      bytes *= 4;
      seconds = run_round(peers, to, from, bytes, stop);
      longest = longest_of_all(peers, seconds);
    }
    (*came)[from] = static_cast<float>(static_cast<double>(bytes) / std::max(1e-9, seconds));
    all_seconds += longest;
  }
  peers.exchange_blocks(came, went)->wait();
  // A pair is as fast as its slower link, or slower where a host is busy with something else: the best pair counts.
  const std::int64_t own =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(std::ranges::max(*came), std::ranges::max(*went))));
  auto rates = peers.all_gather({&own, 1})->wait();
  for (auto& rate : rates)
    rate = std::max<std::int64_t>(1, rate); // a member may tell anything
  return {rates.begin(), rates.end()};
}

} // namespace dynamix::exchange
