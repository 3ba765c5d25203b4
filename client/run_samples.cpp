// A run's samples: what is fetched and dealt, and where it lies.

#include "client/run.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace dynamix::client {

namespace {

void fill(dynamix_deal& deal, const dealt_step& dealt) {
  deal.own = static_cast<std::uint32_t>(dealt.own);
  deal.step = dealt.step;
  deal.epoch = dealt.epoch;
  deal.total = dealt.total;
  deal.first = dealt.first;
  deal.ends_epoch = dealt.ends_epoch ? 1 : 0;
  deal.padded = dealt.own == 0 ? 1 : 0;
}

void fill(dynamix_deal& deal, const fetched_piece& piece) {
  deal.epoch = piece.epoch;
  deal.ranges = static_cast<std::uint32_t>(piece.ranges.size());
  deal.lane = static_cast<std::uint32_t>(piece.lane);
}

std::uint32_t count_of(const fetched_piece& piece) {
  std::uint64_t count = 0;
  for (const auto& range : piece.ranges)
    count += range.size();
  return static_cast<std::uint32_t>(count);
}

int code_of(deal_verdict verdict) {
  return verdict == deal_verdict::dealt ? DYNAMIX_OK : verdict == deal_verdict::end ? DYNAMIX_END : DYNAMIX_WAIT;
}

} // namespace

std::string run::deal(dynamix_deal& deal, int& verdict) {
  dealt_step dealt;
  verdict = code_of(steps_->deal(dealt));
  fill(deal, dealt);
  fill(deal, steps_->piece());
  return {};
}

std::string run::fetch(dynamix_deal& piece, int& verdict) {
  verdict = code_of(steps_->fetch());
  piece.own = count_of(steps_->piece());
  fill(piece, steps_->piece());
  return {};
}

std::string run::samples(std::span<std::uint32_t> numbers) {
  if (!steps_->options().shards.empty())
    return "items of a stream have no numbers: dynamix_ranges says which they are";
  if (numbers.size() != count_of(steps_->piece()))
    return fmt::format("there are {} samples, not {}", count_of(steps_->piece()), numbers.size());
  std::ranges::copy(steps_->samples(), numbers.begin());
  return {};
}

std::string run::ranges(std::span<dynamix_range> ranges) const {
  const auto& made = steps_->piece().ranges;
  if (ranges.size() != made.size())
    return fmt::format("there are {} ranges, not {}", made.size(), ranges.size());
  std::ranges::transform(made, ranges.begin(), [](const item_range& range) {
    return dynamix_range{.shard = range.shard, .first = range.first, .last = range.last};
  });
  return {};
}

std::string run::shares(std::span<std::uint32_t> counts) const {
  const auto& shares = steps_->shares();
  if (shares.size() != counts.size())
    return shares.empty() ? "nothing is dealt"
                          : fmt::format("there are {} members, not {}", shares.size(), counts.size());
  std::ranges::copy(shares, counts.begin());
  return {};
}

std::string run::deliver(dynamix_deal& deal) {
  const auto dealt = steps_->deliver();
  if (!dealt)
    return "there is no batch that was dealt and not delivered: every one is delivered once";
  fill(deal, *dealt);
  return {};
}

std::string run::leave_epoch(std::uint64_t steps_to_come) {
  if (steps_to_come > steps_->dealt() - steps_->step())
    return fmt::format("{} steps are to come, and {} are dealt", steps_to_come, steps_->dealt() - steps_->step());
  steps_->leave_epoch(steps_to_come);
  return {};
}

} // namespace dynamix::client
