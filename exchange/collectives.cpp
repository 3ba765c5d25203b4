#include "exchange/collectives.hpp"

#include "exchange/group.hpp"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace dynamix::exchange {
namespace {

using std::chrono::steady_clock;
using memory = std::span<std::byte>;
using constant_memory = std::span<const std::byte>;

/// A piece of what goes around: small enough to stay in a core's cache until it is combined.
constexpr std::size_t piece_bytes = 128 << 10;
/// Even a short chunk is cut, so that members combine one piece while the next one travels.
constexpr std::size_t pieces_least = 8;
constexpr std::size_t piece_bytes_least = 16 << 10;
/// Pieces that a member waits for at once: as many are on their way, so that no link stands still.
constexpr std::size_t pieces_ahead = 8;
/// Up to here all send all to all: one message's time instead of a ring's 2 (n - 1).
constexpr std::size_t gathered_bytes_max = 16 << 10;

template <typename Element, typename Operation>
void combine_elements(memory into, constant_memory from, Operation operation) {
  auto* to = reinterpret_cast<Element*>(into.data());
  const auto* part = reinterpret_cast<const Element*>(from.data());
  const auto count = from.size() / sizeof(Element);
  for (std::size_t i = 0; i < count; ++i)
    to[i] = operation(to[i], part[i]);
}

/// How many pieces so many bytes go around in.
std::size_t pieces_of(std::size_t bytes) {
  return std::max({std::size_t{1}, bytes / piece_bytes, std::min(pieces_least, bytes / piece_bytes_least)});
}

/// The i-th of `parts` nearly equal parts of so many elements, of `element` bytes each.
template <typename Byte>
std::span<Byte> part_of(std::span<Byte> whole, std::size_t element, std::size_t i, std::size_t parts) {
  const auto count = whole.size() / element;
  const auto begin = count * i / parts * element;
  return whole.subspan(begin, count * (i + 1) / parts * element - begin);
}

/// The i-th piece of a block whose pieces are all awaited at once: a peer keeps a row for each length (mesh.cpp). So
/// all are as long, but for the last.
template <typename Byte>
std::span<Byte> piece_of(std::span<Byte> block, std::size_t i, std::size_t pieces) {
  const auto size = block.size() / pieces;
  return block.subspan(i * size, i + 1 < pieces ? size : std::dynamic_extent);
}

/// Each of the members' blocks travels in pieces: each that has come is progress.
class gathering_all : public collective {
public:
  gathering_all(std::shared_ptr<mesh> through, std::uint64_t lane, memory all, std::shared_ptr<void> owner,
                const char* name = "all-gather")
      : collective(std::move(through), lane, name), all_(all), owner_(std::move(owner)) {}

protected:
  void begin() override {
    const auto pieces = pieces_of(all_.size() / size());
    for (std::uint32_t i = 0; i < size(); ++i)
      for (std::size_t piece = 0; i != position() && piece < pieces; ++piece)
        receive(i, piece_of(block(i), piece, pieces), [] {});
    for (std::uint32_t i = 0; i < size(); ++i)
      for (std::size_t piece = 0; i != position() && piece < pieces; ++piece)
        send(i, piece_of(block(position()), piece, pieces));
  }
  memory block(std::size_t i) const { return all_.subspan(i * all_.size() / size(), all_.size() / size()); }

private:
  const memory all_;
  const std::shared_ptr<void> owner_;
};

/// Gathers all members' data and combines them in the order of positions.
class small_sum final : public gathering_all {
public:
  small_sum(std::shared_ptr<mesh> through, std::uint64_t lane, memory data, std::shared_ptr<void> owner, arithmetic how)
      : small_sum(std::make_shared<std::vector<std::byte>>(data.size() * through->size()), through, lane, data,
                  std::move(owner), how) {}

protected:
  void begin() override {
    std::ranges::copy(data_, block(position()).begin());
    gathering_all::begin();
  }
  void settled() override {
    std::ranges::copy(block(0), data_.begin());
    for (std::uint32_t i = 1; i < size(); ++i)
      combine(how_, data_, block(i));
    finish({});
  }

private:
  small_sum(const std::shared_ptr<std::vector<std::byte>>& parts, std::shared_ptr<mesh> through, std::uint64_t lane,
            memory data, std::shared_ptr<void> owner, arithmetic how)
      : gathering_all(std::move(through), lane, *parts, parts, "all-reduce"), data_(data),
        data_owner_(std::move(owner)), how_(how) {}

  const memory data_;
  const std::shared_ptr<void> data_owner_;
  const arithmetic how_;
};

/// The data are cut into a chunk a member, a chunk into pieces. In each of n - 1 steps a member sends a chunk to its
/// right and combines the one that comes from its left, which is what it sends in the next step; then it has one whole
/// chunk. In n - 1 more steps the whole chunks go around. Steps overlap: a piece is sent on as soon as it has come.
///
/// Nothing is overwritten while it is being sent: a whole piece comes only once every member's part of it has left.
class ring_sum final : public collective {
public:
  ring_sum(std::shared_ptr<mesh> through, std::uint64_t lane, memory data, std::shared_ptr<void> owner, arithmetic how)
      : collective(std::move(through), lane, "all-reduce"), data_(data), owner_(std::move(owner)), how_(how),
        pieces_(pieces_of(data.size() / size())), steps_(2 * (static_cast<std::size_t>(size()) - 1)),
        room_(pieces_ahead * largest_piece()) {}

protected:
  void begin() override {
    while (awaited_ < std::min(pieces_ahead, steps_ * pieces_))
      await_next();
    for (std::size_t i = 0; i < pieces_; ++i)
      send_right(0, i);
  }

private:
  bool combines(std::size_t step) const { return step < size() - 1U; }
  std::uint32_t left() const { return (position() + size() - 1) % size(); }

  /// The piece that is sent in a step; what comes in it is what is sent in the next one.
  memory piece(std::size_t step, std::size_t i) const {
    const auto chunk = (position() + 2 * size() - step) % size();
    return part_of(part_of(data_, element_bytes(how_), chunk, size()), element_bytes(how_), i, pieces_);
  }
  std::size_t largest_piece() const {
    const auto elements = data_.size() / element_bytes(how_);
    const auto of_chunk = (elements + size() - 1) / size();
    return ((of_chunk + pieces_ - 1) / pieces_ + 1) * element_bytes(how_);
  }

  void await_next() {
    const auto step = awaited_ / pieces_;
    const auto i = awaited_ % pieces_;
    const auto whole = piece(step + 1, i);
    const auto into =
        combines(step) ? memory(room_).subspan(awaited_ % pieces_ahead * largest_piece(), whole.size()) : whole;
    ++awaited_;
    receive(left(), into, [this, step, i, whole, into] {
      if (combines(step))
        combine(how_, whole, into);
      if (step + 1 < steps_)
        send_right(step + 1, i);
      if (awaited_ < steps_ * pieces_)
        await_next();
    });
  }
  void send_right(std::size_t step, std::size_t i) { send((position() + 1) % size(), piece(step, i)); }

  const memory data_;
  const std::shared_ptr<void> owner_;
  const arithmetic how_;
  const std::size_t pieces_; ///< of a chunk, none of them empty
  const std::size_t steps_;
  std::vector<std::byte> room_; ///< for pieces that are to be combined
  std::size_t awaited_ = 0;     ///< pieces, of all steps
};

/// In pieces, as a gathering.
class exchanging_blocks final : public collective {
public:
  exchanging_blocks(std::shared_ptr<mesh> through, std::uint64_t lane, constant_memory blocks, memory into,
                    std::shared_ptr<void> owner)
      : collective(std::move(through), lane, "all-to-all"), blocks_(blocks), into_(into), owner_(std::move(owner)) {}

protected:
  void begin() override {
    const auto bytes = into_.size() / size();
    const auto pieces = pieces_of(bytes);
    for (std::uint32_t i = 0; i < size(); ++i)
      for (std::size_t piece = 0; i != position() && piece < pieces; ++piece)
        receive(i, piece_of(into_.subspan(i * bytes, bytes), piece, pieces), [] {});
    std::memcpy(into_.data() + position() * bytes, blocks_.data() + position() * bytes, bytes);
    for (std::uint32_t i = 0; i < size(); ++i)
      for (std::size_t piece = 0; i != position() && piece < pieces; ++piece)
        send(i, piece_of(blocks_.subspan(i * bytes, bytes), piece, pieces));
  }

private:
  const constant_memory blocks_;
  const memory into_;
  const std::shared_ptr<void> owner_;
};

class broadcasting final : public collective {
public:
  broadcasting(std::shared_ptr<mesh> through, std::uint64_t lane, std::uint32_t root, memory data,
               std::shared_ptr<void> owner)
      : collective(std::move(through), lane, "broadcast"), root_(root), data_(data), owner_(std::move(owner)),
        pieces_(pieces_of(data.size())) {}

protected:
  void begin() override {
    if (position() == root_)
      for (std::size_t i = 0; i < pieces_; ++i)
        pass_on(i);
    else
      while (awaited_ < std::min(pieces_ahead, pieces_))
        await_next();
  }

private:
  void await_next() {
    const auto i = awaited_++;
    receive((position() + size() - 1) % size(), part_of(data_, 1, i, pieces_), [this, i] {
      pass_on(i);
      if (awaited_ < pieces_)
        await_next();
    });
  }
  void pass_on(std::size_t i) {
    if (const auto next = (position() + 1) % size(); next != root_)
      send(next, part_of(data_, 1, i, pieces_));
  }

  const std::uint32_t root_;
  const memory data_;
  const std::shared_ptr<void> owner_;
  const std::size_t pieces_;
  std::size_t awaited_ = 0;
};

} // namespace

std::size_t element_bytes(arithmetic how) {
  return how == arithmetic::add_float32 || how == arithmetic::add_exactly ? sizeof(float) : sizeof(std::uint64_t);
}

void combine(arithmetic how, memory into, constant_memory from) {
  switch (how) {
  case arithmetic::add_float32:
    return combine_elements<float>(into, from, std::plus());
  case arithmetic::add_float64:
    return combine_elements<double>(into, from, std::plus());
  case arithmetic::add_words:
    return combine_elements<std::uint64_t>(into, from, std::plus());
  case arithmetic::or_words:
    return combine_elements<std::uint64_t>(into, from, std::bit_or());
  case arithmetic::add_exactly:
    return;
  }
}

collective::collective(std::shared_ptr<mesh> through, std::uint64_t lane, const char* name)
    : mesh_(std::move(through)), lane_(lane), name_(name) {}

void collective::start(const interruption& stop) {
  done_ = stop.make_event();
  moved_at_ = steady_clock::now().time_since_epoch().count();
  mesh_->run([self = shared_from_this(), this] {
    ++open_; // so that it is not settled before all is begun
    begin();
    close_one();
  });
}

void collective::wait(const interruption& stop, std::chrono::milliseconds timeout) {
  for (;;) {
    const steady_clock::time_point moved{steady_clock::duration(moved_at_.load())};
    const auto left = std::chrono::duration<double>(moved + timeout - steady_clock::now()).count();
    if (stop.wait_for(*done_, std::max(left, 0.0)))
      break;
    throw_if_raised(stop);
    if (left <= 0) {
      const auto problem = fmt::format("{}: nothing has come for {} ms", name_, timeout.count());
      mesh_->break_up(problem);
      throw error(problem);
    }
  }
  const std::lock_guard lock(mutex_);
  if (!problem_.empty())
    throw error(fmt::format("{}: {}", name_, problem_));
}

void collective::send(std::uint32_t to, std::span<const std::byte> bytes) {
  ++open_;
  mesh_->send(to, lane_, bytes, [self = shared_from_this(), this](const std::string& problem) {
    moved(problem);
    close_one();
  });
}

void collective::finish(const std::string& problem) {
  if (std::exchange(finished_, true))
    return;
  {
    const std::lock_guard lock(mutex_);
    problem_ = problem;
  }
  done_->complete();
}

bool collective::moved(const std::string& problem) {
  moved_at_ = steady_clock::now().time_since_epoch().count();
  if (!problem.empty())
    finish(problem);
  return !finished_;
}

void collective::close_one() {
  if (--open_ == 0 && !finished_)
    settled();
}

std::shared_ptr<collective> all_reduce(std::shared_ptr<mesh> through, std::uint64_t lane, std::span<std::byte> data,
                                       std::shared_ptr<void> owner, arithmetic how) {
  if (data.size() <= gathered_bytes_max || data.size() / element_bytes(how) < through->size())
    return std::make_shared<small_sum>(std::move(through), lane, data, std::move(owner), how);
  return std::make_shared<ring_sum>(std::move(through), lane, data, std::move(owner), how);
}

std::shared_ptr<collective> all_gather(std::shared_ptr<mesh> through, std::uint64_t lane, std::span<std::byte> all,
                                       std::shared_ptr<void> owner) {
  return std::make_shared<gathering_all>(std::move(through), lane, all, std::move(owner));
}

std::shared_ptr<collective> all_to_all(std::shared_ptr<mesh> through, std::uint64_t lane,
                                       std::span<const std::byte> blocks, std::span<std::byte> into,
                                       std::shared_ptr<void> owner) {
  return std::make_shared<exchanging_blocks>(std::move(through), lane, blocks, into, std::move(owner));
}

std::shared_ptr<collective> broadcast(std::shared_ptr<mesh> through, std::uint64_t lane, std::uint32_t root,
                                      std::span<std::byte> data, std::shared_ptr<void> owner) {
  return std::make_shared<broadcasting>(std::move(through), lane, root, data, std::move(owner));
}

} // namespace dynamix::exchange
