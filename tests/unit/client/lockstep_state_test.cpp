// What a lockstep saves.

#include "client/lockstep.hpp"
#include "client/random.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace dynamix::client {
namespace {

TEST(LockstepState, HasOneSizeWhateverIsLeasedOfAStream) {
  storage::splitmix64 random(12);
  for (int plan = 0; plan < 100; ++plan) {
    lockstep_options options{.ahead = random.below(40), .fetches = true, .seed = random.next()};
    for (auto world = 1 + random.below(6); world > 0; --world) {
      options.members.push_back({.initial = 1 + random.below(20)});
      options.lanes.push_back(1 + random.below(8));
    }
    for (auto shards = 1 + random.below(200); shards > 0; --shards)
      options.shards.push_back(1 + random.below(random.below(2) == 0 ? 3 : 300));
    options.samples = std::accumulate(options.shards.begin(), options.shards.end(), std::uint64_t{0});
    options.identity = 1;
    lockstep steps(options);
    const auto size = steps.save().size();
    steps.start_epoch();
    for (dealt_step dealt; steps.deal(dealt) == deal_verdict::dealt;) {
      steps.deliver();
      std::vector<step_row> rows(options.members.size(), steps.write_row({}, session::step_request::none, 1, 0));
      for (auto& row : rows) { // each member holds its own of one decision
        row.held[0] = {.key = {.term = 1, .window = steps.step() + 1},
                       .generation = 1,
                       .rank = static_cast<std::uint32_t>(&row - rows.data()),
                       .batch = 1 + random.below(20)};
      }
      session::agreement agreed;
      ASSERT_EQ(steps.read_rows(rows, agreed), "");
      steps.rate(0);
      steps.complete(false);
      ASSERT_EQ(steps.save().size(), size) << "plan " << plan << ", step " << steps.step();
    }
  }
}

} // namespace
} // namespace dynamix::client
