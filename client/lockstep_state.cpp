// A lockstep's state as whole numbers.

#include "client/batch_shares.hpp"
#include "client/lockstep.hpp"
#include "storage/fnv1a.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/core.h>
#include <numeric>
#include <utility>

namespace dynamix::client {

namespace {

constexpr std::uint64_t state_mark = 0x34584d414e5944;           // "DYNAMX4"
constexpr std::uint64_t leaseless_state_mark = 0x32584d414e5944; // "DYNAMX2", before leases and the members' limits
constexpr std::uint64_t shareless_state_mark = 0x31584d414e5944; // "DYNAMX1", before the share of noise was averaged
constexpr std::size_t planned_max = 1U << 16;

std::uint64_t checksum(std::span<const std::uint64_t> words) {
  storage::fnv1a hash;
  for (const auto word : words)
    hash.add_number(word);
  return hash.value();
}

struct planned_words {
  std::uint64_t from_step = 0;
  std::vector<std::uint32_t> batches;
  std::vector<std::uint32_t> limits; ///< none in states before they had them
};

/// What a state consists of.
struct state_words {
  std::uint64_t samples_of_epoch = 0;
  std::uint64_t identity = 0;
  std::uint64_t seed = 0;
  std::uint64_t shuffled = 0;
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  sampler_position position;
  std::uint64_t base_batch = 0;
  noise_state noise;
  learning_rate_state rule;
  learning_rate_step rate;
  std::uint64_t members = 0;
  std::vector<planned_words> plan;
  std::span<const std::uint64_t> leases; ///< zeros at an epoch's beginning
};

/// The numbers of a state in the order in which they are written and read.
template <class State, class Number>
void visit_numbers(State& state, Number&& number, std::uint64_t mark = state_mark) {
  number(state.samples_of_epoch);
  if (mark == state_mark)
    number(state.identity);
  number(state.seed);
  number(state.shuffled);
  number(state.step);
  number(state.samples);
  number(state.position.epoch);
  number(state.position.cursor);
  number(state.base_batch);
  number(state.noise.steps);
  for (auto* average : {&state.noise.trace, &state.noise.gradient_square, &state.noise.global_square, &state.rule.trace,
                        &state.rule.gradient_square}) {
    number(average->sum);
    number(average->weight);
  }
  if (mark != shareless_state_mark) {
    number(state.noise.share.sum);
    number(state.noise.share.weight);
    number(state.noise.batch);
  }
  number(state.rule.progress);
  number(state.rate.learning_rate);
  number(state.rate.gain);
  number(state.members);
}

/// Takes words one by one, and none behind the last.
struct word_reader {
  std::span<const std::uint64_t> words;
  std::size_t at = 0;
  bool short_of_words = false;

  void operator()(std::uint64_t& number) {
    if (at == words.size())
      short_of_words = true;
    else
      number = words[at++];
  }
  void operator()(double& number) {
    std::uint64_t bits = 0;
    (*this)(bits);
    number = std::bit_cast<double>(bits);
  }
};

/// Of one size at any step, as torch.distributed.checkpoint wants it, and with any data loaders that fetch up to 30
/// batches ahead. A range of items takes four words. Each lies in a shard of its own, or ends where a piece or what a
/// lane reads does; a member that fetches has at most two pieces for each batch ahead.
std::size_t room_for(const lockstep_options& options) {
  const auto batches = std::max<std::size_t>(options.ahead, 30) + 2;
  auto ranges = options.shards.size() + 2 * batches * options.members.size();
  for (const auto lanes : options.lanes)
    ranges += 2 * (options.shards.empty() ? 0 : std::size_t{lanes});
  return 64 + 4 * options.members.size() + 4 * ranges + batches * (1 + 2 * options.members.size());
}

std::string read_batches(word_reader& reader, std::uint64_t members, std::vector<std::uint32_t>& batches) {
  for (std::uint64_t member = 0; member < members && !reader.short_of_words; ++member) {
    std::uint64_t batch = 0;
    reader(batch);
    if (batch > messages::max_batch)
      return fmt::format("it has a batch size of {}", batch);
    batches.push_back(static_cast<std::uint32_t>(batch));
  }
  return {};
}

std::string read_plan(word_reader& reader, state_words& state, std::uint64_t mark) {
  std::uint64_t count = 0;
  reader(count);
  if (state.members == 0 || state.members > messages::max_workers || count == 0 || count > planned_max)
    return "its members or its plan are out of range";
  for (std::uint64_t i = 0; i < count && !reader.short_of_words; ++i) {
    planned_words planned;
    reader(planned.from_step);
    auto problem = read_batches(reader, state.members, planned.batches);
    if (problem.empty() && mark == state_mark)
      problem = read_batches(reader, state.members, planned.limits);
    if (!problem.empty())
      return problem;
    const auto total = std::accumulate(planned.batches.begin(), planned.batches.end(), std::uint64_t{0});
    if (total == 0 || (i == 0 && planned.from_step != 0) || (i > 0 && planned.from_step <= state.plan.back().from_step))
      return "its plan of batch sizes makes no sense";
    state.plan.push_back(std::move(planned));
  }
  return {};
}

std::string read_state(std::span<const std::uint64_t> words, state_words& state) {
  const auto mark = words.size() < 2 ? 0 : words.front();
  if (mark != state_mark && mark != leaseless_state_mark && mark != shareless_state_mark)
    return "it is not a state of this version of dynamix";
  if (checksum(words.first(words.size() - 1)) != words.back())
    return "it is damaged: its checksum is another";
  word_reader reader{words.subspan(1, words.size() - 2)};
  visit_numbers(state, reader, mark);
  if (auto problem = read_plan(reader, state, mark); !problem.empty())
    return problem;
  if (reader.short_of_words || (mark != state_mark && reader.at != reader.words.size()))
    return "it is of another length than its contents";
  state.leases = reader.words.subspan(reader.at);
  bool finite = true;
  visit_numbers(state, [&finite]<class Number>(Number& number) {
    if constexpr (std::is_same_v<Number, double>)
      finite = finite && std::isfinite(number);
  });
  const auto& share = state.noise.share;
  const bool is_share = state.noise.batch >= 0 && share.sum >= 0 && share.sum <= share.weight && share.weight <= 1;
  if (!finite || !is_share || state.base_batch == 0 || state.step > messages::max_counter || state.rule.progress < 0)
    return "it holds numbers that make no sense";
  return {};
}

} // namespace

std::vector<std::uint32_t> limits_of(std::span<const member_batch> members) {
  std::vector<std::uint32_t> limits;
  for (const auto& member : members)
    limits.push_back(member.highest);
  return limits;
}

std::vector<member_batch> within(std::vector<member_batch> members, std::span<const std::uint32_t> limits) {
  for (std::size_t member = 0; member < limits.size(); ++member)
    if (limits[member] > 0)
      members[member].highest = std::min(members[member].highest, limits[member]);
  return members;
}

std::vector<std::uint32_t> share_among(const std::vector<std::uint32_t>& before, std::span<const member_batch> members,
                                       const std::vector<bool>& present) {
  member_batches stayed;
  for (std::uint32_t member = 0; member < before.size(); ++member)
    if (before[member] > 0) {
      stayed.members.push_back(member);
      stayed.batches.push_back(before[member]);
    }
  std::vector<std::uint32_t> now;
  std::vector<std::uint32_t> highest;
  std::uint32_t lowest = messages::max_batch;
  for (std::uint32_t member = 0; member < members.size(); ++member)
    if (present[member]) {
      now.push_back(member);
      highest.push_back(members[member].highest);
      lowest = std::min(lowest, members[member].lowest);
    }
  const auto shared = share_batches(stayed, now, lowest, highest);
  std::vector<std::uint32_t> batches(members.size());
  for (std::size_t i = 0; i < now.size(); ++i)
    batches[now[i]] = shared[i];
  return batches;
}

sampler_position lockstep::next_position() const {
  const bool left = left_step_ && step_ >= *left_step_ && in_epoch_ && position_.cursor > 0;
  return left ? sampler_position{position_.epoch + 1, 0} : position_;
}

std::vector<std::uint64_t> lockstep::save() const {
  state_words state{.samples_of_epoch = options_.samples,
                    .identity = options_.identity,
                    .seed = options_.seed,
                    .shuffled = options_.shuffled ? 1U : 0U,
                    .step = step_,
                    .samples = samples_,
                    .position = next_position(),
                    .base_batch = base_batch_,
                    .noise = noise_.state(),
                    .rule = rule_.state(),
                    .rate = rate_,
                    .members = options_.members.size()};
  const auto& plan = settled_plan();
  state.plan.push_back({0, plan.at(step_).batches, plan.at(step_).limits});
  for (const auto& planned : plan.entries())
    if (planned.from_step > step_)
      state.plan.push_back({planned.from_step, planned.batches, planned.limits});
  std::vector<std::uint64_t> words{state_mark};
  visit_numbers(state, [&words](auto number) { words.push_back(std::bit_cast<std::uint64_t>(number)); });
  words.push_back(state.plan.size());
  for (const auto& planned : state.plan) {
    words.push_back(planned.from_step);
    words.insert(words.end(), planned.batches.begin(), planned.batches.end());
    words.insert(words.end(), planned.limits.begin(), planned.limits.end());
  }
  if (state.position.cursor > 0) {
    const auto leased = used_.save();
    words.insert(words.end(), leased.begin(), leased.end());
  }
  words.resize(std::max(words.size(), room_for(options_)));
  words.push_back(checksum(words));
  return words;
}

std::string lockstep::restore(std::span<const std::uint64_t> words, std::span<const std::uint32_t> highest) {
  if (auto problem = take(words, highest); !problem.empty())
    return problem;
  started_epoch_.reset(); // one of this number may have been under way, and does not go on
  const auto& batches = plan_.newest().batches;
  bool same = true; // are present
  for (std::size_t member = 0; member < batches.size(); ++member)
    same &= (batches[member] > 0) == present_[member];
  if (!same)
    regroup(present_);
  return {};
}

std::string lockstep::take(std::span<const std::uint64_t> words, std::span<const std::uint32_t> highest) {
  state_words state;
  if (auto problem = read_state(words, state); !problem.empty())
    return problem;
  if (state.samples_of_epoch != options_.samples)
    return fmt::format("it was trained on {} samples per epoch, this run has {}", state.samples_of_epoch,
                       options_.samples);
  if (words.front() == state_mark && state.identity != options_.identity)
    return "it is of other shards: give those that it was trained on, in the same order";
  if (state.seed != options_.seed || (state.shuffled != 0) != options_.shuffled)
    return fmt::format("its samples are in the order of seed {}{}, those of this run in that of seed {}{}", state.seed,
                       state.shuffled != 0 ? "" : " without shuffling", options_.seed,
                       options_.shuffled ? "" : " without shuffling");
  if (state.position.cursor >= options_.samples)
    return "its place in the data set lies outside of an epoch";
  auto used = new_leases(state.position);
  const bool says_leases = state.position.cursor > 0 && !state.leases.empty();
  if (says_leases ? !used.restore(state.leases, sampler_.lengths(), options_.samples - state.position.cursor)
                  : state.position.cursor > 0 && sampler_.is_stream())
    return "it does not say what is left of its epoch";
  const auto members = within(introduced_, highest);
  if (state.members != members.size())
    state.plan = {{0, share_among(state.plan.back().batches, members, std::vector<bool>(members.size(), true)), {}}};
  for (auto& planned : state.plan) {
    planned.limits = limits_of(within(members, planned.limits));
    for (std::size_t member = 0; member < members.size(); ++member)
      planned.batches[member] = std::min(planned.batches[member], planned.limits[member]);
  }
  batch_plan plan(std::move(state.plan.front().batches), std::move(state.plan.front().limits));
  for (std::size_t i = 1; i < state.plan.size(); ++i)
    plan.add({.from_step = state.plan[i].from_step,
              .batches = std::move(state.plan[i].batches),
              .limits = std::move(state.plan[i].limits)});
  plan_ = std::move(plan);
  plan_before_.reset();
  base_batch_ = state.base_batch;
  noise_.restore(state.noise);
  rule_ = new_rule(base_batch_);
  rule_.restore(state.rule);
  rate_ = state.rate;
  step_ = first_step_ = state.step;
  wait_for_decision();
  samples_ = state.samples;
  position_ = state.position;
  used_ = std::move(used);
  in_epoch_ = false;
  epoch_open_ = false;
  ahead_.clear();
  delivered_ = 0;
  pending_.reset();
  rows_ = row_phase::none;
  stop_step_.reset();
  left_step_.reset();
  return {};
}

} // namespace dynamix::client
