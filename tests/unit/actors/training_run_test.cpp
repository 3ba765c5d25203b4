#include "actors/training_run.hpp"

#include <gtest/gtest.h>

namespace dynamix::actors {
namespace {

/// The whole cluster's limit once let a decision through that its host's memory does not allow.
TEST(TrainingRun, RefusesABatchBeyondItsHostsLimit) {
  training_options options;
  options.file.batch.highest = 1024;
  options.file.hosts = {{.name = "ada", .port = 1}, {.name = "ben", .port = 2, .batch_highest = 128}};
  options.host = "ben";
  training_run run(options, 1);
  run.decisions().enter_generation(1);
  messages::decision decision{.key = {.term = 1, .window = 1}, .generation = 1, .rank = 1, .batch = 256};
  EXPECT_EQ(run.decisions().offer(decision), trainer::offer_verdict::out_of_bounds);
  decision.batch = 128;
  EXPECT_EQ(run.decisions().offer(decision), trainer::offer_verdict::accepted);
}

} // namespace
} // namespace dynamix::actors
