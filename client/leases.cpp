#include "client/leases.hpp"

#include "client/proportional_split.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

namespace dynamix::client {

namespace {

/// Takes words one by one; nothing behind the last.
struct lease_reader {
  std::span<const std::uint64_t> words;

  std::optional<std::uint64_t> next() {
    if (words.empty())
      return std::nullopt;
    const auto word = words.front();
    words = words.subspan(1);
    return word;
  }

  std::optional<item_range> range() {
    if (words.size() < 3 || words[1] > words[2])
      return std::nullopt;
    const item_range read{words[0], words[1], words[2]};
    words = words.subspan(3);
    return read;
  }
};

/// Shard by shard, so that nobody reads one from its beginning for each of its parts; shards keep their order.
std::vector<item_range> merged(std::vector<item_range> ranges) {
  std::map<std::uint64_t, std::size_t> order;
  for (const auto& range : ranges)
    order.emplace(range.shard, order.size());
  std::ranges::sort(ranges, {}, [&](const item_range& range) { return std::pair(order[range.shard], range.first); });
  std::vector<item_range> all;
  for (const auto& range : ranges)
    if (!all.empty() && all.back().shard == range.shard && all.back().last == range.first)
      all.back().last = range.last;
    else
      all.push_back(range);
  return all;
}

void add(std::vector<std::uint64_t>& words, const item_range& range) {
  words.insert(words.end(), {range.shard, range.first, range.last});
}

} // namespace

leases::leases(lease_options options, std::vector<item_range> waiting)
    : options_(std::move(options)), waiting_(std::move(waiting)), members_(options_.lanes.size()) {
  for (std::size_t i = 0; i < members_.size(); ++i)
    members_[i].held.resize(options_.whole_shards ? options_.lanes[i] : 0);
  for (const auto& range : waiting_)
    left_ += range.size();
}

/// How many items each member is short of.
std::vector<std::uint64_t> leases::wanted(std::span<const std::uint32_t> batches) const {
  const auto total = std::accumulate(batches.begin(), batches.end(), std::uint64_t{0});
  const std::uint64_t steps = 1 + std::uint64_t{options_.ahead};
  auto usable = left_;
  if (options_.drop_last && usable >= total && total > 0)
    usable -= usable % total;
  // Nobody has more than its part of the steps that are left, or it would use the last ones alone.
  const bool ends = usable < steps * total;
  const auto rest = ends ? split_in_proportion(usable, batches) : std::vector<std::uint64_t>();
  std::vector<std::uint64_t> short_of(batches.size());
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    const auto due = ends ? rest[i] : steps * batches[i];
    short_of[i] = due - std::min(due, members_[i].items);
    sum += short_of[i];
  }
  if (sum <= left_ - stocked_)
    return short_of;
  // Somebody has more than its part, which stays with it.
  return split_in_proportion(left_ - stocked_, std::vector<std::uint32_t>(short_of.begin(), short_of.end()));
}

void leases::lease(std::span<const std::uint32_t> batches) {
  auto short_of = wanted(batches);
  // Step by step, so that it makes no difference how many of them are leased at once.
  for (bool leased = true; leased;) {
    leased = false;
    for (std::size_t i = 0; i < members_.size(); ++i) {
      if (short_of[i] == 0)
        continue;
      // A piece ends where a batch does, so that batches are pieces again soon after a change.
      const auto count = std::min(short_of[i], batches[i] - members_[i].items % batches[i]);
      add_piece(members_[i], count);
      short_of[i] -= count;
      leased = true;
    }
  }
}

void leases::add_piece(member_leases& to, std::uint64_t count) {
  item_range unread;
  auto& held = options_.whole_shards ? to.held[to.turn % to.held.size()] : unread;
  to.items += count;
  stocked_ += count;
  while (count > 0) {
    if (held.size() == 0)
      held = next_range(count);
    const auto taken = std::min(count, held.size());
    count -= taken;
    to.stock.push_back({{held.shard, held.first, held.first + taken}, count == 0});
    held.first += taken;
  }
  ++to.turn;
}

item_range leases::next_range(std::uint64_t wanted) {
  if (next_ < waiting_.size()) {
    auto& first = waiting_[next_];
    auto taken = first;
    if (!options_.whole_shards)
      taken.last = std::min(first.last, first.first + wanted);
    first.first = taken.last;
    if (first.size() == 0)
      ++next_;
    return taken;
  }
  // The second half of what is read last, so that no member runs dry before the others.
  item_range* longest = nullptr;
  for (auto& member : members_)
    for (auto& held : member.held)
      if (longest == nullptr || held.size() > longest->size())
        longest = &held;
  const auto size = longest->size();
  const auto middle = longest->last - std::max((size + 1) / 2, std::min(size, wanted));
  return {longest->shard, middle, std::exchange(longest->last, middle)};
}

/// Of a step for which somebody has less than its batch, or where nothing is left to be leased.
std::vector<std::uint64_t> leases::last_shares(std::span<const std::uint32_t> batches,
                                               std::span<const std::uint32_t> limits) const {
  const auto batch = std::accumulate(batches.begin(), batches.end(), std::uint64_t{0});
  const auto total = std::min(batch, left_);
  const auto steps = (left_ + batch - 1) / batch;
  std::vector<std::uint64_t> shares(batches.size());
  std::uint64_t sum = 0;
  bool suits = true; // everybody comes to its end by its batches
  for (std::size_t i = 0; i < batches.size(); ++i) {
    shares[i] = std::min<std::uint64_t>(batches[i], members_[i].items);
    suits = suits && members_[i].items <= steps * batches[i];
    sum += shares[i];
  }
  if (suits && sum == total)
    return shares;
  std::vector<std::uint32_t> items;
  for (const auto& member : members_)
    items.push_back(static_cast<std::uint32_t>(member.items));
  shares = split_in_proportion(total, items);
  std::vector<std::uint32_t> room;
  std::uint64_t over = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const std::uint64_t limit = std::min(limits[i], items[i]);
    over += shares[i] - std::min(shares[i], limit);
    shares[i] = std::min(shares[i], limit);
    room.push_back(static_cast<std::uint32_t>(limit - shares[i]));
  }
  const auto more =
      split_in_proportion(std::min(over, std::accumulate(room.begin(), room.end(), std::uint64_t{0})), room);
  for (std::size_t i = 0; i < shares.size(); ++i)
    shares[i] += more[i];
  return shares;
}

std::vector<std::uint64_t> leases::next_shares(std::span<const std::uint32_t> batches,
                                               std::span<const std::uint32_t> limits) const {
  bool ends = stocked_ == left_;
  for (std::size_t i = 0; i < members_.size(); ++i)
    ends = ends || members_[i].items < batches[i];
  return ends ? last_shares(batches, limits) : std::vector<std::uint64_t>(batches.begin(), batches.end());
}

std::vector<item_range> leases::next_items(std::size_t member, std::uint64_t count) const {
  std::vector<item_range> ranges;
  for (auto part = members_[member].stock.begin(); count > 0; ++part) {
    const auto taken = std::min(count, part->items.size());
    ranges.push_back({part->items.shard, part->items.first, part->items.first + taken});
    count -= taken;
  }
  return ranges;
}

void leases::use(std::span<const std::uint64_t> shares) {
  for (std::size_t i = 0; i < members_.size(); ++i) {
    auto& member = members_[i];
    auto count = shares[i];
    member.items -= count;
    left_ -= count;
    stocked_ -= count;
    auto part = member.stock.begin();
    for (; count > 0 && part->items.size() <= count; ++part)
      count -= part->items.size();
    if (count > 0)
      part->items.first += count;
    member.stock.erase(member.stock.begin(), part);
  }
}

std::uint64_t leases::pieces_used(std::size_t member) const {
  const auto& stock = members_[member].stock;
  return members_[member].turn - static_cast<std::uint64_t>(std::ranges::count_if(stock, &part::ends_piece));
}

std::vector<item_range> leases::piece(std::size_t member, std::uint64_t number) const {
  std::vector<item_range> ranges;
  auto at = pieces_used(member);
  for (const auto& part : members_[member].stock) {
    if (at == number)
      ranges.push_back(part.items);
    at += part.ends_piece ? 1 : 0;
  }
  return ranges;
}

void leases::give_back(const std::vector<bool>& present) {
  std::vector<item_range> returned;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    auto& member = members_[i];
    if (present[i])
      continue;
    for (const auto& part : member.stock)
      returned.push_back(part.items);
    for (auto& held : member.held)
      if (held.size() > 0)
        returned.push_back(std::exchange(held, {}));
    stocked_ -= std::exchange(member.items, 0);
    member.stock.clear();
  }
  returned.insert(returned.end(), waiting_.begin() + static_cast<std::ptrdiff_t>(next_), waiting_.end());
  waiting_ = merged(std::move(returned));
  next_ = 0;
}

std::vector<std::uint64_t> leases::save() const {
  std::vector<std::uint64_t> words{members_.size()};
  for (const auto& member : members_) {
    words.insert(words.end(), {member.turn, member.held.size(), member.stock.size()});
    for (const auto& held : member.held)
      add(words, held);
    for (const auto& part : member.stock) {
      add(words, part.items);
      words.push_back(part.ends_piece ? 1 : 0);
    }
  }
  words.push_back(waiting_.size() - next_);
  for (auto range = waiting_.begin() + static_cast<std::ptrdiff_t>(next_); range != waiting_.end(); ++range)
    add(words, *range);
  return words;
}

bool leases::restore(std::span<const std::uint64_t> words, std::span<const std::uint64_t> lengths, std::uint64_t left) {
  lease_reader reader{words};
  const auto count = reader.next();
  if (!count || *count > words.size())
    return false;
  leases read(options_, {});
  read.members_.assign(*count, {});
  bool same = *count == options_.lanes.size();
  for (std::size_t i = 0; i < *count; ++i) {
    auto& member = read.members_[i];
    const auto turn = reader.next();
    const auto lanes = reader.next();
    const auto parts = reader.next();
    if (!turn || !lanes || !parts || *lanes > words.size() || *parts > words.size())
      return false;
    member.turn = *turn;
    same = same && *lanes == (options_.whole_shards ? options_.lanes[i] : 0);
    for (std::uint64_t lane = 0; lane < *lanes; ++lane) {
      const auto held = reader.range();
      if (!held)
        return false;
      member.held.push_back(*held);
    }
    for (std::uint64_t part = 0; part < *parts; ++part) {
      const auto items = reader.range();
      const auto ends = reader.next();
      if (!items || !ends || (part + 1 == *parts && *ends == 0))
        return false;
      member.stock.push_back({*items, *ends != 0});
      member.items += items->size();
    }
    read.stocked_ += member.items;
  }
  for (auto ranges = reader.next().value_or(words.size()); ranges > 0; --ranges)
    if (const auto range = reader.range())
      read.waiting_.push_back(*range);
    else
      return false;
  // All of it is there to be leased; whatever nobody else has leased.
  auto all = read;
  all.give_back(std::vector<bool>(*count, false));
  for (const auto& range : all.waiting_) {
    if (range.shard >= lengths.size() || range.first > range.last || range.last > lengths[range.shard] ||
        range.size() > left - read.left_)
      return false;
    read.left_ += range.size();
  }
  if (read.left_ != left || std::ranges::any_of(reader.words, [](std::uint64_t word) { return word != 0; }))
    return false;
  *this = same ? std::move(read) : leases(options_, std::move(all.waiting_));
  return true;
}

} // namespace dynamix::client
