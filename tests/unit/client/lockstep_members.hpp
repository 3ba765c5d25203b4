#pragma once

/// Many members of a training in one process, by a seed: each derives by itself what must be the same on all.

#include "client/lockstep.hpp"
#include "client/random.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>

namespace dynamix::client {

inline lockstep_options options_for(std::uint32_t position, std::vector<member_batch> members, std::uint64_t samples) {
  return {.position = position, .members = std::move(members), .samples = samples, .seed = 7};
}

inline messages::decision decide(std::uint64_t window, std::uint32_t rank, std::uint32_t batch) {
  return {.key = {.term = 1, .window = window}, .generation = 1, .rank = rank, .batch = batch, .first_step = 0};
}

inline messages::balancing random_balancing(storage::splitmix64& random) {
  return std::array{messages::balancing::off, messages::balancing::shares,
                    messages::balancing::automatic}[random.below(3)];
}

/// All members of a training, each with a data loader that deals so many batches ahead; or, every second one where
/// `leased` are fetched before they are dealt, that deals a batch when the training loop takes it. Decisions reach the
/// members at different times.
class members {
public:
  members(std::vector<member_batch> batches, std::uint64_t samples, std::vector<std::uint32_t> ahead, bool drop_last,
          std::uint64_t seed, std::uint32_t leased = 0, messages::balancing balances = messages::balancing::off)
      : samples_(samples), ahead_(std::move(ahead)), balances_(balances), random_(seed), held_(batches.size()),
        present_(batches.size(), true) {
    for (std::uint32_t position = 0; position < batches.size(); ++position) {
      auto options = options_for(position, batches, samples);
      options.balances = balances;
      options.drop_last = drop_last;
      options.ahead = leased;
      options.fetches = leased > 0 && position % 2 == 0;
      if (options.fetches)
        ahead_[position] = fetches;
      steps_.push_back(std::make_unique<lockstep>(std::move(options)));
    }
  }

  void start_epoch() {
    for (const auto member : here())
      steps_[member]->start_epoch();
    epoch_ = lead().position().epoch;
    numbers_.assign(steps_.size(), {});
    fetched_.assign(steps_.size(), {});
    seen_.clear();
  }

  /// Trains one step of so many batches, fewer at an epoch's end; with `each_synchronised` a row goes out as soon as
  /// one is due. False: the epoch is over on all members.
  bool step(std::uint32_t batches = 1, bool each_synchronised = false) {
    bool exchanged = false;
    std::uint32_t taken = 0;
    while (taken < batches && take_batches()) {
      ++taken;
      if (each_synchronised && !exchanged && lead().gathers()) {
        exchange_rows();
        exchanged = true;
      }
    }
    if (taken == 0)
      return false;
    check_step();
    if (!exchanged && lead().gathers())
      exchange_rows();
    for (const auto member : here()) {
      steps_[member]->rate(0);
      steps_[member]->complete(false);
    }
    return true;
  }

  /// To be seen by each member from now on or from its next steps on.
  void decide_all() {
    ++window_;
    for (std::size_t member = 0; member < steps_.size(); ++member)
      arrivals_[{lead().step() + random_.below(4), member}] =
          decide(window_, static_cast<std::uint32_t>(member), 1 + random_.below(40));
  }

  /// Some members go, or have come back with the state of another one, which may be a step ahead.
  void regroup(storage::splitmix64& random) {
    std::vector<bool> present(steps_.size());
    for (std::size_t member = 0; member < steps_.size(); ++member)
      present[member] = random.below(3) > 0;
    present[random.below(static_cast<std::uint32_t>(steps_.size()))] = true;
    regroup(present);
  }

  void regroup(const std::vector<bool>& present) {
    const auto state = lead().save();
    const bool in_epoch = lead().position().epoch == epoch_;
    for (std::size_t member = 0; member < steps_.size(); ++member) {
      if (present[member] && !present_[member]) { // a new process
        auto options = steps_[member]->options(); // as others have them, since its own limit is gone with it
        options.members[member] = steps_[member == 0 ? 1 : 0]->options().members[member];
        steps_[member] = std::make_unique<lockstep>(std::move(options));
        EXPECT_EQ(steps_[member]->catch_up(state), "");
        steps_[member]->regroup(present);
        if (in_epoch)
          steps_[member]->start_epoch();
      } else if (present[member]) {
        steps_[member]->regroup(present);
      }
      numbers_[member].clear();
      fetched_[member].clear();
    }
    present_ = present;
  }

  /// In the next row of that member.
  void request(std::size_t member, session::step_request wanted) { requests_[member] = wanted; }
  /// What the members that are here came to by the newest rows, each by itself.
  const std::vector<session::agreement>& agreed() const { return agreed_; }

  const std::map<std::uint32_t, int>& seen() const { return seen_; }
  lockstep& first() { return lead(); }
  lockstep& at(std::size_t member) { return *steps_[member]; }
  std::size_t size() const { return steps_.size(); }
  std::uint64_t changes() const { return changes_; }

private:
  std::vector<std::size_t> here() const {
    std::vector<std::size_t> found;
    for (std::size_t member = 0; member < present_.size(); ++member)
      if (present_[member])
        found.push_back(member);
    return found;
  }
  lockstep& lead() { return *steps_[here().front()]; }

  /// One batch on each member; none on all where the epoch is over.
  bool take_batches() {
    std::vector<bool> goes_on;
    for (const auto member : here())
      goes_on.push_back(next_batch(member));
    EXPECT_TRUE(std::ranges::count(goes_on, goes_on[0]) == static_cast<std::ptrdiff_t>(goes_on.size()))
        << "some members have a step and others none";
    return goes_on[0];
  }

  bool next_batch(std::size_t member) {
    auto& steps = *steps_[member];
    auto& waiting = numbers_[member];
    if (ahead_[member] == fetches)
      return next_of_fetched(member);
    while (waiting.size() <= ahead_[member]) {
      dealt_step dealt;
      if (steps.deal(dealt) != deal_verdict::dealt)
        break;
      waiting.push_back(steps.samples());
      waiting.back().resize(dealt.own);
    }
    if (waiting.empty())
      return false;
    for (const auto number : waiting.front())
      ++seen_[number];
    waiting.erase(waiting.begin());
    return steps.deliver().has_value();
  }

  /// The loader's workers have fetched whatever was leased, or less of it.
  bool next_of_fetched(std::size_t member) {
    auto& steps = *steps_[member];
    auto& fetched = fetched_[member];
    const auto fetch = [&] {
      const auto verdict = steps.fetch();
      const auto samples = steps.samples();
      if (verdict == deal_verdict::dealt)
        fetched.insert(fetched.end(), samples.begin(), samples.end());
      return verdict == deal_verdict::dealt;
    };
    for (auto pieces = random_.below(8); pieces > 0 && fetch(); --pieces) {
    }
    dealt_step dealt;
    if (steps.deal(dealt) != deal_verdict::dealt)
      return false;
    while (fetched.size() < dealt.own && fetch()) {
    }
    EXPECT_GE(fetched.size(), dealt.own) << "more is dealt than was leased";
    for (auto count = std::min<std::size_t>(dealt.own, fetched.size()); count > 0; --count) {
      ++seen_[fetched.front()];
      fetched.pop_front();
    }
    return steps.deliver().has_value();
  }

  void check_step() {
    std::uint64_t own = 0;
    for (const auto member : here()) {
      const auto& each = *steps_[member];
      own += each.own_samples();
      EXPECT_EQ(each.total_samples(), lead().total_samples());
      EXPECT_EQ(each.gathers(), lead().gathers());
      EXPECT_EQ(each.measures(), lead().measures());
    }
    EXPECT_EQ(own, lead().total_samples());
  }

  void exchange_rows() {
    std::vector<step_row> rows;
    for (std::size_t member = 0; member < steps_.size(); ++member) {
      if (!present_[member]) {
        rows.push_back({.step = 12345, .weight = -1}); // nobody reads it
        continue;
      }
      for (auto arrived = arrivals_.begin(); arrived != arrivals_.end();) {
        const bool due = arrived->first.first <= lead().step() && arrived->first.second == member;
        if (due)
          held_[member] = {arrived->second, held_[member][0]};
        arrived = due ? arrivals_.erase(arrived) : std::next(arrived);
      }
      auto& steps = *steps_[member];
      const auto weight = static_cast<double>(steps.own_samples());
      if (balances_ != messages::balancing::off) // a pace that changes now and then, and cores of its own
        measure(steps, member);
      const auto row = steps.write_row(held_[member], requests_[member], weight, 1);
      const auto numbers = session::encode(row);
      rows.push_back(session::decode_step_row(numbers));
      dealt_step dealt;
      EXPECT_NE(steps.deal(dealt), deal_verdict::dealt);
    }
    agreed_.clear();
    for (const auto member : here()) {
      session::agreement agreed;
      ASSERT_EQ(steps_[member]->read_rows(rows, agreed), "");
      EXPECT_EQ(steps_[member]->newest_batches().batches, lead().newest_batches().batches);
      EXPECT_EQ(steps_[member]->newest_batches().from_step, lead().newest_batches().from_step);
      changes_ += agreed.key && member == here().front() ? 1 : 0;
      agreed_.push_back(std::move(agreed));
    }
    requests_.assign(steps_.size(), session::step_request::none);
  }

  void measure(lockstep& steps, std::size_t member) {
    auto& pace = paces_[member];
    if (pace == 0 || random_.below(50) == 0)
      pace = 1e-3 * (1 + random_.below(8));
    steps.computed(0.01 + pace * static_cast<double>(steps.own_samples()));
    steps.measured_cores({.set = 0, .cpus = 1, .demand_percent = 100});
  }

  static constexpr std::uint32_t fetches = UINT32_MAX;
  const std::uint64_t samples_;
  std::vector<std::uint32_t> ahead_;
  const messages::balancing balances_;
  std::vector<std::deque<std::uint32_t>> fetched_;
  storage::splitmix64 random_;
  std::vector<std::array<messages::decision, 2>> held_;
  std::vector<bool> present_;
  std::map<std::size_t, double> paces_; ///< seconds a sample
  std::vector<session::step_request> requests_ = std::vector(present_.size(), session::step_request::none);
  std::vector<session::agreement> agreed_;
  std::uint64_t epoch_ = 0;
  std::vector<std::unique_ptr<lockstep>> steps_;
  std::vector<std::vector<std::vector<std::uint32_t>>> numbers_;
  std::map<std::pair<std::uint64_t, std::size_t>, messages::decision> arrivals_;
  std::map<std::uint32_t, int> seen_;
  std::uint64_t window_ = 0;
  std::uint64_t changes_ = 0;
};

} // namespace dynamix::client
