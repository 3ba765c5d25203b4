#include "exchange/link_rates.hpp"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <thread>

namespace dynamix::exchange {

namespace {

/// That a member sends to at once: the next ones, in a circle of all.
constexpr std::uint32_t peers_max = 16;
/// What goes to each of them in the first round, and to all of them in the last at most.
constexpr std::size_t first_bytes = 64 << 10;
constexpr std::size_t last_bytes = 32 << 20;
/// So many rounds in a row that take this long are measured; one is enough of links this slow.
constexpr double long_enough_seconds = 0.05;
constexpr double slow_seconds = 0.5;
constexpr int rounds = 3;
constexpr std::uint8_t probe_lane = 2;

/// One round in which each sends to several, shared with its threads: one left behind ends with the group's
/// connections.
struct round {
  round(std::uint32_t peers, std::size_t bytes, std::shared_ptr<interruption::event> ends)
      : sent(bytes), received(peers * bytes), seconds(peers), left(peers), done(std::move(ends)) {}

  std::vector<std::byte> sent;
  std::vector<std::byte> received;
  std::vector<double> seconds; ///< until all had come
  std::mutex mutex;
  std::size_t left; ///< threads
  std::string problem;
  const std::shared_ptr<interruption::event> done;
};

void send_and_receive(std::uint32_t to, std::uint32_t from, std::size_t index, peer_messages& messages, round& now) {
  const auto begin = std::chrono::steady_clock::now();
  const auto bytes = now.sent.size();
  const auto incoming = messages.receive(from, probe_lane, std::span(now.received).subspan(index * bytes, bytes));
  const auto outgoing = messages.send(to, probe_lane, now.sent);
  incoming->wait();
  now.seconds[index] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  outgoing->wait();
}

/// Seconds in which so many bytes came from the one before, from the one before that, ...
std::vector<double> run_round(ring_group& peers, std::size_t bytes, const interruption& stop) {
  const std::int64_t here = 0;
  peers.all_gather({&here, 1})->wait(); // so that all begin at once
  const auto size = peers.size();
  const auto count = std::min(peers_max, size - 1);
  const auto now = std::make_shared<round>(count, bytes, stop.make_event());
  for (std::uint32_t i = 0; i < count; ++i) {
    const auto to = (peers.position() + i + 1) % size;
    const auto from = (peers.position() + size - i - 1) % size;
    std::thread([to, from, i, now, messages = peers.messages()] {
      block_broken_pipe_signal();
      std::string problem;
      try {
        send_and_receive(to, from, i, *messages, *now);
      } catch (const std::exception& thrown) {
        problem = thrown.what();
      }
      const std::lock_guard lock(now->mutex);
      if (!problem.empty())
        now->problem = problem;
      if (--now->left == 0)
        now->done->complete();
    }).detach();
  }
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

/// What one round says of all members' links. `seconds`: of run_round.
std::vector<double> rates_of(group& peers, std::size_t bytes, std::span<const double> seconds) {
  const auto size = peers.size();
  // Every member tells each of those before it how fast it received from it.
  const auto came = std::make_shared<std::vector<float>>(size);
  const auto went = std::make_shared<std::vector<float>>(size);
  for (std::uint32_t i = 0; i < seconds.size(); ++i)
    (*came)[(peers.position() + size - i - 1) % size] =
        static_cast<float>(static_cast<double>(bytes) / std::max(1e-9, seconds[i]));
  peers.exchange_blocks(came, went)->wait();
  const double in = std::accumulate(came->begin(), came->end(), 0.0);
  const double out = std::accumulate(went->begin(), went->end(), 0.0);
  const auto own = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(in, out)));
  const auto rates = peers.all_gather({&own, 1})->wait();
  return {rates.begin(), rates.end()};
}

} // namespace

std::vector<double> measure_link_rates(ring_group& peers, const interruption& stop) {
  std::size_t bytes = first_bytes;
  std::vector<double> best(peers.size());
  for (int long_rounds = 0; long_rounds < rounds;) {
    const auto seconds = run_round(peers, bytes, stop);
    const double longest = longest_of_all(peers, std::ranges::max(seconds));
    if (longest < long_enough_seconds && 4 * bytes * seconds.size() <= last_bytes) {
      bytes *= 4;
      long_rounds = 0;
      continue;
    }
    // A host that was busy with something else only looks slower than it is.
    const auto rates = rates_of(peers, bytes, seconds);
    for (std::size_t i = 0; i < rates.size(); ++i)
      best[i] = std::max(long_rounds == 0 ? 0 : best[i], rates[i]);
    long_rounds = longest < slow_seconds ? long_rounds + 1 : rounds;
  }
  return best;
}

} // namespace dynamix::exchange
