#include "exchange/server_relay.hpp"

#include "exchange/float_sum.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <thread>
#include <utility>

namespace dynamix::exchange {

using memory = std::span<std::byte>;

struct relay::summation {
  /// A part of a bucket, in bytes.
  struct slice {
    std::size_t begin = 0;
    std::size_t size = 0;
  };

  /// What the first worker tells hosts that only serve, who do not know what is summed: the next sum, or the end.
  struct call {
    static constexpr std::uint64_t leave = 5; ///< behind the kinds of arithmetic
    std::uint64_t what = leave;               ///< an `arithmetic`, or `leave`
    std::uint64_t value = 0;                  ///< bytes, or the word to leave with
  };

  std::shared_ptr<void> owner;               ///< of `held`
  memory held;                               ///< the bucket or, of a host that only serves, its share once it is served
  std::size_t held_from = 0;                 ///< in the bucket
  call said;                                 ///< to hosts that only serve
  std::vector<std::vector<slice>> pieces;    ///< by server
  std::shared_ptr<interruption::event> done; ///< null where nobody waits
  // Each by one thread at a time: the first is handed on with the summation, the second once it is served.
  std::vector<std::unique_ptr<transfer>> own;  ///< parts that leave, sums that come
  std::vector<std::unique_ptr<transfer>> sums; ///< that leave
  // Under the relay's mutex.
  bool served = false;
  bool complete = false;

  arithmetic how() const { return static_cast<arithmetic>(said.what); }
  memory at(const slice& piece) const { return held.subspan(piece.begin - held_from, piece.size); }
};

/// What a server has begun to receive.
struct relay::turn {
  summation_pointer of;
  std::size_t piece = 0;
  std::size_t buffer = 0;
  std::vector<std::unique_ptr<transfer>> parts; ///< by position; null for this member's own
};

namespace {

using slice = relay::summation::slice;
using call = relay::summation::call;

constexpr std::uint8_t part_lane = 0;
constexpr std::uint8_t sum_lane = 1;
constexpr std::uint8_t call_lane = 3; // link_rates.cpp has lane 2

/// Pieces of which a server has asked for the parts. What it asks travels behind all that fills its link already, so
/// two were too few: at 200 Mbit/s servers reached 0.78 of an equal ring; 0.91 with sixteen of a quarter of the size.
constexpr std::size_t pieces_in_flight = 16;
/// Of a server's share, summed at once.
constexpr std::size_t piece_bytes_max = 64 << 10;
constexpr std::size_t piece_bytes_min = 4 << 10;
/// What a server's pieces in flight may take, if they can be cut so small.
constexpr std::size_t server_bytes = 16 << 20;
/// What the first worker may have a host begin that only serves, and of broadcast_bytes_max bytes in all.
constexpr std::size_t open_sums_max = 256;
/// Shares begin at multiples of so many bytes of a bucket.
constexpr std::size_t line_bytes = 64;

std::size_t piece_bytes(std::size_t members) {
  return std::clamp(server_bytes / (pieces_in_flight * members), piece_bytes_min, piece_bytes_max) / line_bytes *
         line_bytes;
}

/// The pieces of each member's share of so many bytes, in order.
std::vector<std::vector<slice>> cut(std::size_t bytes, std::span<const double> shares) {
  const double whole = std::accumulate(shares.begin(), shares.end(), 0.0);
  const auto lines = static_cast<double>((bytes + line_bytes - 1) / line_bytes);
  std::vector<std::vector<slice>> pieces(shares.size());
  double sum = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    sum += shares[i];
    // The last share's end is exact: it is the quotient of two equal sums.
    const auto end = std::min(bytes, static_cast<std::size_t>(std::round(sum / whole * lines)) * line_bytes);
    for (const auto size = piece_bytes(shares.size()); begin < end; begin += pieces[i].back().size)
      pieces[i].push_back({begin, std::min(size, end - begin)});
  }
  return pieces;
}

} // namespace

relay::relay(ring_group& ring, std::uint32_t workers, std::vector<double> shares,
             std::shared_ptr<interruption::event> left)
    : messages_(ring.messages()), position_(ring.position()), size_(ring.size()), workers_(workers),
      shares_(std::move(shares)), left_(std::move(left)) {}

relay::~relay() = default;

void relay::begin() {
  for (const auto part : {&relay::post, &relay::serve, &relay::collect})
    run(part);
  if (!works())
    run(&relay::listen);
}

relay::summation_pointer relay::start(std::shared_ptr<void> owner, memory all, arithmetic how,
                                      const interruption& stop) {
  return enter(std::make_shared<summation>(summation{.owner = std::move(owner),
                                                     .held = all,
                                                     .said = {static_cast<std::uint64_t>(how), all.size()},
                                                     .pieces = cut(all.size(), shares_),
                                                     .done = stop.make_event()}));
}

void relay::call_off(std::uint64_t word) {
  const call last{.value = word};
  std::vector<std::unique_ptr<transfer>> told;
  const auto unless_gone = [](auto&& action) {
    try {
      action();
    } catch (const std::exception&) {
      // It learns from its connections that all is over, if it is there at all; the others are to be told.
    }
  };
  for (auto server = workers_; position_ == 0 && server < size_; ++server)
    unless_gone([&] { told.push_back(messages_->send(server, call_lane, std::as_bytes(std::span(&last, 1)))); });
  for (const auto& each : told)
    unless_gone([&] { each->wait(); });
}

std::uint64_t relay::last_word() {
  const std::lock_guard lock(mutex_);
  if (!word_)
    throw error(problem_);
  return *word_;
}

void relay::wait(const summation& started, const interruption& stop) {
  if (!stop.wait(*started.done))
    throw error(stop.reason());
  const std::lock_guard lock(mutex_);
  if (!started.complete)
    throw error(problem_);
}

void relay::close() {
  std::unique_lock lock(mutex_);
  closed_ = true;
  changed_.notify_all();
  changed_.wait_for(lock, std::chrono::milliseconds(500), [this] { return threads_ == 0; });
}

relay::summation_pointer relay::enter(summation_pointer started) {
  const std::lock_guard lock(mutex_);
  if (!problem_.empty())
    throw error(problem_);
  open_.insert(started);
  posting_.push_back(started);
  serving_.push_back(started);
  changed_.notify_all();
  return started;
}

void relay::run(void (relay::*part)()) {
  {
    const std::lock_guard lock(mutex_);
    ++threads_;
  }
  std::thread([self = shared_from_this(), part] {
    try {
      (self.get()->*part)();
    } catch (const std::exception& problem) {
      self->fail(problem.what());
    }
    const std::lock_guard lock(self->mutex_);
    --self->threads_;
    self->changed_.notify_all();
  }).detach();
}

void relay::fail(const std::string& problem) {
  std::set<summation_pointer> broken;
  {
    const std::lock_guard lock(mutex_);
    if (problem_.empty())
      problem_ = problem;
    closed_ = true;
    broken = open_; // which keeps them for as long as a message may touch their memory
    changed_.notify_all();
  }
  for (const auto& each : broken)
    if (each->done)
      each->done->complete();
  if (left_)
    left_->complete();
}

/// Hears what the first worker starts.
void relay::listen() {
  for (;;) {
    call said;
    messages_->receive(0, call_lane, std::as_writable_bytes(std::span(&said, 1)))->wait_for_long();
    if (said.what == call::leave) {
      {
        const std::lock_guard lock(mutex_);
        word_ = said.value;
      }
      return left_->complete();
    }
    if (said.what > call::leave || said.value == 0 || said.value > broadcast_bytes_max ||
        said.value % element_bytes(static_cast<arithmetic>(said.what)) != 0 || shares_.empty())
      throw error("a peer starts a sum that cannot be: kind " + std::to_string(said.what) + ", " +
                  std::to_string(said.value) + " bytes");
    if (!wait_for_room(said.value))
      return;
    auto started = std::make_shared<summation>();
    started->said = said;
    started->pieces = cut(said.value, shares_);
    enter(std::move(started));
  }
}

/// Earlier sums come to an end without later ones. False when something broke instead.
bool relay::wait_for_room(std::uint64_t bytes) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] {
    const auto open_bytes = std::accumulate(open_.begin(), open_.end(), bytes,
                                            [](std::uint64_t sum, const auto& each) { return sum + each->said.value; });
    return closed_ || (open_.size() < open_sums_max && open_bytes <= broadcast_bytes_max);
  });
  return !closed_;
}

/// The next of a queue, for which it waits; null at the end.
relay::summation_pointer relay::take(queue& from) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return closed_ || !from.empty(); });
  return take_locked(from);
}
/// The same without waiting.
relay::summation_pointer relay::take_if_any(queue& from) {
  const std::lock_guard lock(mutex_);
  return take_locked(from);
}
relay::summation_pointer relay::take_locked(queue& from) const {
  if (from.empty() || !problem_.empty())
    return nullptr;
  auto next = std::move(from.front());
  from.pop_front();
  return next;
}

void relay::post() {
  while (const auto next = take(posting_)) {
    for (auto server = workers_; position_ == 0 && server < size_; ++server)
      next->own.push_back(messages_->send(server, call_lane, std::as_bytes(std::span(&next->said, 1))));
    const auto longest = std::ranges::max(next->pieces, {}, &std::vector<slice>::size).size();
    for (std::size_t piece = 0; works() && piece < longest; ++piece)
      for_each_other(size_, [&](std::uint32_t server) {
        if (piece >= next->pieces[server].size())
          return;
        const auto part = next->at(next->pieces[server][piece]);
        // The sum comes into the memory that its part leaves: not before the server has all of the part.
        next->own.push_back(messages_->send(server, part_lane, part));
        next->own.push_back(messages_->receive(server, sum_lane, part));
      });
    const std::lock_guard lock(mutex_);
    collecting_.push_back(next);
    changed_.notify_all();
  }
}

void relay::serve() {
  const auto room = piece_bytes(size_) * workers_;
  buffers all(pieces_in_flight, std::vector<std::byte>(room));
  std::deque<turn> turns;
  summation_pointer next;
  std::size_t piece = 0;
  for (std::size_t turn_count = 0;;) {
    while (turns.size() < pieces_in_flight) {
      if (!next) {
        next = turns.empty() ? take(serving_) : take_if_any(serving_);
        piece = 0;
        if (next && !works())
          hold_share(*next);
      }
      if (!next)
        break;
      if (piece < next->pieces[position_].size())
        turns.push_back(begin_turn(next, piece++, turn_count++ % pieces_in_flight, all));
      if (piece == next->pieces[position_].size()) {
        if (piece == 0)
          note_served(*next);
        next = nullptr;
      }
    }
    if (turns.empty())
      return;
    finish_turn(turns.front(), all);
    turns.pop_front();
  }
}

/// A host that only serves has no bucket: the sum is made where the first worker's part comes.
void relay::hold_share(summation& of) const {
  const auto& own = of.pieces[position_];
  if (own.empty())
    return;
  of.held_from = own.front().begin;
  const auto share = std::make_shared<std::vector<std::byte>>(own.back().begin + own.back().size - of.held_from);
  of.held = *share;
  of.owner = share;
}

memory relay::part_buffer(buffers& all, const turn& of, std::uint32_t member) const {
  const auto& piece = of.of->pieces[position_][of.piece];
  if (!works() && member == 0 && of.of->how() != arithmetic::add_exactly)
    return of.of->at(piece);
  return std::span(all[of.buffer]).subspan(member * piece.size, piece.size);
}

relay::turn relay::begin_turn(const summation_pointer& of, std::size_t piece, std::size_t buffer, buffers& all) {
  turn begun{.of = of, .piece = piece, .buffer = buffer, .parts = {}};
  begun.parts.resize(size_);
  for_each_other(workers_, [&](std::uint32_t member) {
    begun.parts[member] = messages_->receive(member, part_lane, part_buffer(all, begun, member));
  });
  return begun;
}

void relay::finish_turn(turn& now, buffers& all) {
  auto& of = *now.of;
  const auto own = of.at(of.pieces[position_][now.piece]);
  if (of.how() == arithmetic::add_exactly)
    add_exactly(now, own, all);
  else
    add_in_order(now, own, all);
  for_each_other(workers_, [&](std::uint32_t member) { of.sums.push_back(messages_->send(member, sum_lane, own)); });
  if (now.piece + 1 == of.pieces[position_].size())
    note_served(of);
}

/// As soon as all earlier parts are there.
void relay::add_in_order(turn& now, memory own, buffers& all) {
  const auto how = now.of->how();
  memory total = own;
  for (std::uint32_t member = 0; member < workers_; ++member) {
    memory part = own;
    if (member != position_) {
      now.parts[member]->wait();
      part = part_buffer(all, now, member);
    }
    if (member == 0)
      total = part;
    else if (member == position_) {
      combine(how, own, total); // an addition's sides do not matter
      total = own;
    } else
      combine(how, total, part);
  }
}

/// Once all parts are there, one after the other.
void relay::add_exactly(turn& now, memory own, buffers& all) {
  for (std::uint32_t member = 0; member < workers_; ++member) {
    if (member == position_)
      std::ranges::copy(own, part_buffer(all, now, member).begin());
    else
      now.parts[member]->wait();
  }
  const auto floats_at = [](memory bytes) {
    return std::span(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
  };
  sum_exactly(floats_at(std::span(all[now.buffer]).first(workers_ * own.size())), floats_at(own));
}

void relay::note_served(summation& of) {
  const std::lock_guard lock(mutex_);
  of.served = true;
  changed_.notify_all();
}

void relay::collect() {
  while (const auto next = take(collecting_)) {
    for (const auto& each : next->own)
      each->wait();
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return next->served || !problem_.empty(); });
      if (!next->served)
        return;
    }
    for (const auto& each : next->sums)
      each->wait();
    next->own.clear();
    next->sums.clear();
    {
      const std::lock_guard lock(mutex_);
      next->complete = true;
      open_.erase(next);
      changed_.notify_all();
    }
    if (next->done)
      next->done->complete();
  }
}

} // namespace dynamix::exchange
