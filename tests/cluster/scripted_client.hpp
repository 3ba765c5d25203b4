#pragma once

#include "tests/cluster/trial.hpp"
#include "tests/unit/actors/frame_client.hpp"

#include <cstdint>
#include <string>
#include <variant>

namespace dynamix::cluster_test {

using dynamix::testing::frame_client;

inline constexpr std::uint32_t window_steps = 2;

/// One training process of several in lockstep: steps, reports windows, and puts every decision in force in the window
/// behind the one that it came in.
class scripted_client {
public:
  scripted_client(const std::string& socket, std::uint32_t members, std::uint64_t steps = 0)
      : frames(socket), steps_(steps) {
    EXPECT_TRUE(frames.connected()) << socket;
    welcome = frames.greet(members, 0, 7);
    EXPECT_EQ(welcome.verdict, messages::client_verdict::accepted) << welcome.detail;
    frames.beat(steps, 7);
  }

  bool await_place() {
    const auto place = frames.await<messages::placement>(patience);
    if (place)
      generation = place->generation;
    return place.has_value();
  }

  /// Trains a window and reports it.
  void train_window() {
    const auto window = steps_ / window_steps + 1;
    messages::window_report report{.host = "nobody",
                                   .rank = 0,
                                   .generation = 1,
                                   .window = window,
                                   .first_step = steps_,
                                   .batch = batch,
                                   .decision = in_force,
                                   .global_batch = std::uint64_t{2} * batch,
                                   .epoch_samples = steps_ * batch,
                                   .elapsed_seconds = 0.1 * static_cast<double>(window)};
    steps_ += window_steps;
    report.training = {.steps = window_steps,
                       .samples = std::uint64_t{window_steps} * batch,
                       .loss = 1,
                       .iteration_seconds = 0.05,
                       .compute_seconds = 0.04,
                       .exchange_seconds = 0.01};
    frames.send(report);
    frames.beat(steps_, 7);
  }
  bool await_decision() { return take_decision(patience); }
  bool take_decision(std::chrono::milliseconds within) {
    const auto decision = frames.await<messages::decision>(within);
    if (!decision)
      return false;
    in_force = decision->key;
    batch = decision->batch;
    return true;
  }
  void say_farewell(bool succeeded = true, const std::string& reason = "epochs completed") {
    frames.send(messages::farewell{.host = "nobody",
                                   .rank = 0,
                                   .succeeded = succeeded,
                                   .reason = reason,
                                   .steps = steps_,
                                   .samples = 1000,
                                   .epochs = 1,
                                   .wall_seconds = 2,
                                   .decisions = {}});
    while (frames.receive()) // of the last windows, on its way already
      continue;
    EXPECT_TRUE(frames.ended()) << "the agent closes the connection";
  }
  std::uint64_t steps() const { return steps_; }

  frame_client frames;
  messages::client_welcome welcome;
  std::uint64_t generation = 0;
  std::uint32_t batch = 64;
  messages::decision_key in_force;

private:
  std::uint64_t steps_;
};

} // namespace dynamix::cluster_test
