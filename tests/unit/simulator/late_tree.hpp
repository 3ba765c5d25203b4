#pragma once

/// A tree of arbitrators in a simulation, whose root guides the window after the one that it has seen. With one shard,
/// as whose any number of shards decides (tests/unit/policy/tree_decisions_test.cpp).

#include "policy/controller.hpp"
#include "policy/rivals.hpp"
#include "policy/state.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::simulator::testing {

class late_tree final : public policy::controller {
public:
  late_tree(const cluster::cluster_file& file, const std::vector<std::uint8_t>& parameters)
      : limits_(file.batch), shard_(policy::make_controller(file, parameters)),
        root_(policy::make_controller(file, parameters)) {}

  std::string name() const override { return root_->name(); }
  std::string guard_view() const override { return root_->guard_view(); }
  void rule(const policy::observation&, const std::vector<policy::choice>&, const std::string&,
            policy::ruling&) override {}

  /// As policy::deliberation decides in a shard, and joins at the root.
  std::vector<policy::choice> propose(const policy::observation& all, const policy::ruling& now) override {
    auto own = all;
    own.sharded = true;
    std::string untrained;
    auto choices = policy::keep_assigned(own, "no word from the root yet");
    if (known_.generation == now.generation) {
      choices = shard_->propose(own, known_);
      shard_->settle(own, known_, choices);
      untrained = shard_->untrained(own, choices);
    }
    auto seen = all;
    std::vector<policy::choice> proposals;
    policy::ruling next;
    next.generation = now.generation;
    next.window = now.window;
    next.sums = now.sums;
    for (std::size_t i = 0; i < choices.size(); ++i) {
      auto& made = choices[i];
      made.batch = std::clamp(made.batch, limits_.lowest, all.highest[i]);
      seen.assigned[i] = made.batch;
      const bool wants = made.vote >= 0 && made.proposed > 0;
      proposals.push_back({.rank = made.rank, .batch = wants ? made.proposed : made.batch, .vote = made.vote});
      next.workers.push_back({.rank = made.rank});
    }
    root_->survey(seen, next);
    root_->rule(seen, proposals, untrained, next);
    known_ = policy::ruling{static_cast<const messages::guidance&>(next), {}, {}}; // what travels
    return choices;
  }

private:
  cluster::batch limits_;
  std::unique_ptr<policy::controller> shard_;
  std::unique_ptr<policy::controller> root_;
  policy::ruling known_;
};

} // namespace dynamix::simulator::testing
