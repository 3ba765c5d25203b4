#include "client/batch_shares.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace dynamix::client {

namespace {

__extension__ using wide = __int128; ///< a global batch below 2^32 times weights that add up to less than 2^56

struct share {
  std::uint64_t weight = 0;
  std::uint32_t lowest = 0;
  std::uint32_t highest = 0;
  std::uint32_t batch = 0;
  bool fixed = false;
};

/// A stayer's weight is its batch times the number of stayers, a newcomer's the sum of theirs: so the mean is exact. Of
/// stayers who differ by a sample at most all weigh the same: they are as even as whole samples can be, and as weights
/// such differences would grow from generation to generation.
std::vector<share> weigh(const member_batches& before, std::span<const std::uint32_t> members, std::uint32_t lowest,
                         std::span<const std::uint32_t> highest) {
  std::vector<share> shares(members.size());
  std::uint64_t stayers = 0;
  std::uint64_t stayers_sum = 0;
  std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
  std::uint32_t most = 0;
  for (std::size_t i = 0; i < members.size(); ++i) {
    shares[i].lowest = std::min(lowest, highest[i]);
    shares[i].highest = highest[i];
    const auto found = std::ranges::find(before.members, members[i]);
    if (found == before.members.end())
      continue;
    ++stayers;
    shares[i].batch = before.batches[static_cast<std::size_t>(found - before.members.begin())];
    shares[i].fixed = true; // for now: stays
    stayers_sum += shares[i].batch;
    least = std::min(least, shares[i].batch);
    most = std::max(most, shares[i].batch);
  }
  const bool even = stayers > 0 && most - least <= 1;
  for (auto& each : shares) {
    each.weight = even ? 1 : each.fixed ? each.batch * stayers : stayers_sum;
    each.fixed = false;
  }
  return shares;
}

/// One round: those whose share of `left` lies outside of the bounds on the side that weighs more get their bound. As
/// in the layout of flexible boxes, that side's are final. False when no share lies outside.
bool fix_at_bounds(std::vector<share>& shares, std::uint64_t left, std::uint64_t weights) {
  wide below = 0;
  wide above = 0;
  for (const auto& each : shares) {
    if (each.fixed)
      continue;
    const wide wanted = wide{left} * each.weight;
    below += std::max(wide{0}, wide{each.lowest} * weights - wanted);
    above += std::max(wide{0}, wanted - wide{each.highest} * weights);
  }
  if (below == 0 && above == 0)
    return false;
  for (auto& each : shares) {
    if (each.fixed)
      continue;
    const wide wanted = wide{left} * each.weight;
    const bool too_low = below >= above && wanted < wide{each.lowest} * weights;
    const bool too_high = above >= below && wanted > wide{each.highest} * weights;
    if (!too_low && !too_high)
      continue;
    each.fixed = true;
    each.batch = too_low ? each.lowest : each.highest;
  }
  return true;
}

void round_by_largest_remainder(std::vector<share>& shares, std::uint64_t left, std::uint64_t weights) {
  std::vector<std::pair<wide, share*>> remainders;
  std::uint64_t over = left;
  for (auto& each : shares) {
    if (each.fixed)
      continue;
    const wide wanted = wide{left} * each.weight;
    each.batch = static_cast<std::uint32_t>(wanted / weights);
    over -= each.batch;
    remainders.emplace_back(wanted % weights, &each);
  }
  std::ranges::stable_sort(remainders, std::ranges::greater{}, [](const auto& entry) { return entry.first; });
  for (std::size_t i = 0; i < over; ++i)
    ++remainders[i].second->batch;
}

} // namespace

std::vector<std::uint32_t> share_batches(const member_batches& before, std::span<const std::uint32_t> members,
                                         std::uint32_t lowest, std::span<const std::uint32_t> highest) {
  const auto total = std::accumulate(before.batches.begin(), before.batches.end(), std::uint64_t{0});
  auto shares = weigh(before, members, lowest, highest);
  // Each round fixes one at least, and one share alone is inside its bounds or fixed.
  for (bool settled = false; !settled;) {
    std::uint64_t fixed = 0;
    std::uint64_t weights = 0;
    bool any_free = false;
    for (const auto& each : shares) {
      fixed += each.fixed ? each.batch : 0;
      weights += each.fixed ? 0 : each.weight;
      any_free = any_free || !each.fixed;
    }
    if (!any_free)
      break;
    if (weights == 0) { // nobody who had samples is left free: all that are, count the same
      for (auto& each : shares)
        each.weight = 1;
      weights = static_cast<std::uint64_t>(std::ranges::count(shares, false, &share::fixed));
    }
    const auto left = total > fixed ? total - fixed : 0;
    settled = !fix_at_bounds(shares, left, weights);
    if (settled)
      round_by_largest_remainder(shares, left, weights);
  }
  std::vector<std::uint32_t> result;
  for (const auto& each : shares)
    result.push_back(each.batch);
  return result;
}

} // namespace dynamix::client
