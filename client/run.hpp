#pragma once

/// One process's part of a training: the lockstep of all members, the windows that are reported, and the connection to
/// the agent. Behind the C functions of client/dynamix.h, whose structs it takes; their comments say what each does.

#include "client/agent_link.hpp"
#include "client/core_demand.hpp"
#include "client/cpu_quota.hpp"
#include "client/dynamix.h"
#include "client/introduction.hpp"
#include "client/lockstep.hpp"
#include "client/summed_loss.hpp"
#include "client/window_sums.hpp"
#include "session/decision_slot.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dynamix::client {

class run {
public:
  explicit run(const dynamix_options& options);
  /// Returns an empty string, or why the agent cannot be used.
  std::string open(std::uint32_t timeout_ms);

  // Each returns an empty string, or what is wrong.
  std::string introduce(const dynamix_workload& workload, std::span<std::int64_t, introduction_columns> columns);
  std::string begin(std::span<const std::int64_t> rows);
  std::string start_epoch();
  std::string deal(dynamix_deal& deal, int& verdict);
  std::string fetch(dynamix_deal& piece, int& verdict);
  std::string samples(std::span<std::uint32_t> numbers);
  std::string ranges(std::span<dynamix_range> ranges) const;
  std::string shares(std::span<std::uint32_t> counts) const;
  std::string deliver(dynamix_deal& deal);
  std::string leave_epoch(std::uint64_t steps_to_come);
  std::string weights(double& own, double& total);
  std::string set_weights(double own, double total);
  std::string write_row(double own_square, std::span<std::int64_t, session::step_row_columns> row);
  std::string read_rows(std::span<const std::int64_t> rows);
  std::string rate(double global_square, dynamix_step_rate& rate);
  std::string complete(const dynamix_step& step);
  std::string evaluated(double train_loss, double test_loss, double test_accuracy);
  std::string limit_batch(std::uint32_t samples);
  std::string status(dynamix_status& status) const;
  std::string batches(std::span<std::uint32_t> batches) const;
  std::string restore(std::span<const std::uint64_t> words, std::span<const std::uint32_t> highest = {});
  std::string catch_up(std::span<const std::uint64_t> words);
  std::string regroup(std::span<const std::uint32_t> present);
  std::string finish(bool succeeded, const std::string& reason);

  bool begun() const { return steps_.has_value(); }
  const lockstep& steps() const { return *steps_; }
  std::uint32_t members() const { return members_; }
  std::optional<std::string> next_notice();

private:
  using clock = std::chrono::steady_clock;

  /// Adds what the time in a call cost to the window's control time.
  class stopwatch;

  double elapsed_seconds() const;
  void notice(std::string text);
  void pump();
  void receive(messages::any_message& what);
  void take(const messages::client_welcome& welcome);
  messages::heartbeat sign_of_life() const;
  void send_heartbeat();
  void tell_group();
  std::vector<std::uint32_t> without_agent() const;
  void tell_agents(const std::vector<std::uint32_t>& lacked);
  std::uint64_t decided_base_batch(const planned_batches& planned) const;
  void add_step(const dynamix_step& step);
  void count_applied();
  void tell_not_finite();
  void look_for_sums(std::span<const step_row> rows);
  void measure_cores();
  /// In force in the last completed step.
  const planned_batches& last_batches() const;
  void close_window(bool final);
  messages::rate_rule rule_of(std::uint32_t rule) const;
  messages::balancing balancing_of(std::uint32_t wanted) const;
  std::string settle_bounds(const dynamix_workload& workload);
  void begin_behind_state();
  std::string take_shards(const dynamix_workload& workload);

  const std::uint32_t position_;
  const std::uint32_t members_;
  const clock::time_point opened_ = clock::now();
  messages::client_hello hello_;
  std::optional<agent_link> link_;
  messages::client_welcome welcome_;
  std::unique_ptr<session::decision_slot> slot_; ///< null without an agent
  std::uint64_t generation_ = 0;
  std::uint32_t told_members_; ///< of the group, as the agent was told last
  session::step_request request_ = session::step_request::none;
  std::optional<double> heartbeat_seconds_;
  bool finished_ = false;

  std::optional<introduction> introduced_;
  std::vector<std::uint64_t> shards_; ///< lengths, of a stream
  std::optional<lockstep> steps_;
  core_demand cores_;
  cpu_quota quota_;
  std::optional<double> own_weight_; ///< of the step that is completed next
  summed_loss summed_loss_;
  std::uint32_t not_finite_told_ = 0; ///< steps
  window_sums sums_;
  std::vector<std::uint32_t> timed_batches_; ///< under which the window's steps were timed
  double learning_rate_ = 0;
  double accuracy_ = 0;
  /// Agreed on, and for a step that is still to come.
  struct awaited_decision {
    std::uint64_t from_step = 0;
    messages::decision decision;
  };
  std::vector<awaited_decision> awaited_; ///< by rising step
  std::uint64_t decisions_ = 0;           ///< put in force
  std::deque<std::string> notices_;
};

} // namespace dynamix::client
