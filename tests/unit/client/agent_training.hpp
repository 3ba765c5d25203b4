#pragma once

#include "client/dynamix.h"
#include "tests/temporary_directory.hpp"
#include "tests/unit/client/scripted_agent.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::client {

struct closer {
  void operator()(dynamix_run* run) const { dynamix_close(run); }
};
using run_pointer = std::unique_ptr<dynamix_run, closer>;

template <class Struct>
Struct sized() {
  Struct made{};
  made.size = sizeof made;
  return made;
}

struct opened {
  run_pointer run;
  std::string error;
};

inline opened open_run(const std::string& agent, std::uint32_t position = 0, std::uint32_t members = 1,
                       std::uint32_t timeout_ms = scripted_agent::patience_ms) {
  auto options = sized<dynamix_options>();
  options.position = position;
  options.members = members;
  options.connect_timeout_ms = timeout_ms;
  options.agent = agent.c_str();
  char error[1024] = "";
  opened result;
  result.run.reset(dynamix_open(&options, error, sizeof error));
  result.error = error;
  return result;
}

inline dynamix_workload workload(std::uint32_t batch = 16) {
  auto made = sized<dynamix_workload>();
  made.batch = batch;
  made.samples = 1000;
  made.seed = 3;
  made.shuffle = 1;
  return made;
}

#define EXPECT_GOOD(run, call) EXPECT_EQ(call, DYNAMIX_OK) << dynamix_error(run)

/// All members' runs of one training, in one process.
class training {
public:
  explicit training(std::vector<run_pointer> runs) : runs_(std::move(runs)) {}

  void begin(const std::vector<dynamix_workload>& workloads) {
    std::vector<std::int64_t> rows(runs_.size() * DYNAMIX_INTRODUCTION_COLUMNS);
    for (std::size_t i = 0; i < runs_.size(); ++i)
      EXPECT_GOOD(run(i), dynamix_introduce(run(i), &workloads[i], &rows[i * DYNAMIX_INTRODUCTION_COLUMNS]));
    for (std::size_t i = 0; i < runs_.size(); ++i)
      EXPECT_GOOD(run(i), dynamix_begin(run(i), rows.data()));
  }

  void start_epoch() {
    for (std::size_t i = 0; i < runs_.size(); ++i)
      EXPECT_GOOD(run(i), dynamix_start_epoch(run(i)));
  }

  /// As loaders do that fetch the whole epoch ahead.
  void fetch_epoch() {
    auto deal = sized<dynamix_deal>();
    for (std::size_t i = 0; i < runs_.size(); ++i)
      for (fetched_ = 0; dynamix_deal_next(run(i), &deal) == DYNAMIX_OK;)
        ++fetched_;
  }

  /// False at the epoch's end.
  bool step() {
    own_.clear();
    const bool fetched = fetched_ > 0 && fetched_-- > 0;
    for (std::size_t i = 0; i < runs_.size() * batches; ++i) {
      auto* const taking = run(i / batches);
      auto deal = sized<dynamix_deal>();
      const int code = fetched ? DYNAMIX_OK : dynamix_deal_next(taking, &deal);
      EXPECT_NE(code, DYNAMIX_ERROR) << dynamix_error(taking);
      if (code == DYNAMIX_END)
        return false;
      EXPECT_GOOD(taking, dynamix_deliver(taking, &deal));
      own_.push_back(deal.own);
    }
    if (dynamix_due(run(0)) & DYNAMIX_GATHER)
      exchange_rows();
    for (std::size_t i = 0; i < runs_.size(); ++i) {
      auto rate = sized<dynamix_step_rate>();
      EXPECT_GOOD(run(i), dynamix_rate(run(i), 1, &rate));
      auto step = sized<dynamix_step>();
      // Of every third step nobody knows the time.
      step.iteration_seconds = steps_ % 3 == 2 ? std::nan("") : 0.25;
      step.compute_seconds = steps_ % 3 == 2 ? -1 : 0.125;
      step.loss = loss;
      step.correct = 0.5;
      step.gradient_norm = 1;
      step.learning_rate = 0.5;
      EXPECT_GOOD(run(i), dynamix_complete(run(i), &step));
    }
    ++steps_;
    return true;
  }

  void train(int steps) {
    for (int i = 0; i < steps; ++i)
      if (!step()) {
        start_epoch();
        ASSERT_TRUE(step());
      }
  }

  double loss = 2;         ///< of each step to come
  std::size_t batches = 1; ///< that each of them takes

  dynamix_status status(std::size_t i = 0) {
    auto status = sized<dynamix_status>();
    EXPECT_GOOD(run(i), dynamix_get_status(run(i), &status));
    return status;
  }

  std::vector<std::string> notices(std::size_t i = 0) {
    std::vector<std::string> all;
    while (const char* text = dynamix_next_notice(run(i)))
      all.emplace_back(text);
    return all;
  }

  dynamix_run* run(std::size_t i) { return runs_[i].get(); }
  const std::vector<std::uint32_t>& own() const { return own_; }

private:
  void exchange_rows() {
    std::vector<std::int64_t> rows(runs_.size() * DYNAMIX_ROW_COLUMNS);
    for (std::size_t i = 0; i < runs_.size(); ++i)
      EXPECT_GOOD(run(i), dynamix_write_row(run(i), 1.25, &rows[i * DYNAMIX_ROW_COLUMNS]));
    for (std::size_t i = 0; i < runs_.size(); ++i)
      EXPECT_GOOD(run(i), dynamix_read_rows(run(i), rows.data()));
  }

  std::vector<run_pointer> runs_;
  std::vector<std::uint32_t> own_;
  int fetched_ = 0; ///< steps that were dealt and not delivered
  int steps_ = 0;
};

/// Two members, each with its agent, placed in generation 1 and about to train.
class AgentTraining : public testing::Test {
protected:
  void SetUp() override {
    std::vector<run_pointer> runs;
    for (std::uint32_t i = 0; i < 2; ++i) {
      agents_.push_back(std::make_unique<scripted_agent>(path(i)));
      auto opening = std::async(std::launch::async, [&, i] { return open_run(path(i), i, 2); });
      ASSERT_TRUE(agents_[i]->accept());
      const auto hello = agents_[i]->read_a<messages::client_hello>();
      ASSERT_TRUE(hello);
      EXPECT_EQ(hello->position, i);
      EXPECT_EQ(hello->members, 2U);
      auto welcome = welcome_example(i);
      welcome.balances = balances_;
      agents_[i]->send(welcome);
      auto opened = opening.get();
      ASSERT_TRUE(opened.run) << opened.error;
      runs.push_back(std::move(opened.run));
    }
    training_ = std::make_unique<training>(std::move(runs));
    training_->begin({workload(), workload()});
    training_->start_epoch();
    for (auto& agent : agents_) {
      const auto beat = agent->read_a<messages::heartbeat>();
      ASSERT_TRUE(beat);
      EXPECT_EQ(beat->steps, 0U);
      agent->send(messages::placement{.generation = 1, .members = {0, 1}, .source = 0, .store_prefix = "g1"});
    }
  }

  std::string path(std::uint32_t i) const { return directory_.path() + "/" + std::to_string(i) + ".sock"; }

  void decide(std::uint32_t i, std::uint64_t window, std::uint32_t batch, std::uint64_t first_step = 12) {
    agents_[i]->send(messages::decision{
        .key = {.term = 1, .window = window}, .generation = 1, .rank = i, .batch = batch, .first_step = first_step});
  }

  temporary_directory directory_;
  messages::balancing balances_ = messages::balancing::off;
  std::vector<std::unique_ptr<scripted_agent>> agents_;
  std::unique_ptr<training> training_;
};

} // namespace dynamix::client
