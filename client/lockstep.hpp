#pragma once

/// What all members of a training derive alike, step by step, from the same numbers: which samples each step has, which
/// batch sizes hold from which step on, the gradient noise, the learning rate, the windows. Pure: knows no clock, no
/// socket, no thread and no Torch.
///
///     start_epoch ->
///     fetch, fetch, ..        as far ahead as this member has been leased items (client/leases.hpp)
///     deal                    how many of them the next batch has; best when the training loop asks for it
///     deliver                 a dealt batch goes to the training loop
///     write_row -> read_rows  all members exchange a row of numbers
///     rate -> complete        the step is done, with all that was delivered since the last one
///
/// S-1  Which batch sizes hold, whether all stop or regroup: a function of the rows of a step and of what was in force.
/// S-2  It holds from the first step on that none had dealt when it wrote its row. So between `write_row` and
///      `read_rows` a member deals nothing.
/// S-3  A decision that all members hold (session/agreement.hpp) comes before the members' own shares
///      (policy/balance.hpp), which keep its global batch. Under `balancing::automatic` these begin once all have told
///      what cores they compute on, and leave out who shares them (session/core_sharing.hpp). Whose agent is gone need
///      not hold the decision, which leaves its batch as it is.
/// S-4  What must be the same on all members is in each row's digest: who has come to something else says so in the
///      next step, and nobody trains on.
/// S-5  A global batch below the initial one grows back to it while no decision comes (session/undecided.hpp).
///
/// Tests of S-1 to S-3: LockstepRules; S-4: Lockstep.TellsMembersThatHaveNotTakenTheSameSteps; S-5: small_start_test.

#include "client/batch_plan.hpp"
#include "client/gradient_noise.hpp"
#include "client/learning_rate.hpp"
#include "client/sampler.hpp"
#include "policy/balancer.hpp"
#include "session/agreement.hpp"
#include "session/step_row.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace dynamix::client {

/// What a member begins with, samples per step.
struct member_batch {
  std::uint32_t initial = 1;
  std::uint32_t lowest = 1;
  std::uint32_t highest = messages::max_batch;
  std::uint32_t first = 0; ///< of the first steps; 0: `initial`
};

struct lockstep_options {
  std::uint32_t position = 0;        ///< of this member
  std::vector<member_batch> members; ///< at least one
  std::uint64_t samples = 1;         ///< of an epoch, below 2^31
  std::vector<std::uint64_t> shards; ///< of a stream, with so many samples each; none: samples have numbers
  std::uint64_t identity = 0;        ///< of the shards, a hash; 0: samples have numbers
  std::vector<std::uint32_t> lanes;  ///< of a stream: shards that each member reads at once; none: one
  std::uint32_t ahead = 0;           ///< batches that members may fetch before they are dealt
  bool fetches = false;              ///< this member does
  std::uint64_t seed = 0;            ///< of the permutations
  bool shuffled = true;              ///< the samples, or the shards
  bool drop_last = false;            ///< an epoch ends before the step that its samples do not fill
  messages::rate_rule rule = messages::rate_rule::constant;
  bool adaptive = false; ///< the optimiser is of Adam's kind
  std::uint32_t window_steps = 10;
  std::uint32_t noise_interval = 5; ///< steps, at least 1
  messages::balancing balances = messages::balancing::off;
  /// Rows travel in every step. Else, where nobody decides or balances, in those alone in which the noise is measured.
  bool decides = true;
};

/// What all members have come to with their last completed step.
struct reached_state {
  std::uint64_t step = 0;    ///< completed
  std::uint64_t samples = 0; ///< by all members
  sampler_position position;
  std::uint64_t base_batch = 1;       ///< of all members, which the learning rate is meant for
  std::vector<std::uint32_t> batches; ///< in force
  messages::decision_key in_force;    ///< the decision behind them; {0, 0}: none
  messages::decision_key last_agreed;
  gradient_noise noise;
  learning_rate_state rule;
};

/// One step's samples.
struct dealt_step {
  std::uint64_t step = 0; ///< from 0, over the whole training
  std::uint64_t epoch = 0;
  std::uint64_t total = 0; ///< samples of all members
  std::uint64_t own = 0;
  std::uint64_t first = 0;  ///< of them, in the order in which the epoch is used, step by step and member by member
  std::uint32_t active = 0; ///< members that have samples
  bool ends_epoch = false;
  sampler_position after; ///< where the next step's samples begin
};

/// What one fetch of a data loader gives.
struct fetched_piece {
  std::uint64_t epoch = 0;
  std::uint64_t lane = 0;         ///< of a stream
  std::vector<item_range> ranges; ///< what stands in for a step's samples where there are none
};

enum class deal_verdict : std::uint8_t {
  dealt,
  end,  ///< of the epoch, or of training
  wait, ///< rows are under way
};

using session::step_row;

struct step_progress {
  learning_rate_step rate; ///< for a base rate of 1
  double gain = 1;         ///< progress that the step makes
  double progress = 0;     ///< with this step
};

std::vector<std::uint32_t> limits_of(std::span<const member_batch> members);

/// The same members with none above its limit; 0, or none given: no limit.
std::vector<member_batch> within(std::vector<member_batch> members, std::span<const std::uint32_t> limits);

/// The batch sizes of all members where those that are `present` share the global batch of those `before`, within the
/// bounds of `members`; 0 for the others.
std::vector<std::uint32_t> share_among(const std::vector<std::uint32_t>& before, std::span<const member_batch> members,
                                       const std::vector<bool>& present);

class lockstep {
public:
  explicit lockstep(lockstep_options options);
  /// Goes on from there.
  lockstep(lockstep_options options, reached_state from);

  // Samples.

  /// The epoch behind the one in which a step was completed; the same one where none was, and where a restored state
  /// goes on in mid-epoch. What was dealt and not completed is dealt again.
  void start_epoch();
  deal_verdict deal(dealt_step& dealt);
  /// The next items that this member uses, behind those that were fetched before. Where something is fetched ahead of
  /// its deal, everything is. Waits where no more have been leased; the next deal leases some.
  deal_verdict fetch();
  /// How many samples of the newest deal are each member's; empty where nothing was dealt.
  const std::vector<std::uint64_t>& shares() const { return shares_; }
  /// What was fetched or dealt last.
  const fetched_piece& piece() const { return piece_; }
  /// Its numbers.
  std::vector<std::uint32_t> samples() { return sampler_.numbers_of(piece_.epoch, piece_.ranges); }
  /// What the next deal brings this member if no batch size changes until then: of the same epoch, else empty; empty,
  /// too, where samples are not shuffled.
  std::vector<std::uint32_t> likely_samples();
  /// The oldest deal that was not delivered yet; nothing where there is none.
  std::optional<dealt_step> deliver();
  /// The training loop breaks the epoch off behind so many of the deals that were not completed yet: nothing more of it
  /// is dealt, and once those are completed, or dropped by the next start, `next_position` is the following epoch's
  /// beginning. Not where training stops, which goes on from where it has come to; nor of an epoch of which no step is
  /// completed, since that begins again. What was said first holds until then.
  void leave_epoch(std::uint64_t steps_to_come);
  /// Steps of the epoch: those dealt since `start_epoch`, and those to come at the planned batch sizes; at the initial
  /// ones where training has begun with less, which lasts for some steps: schedules are made from this number.
  std::uint64_t epoch_steps() const;

  // The step that is completed next.

  bool measures() const {
    return any_step([this](std::uint64_t step) { return is_measured(step); });
  }
  bool gathers() const { return options_.decides || options_.balances != messages::balancing::off || measures(); }
  /// Samples that were delivered for it.
  std::uint64_t own_samples() const;
  std::uint64_t total_samples() const;
  std::uint32_t deals() const { return static_cast<std::uint32_t>(delivered_); }

  /// This member has computed the step for so long; not above 0, or not a number, where that is not known. Best before
  /// its row is written.
  void computed(double seconds);
  /// The cores that this member computes on, for the rows to come; counts under `balancing::automatic`.
  void measured_cores(session::core_use use) { cores_ = use; }
  /// By member, once all have told; empty before. Since these members train together.
  const std::vector<session::shared_cores>& shared_cores() const { return shared_cores_; }
  /// `held` are the decisions at hand; a batch beyond this member's limits is cut to them. `own_square` is |g_i|^2;
  /// infinite: the gradient is not finite, which is told in every step.
  /// Nothing may be dealt until `read_rows`.
  step_row write_row(std::array<messages::decision, 2> held, session::step_request request, double weight,
                     double own_square);
  /// The rows of all members, by position. Returns an empty string, or in what they contradict each other.
  std::string read_rows(std::span<const step_row> rows, session::agreement& agreed);
  /// The same of their numbers, session::step_row_columns a member.
  std::string read_rows(std::span<const std::int64_t> numbers, session::agreement& agreed);
  /// Those that were read last as numbers.
  std::span<const step_row> rows() const { return decoded_; }
  /// Between `write_row` and `read_rows`.
  bool waits_for_rows() const { return rows_ == row_phase::written; }
  bool has_read_rows() const { return rows_ == row_phase::read; }
  /// The members whose gradients in the step were not finite, as the rows that were read last say, in rising order.
  const std::vector<std::uint32_t>& not_finite() const { return not_finite_; }

  /// `global_square` = |g|^2, which counts where the step is measured.
  step_progress rate(double global_square);
  /// The same with what a caller has measured in another way.
  step_progress rate(const gradient_observation& seen);
  bool has_rate() const { return pending_.has_value(); }

  /// At least one deal was delivered, and rows that are due were read. Returns whether the step closes a window. A
  /// `skipped` step has used its samples, and that is all. `step_seconds`: from the step before to this one; not above
  /// 0 where it is not known.
  bool complete(bool skipped, double step_seconds = 0);

  /// From now on this member asks for no more samples than that.
  void limit_batch(std::uint32_t highest);

  /// Other members take part from now on: `present[i]` says whether member i does. All go on behind the last completed
  /// step, in the epoch that stands open; what was dealt and not completed is dealt again, and what was agreed during
  /// the step under way does not count. Those who are absent have batches of 0, and the others share the global batch,
  /// none beyond what it has last told that it can hold.
  void regroup(const std::vector<bool>& present);
  bool is_present(std::size_t member) const { return present_[member]; }
  /// Its agent was there when it wrote the row that was read last: decisions are for it, too.
  bool has_agent(std::size_t member) const { return has_agent_[member]; }

  // As of the last completed step.

  /// All of it, for a trainer that begins a lockstep of its own with other members.
  reached_state reached() const;
  std::uint64_t step() const { return step_; }
  std::uint64_t samples_done() const { return samples_; }
  sampler_position position() const { return position_; }
  /// Where the next start of an epoch goes on: otherwise than at `position` where an epoch was left.
  sampler_position next_position() const;
  /// Closed.
  std::uint64_t window() const { return step_ / options_.window_steps; }
  /// Known from the last completed step on, which is the one before `step()`.
  const planned_batches& batches_at(std::uint64_t step) const { return plan_.at(step); }
  /// Agreed last; may hold only from a later step on.
  const planned_batches& newest_batches() const { return plan_.newest(); }
  std::uint64_t base_batch() const { return base_batch_; }
  std::uint64_t dealt() const { return step_ + ahead_.size(); }
  noise_estimate noise() const { return noise_.estimate(); }
  learning_rate_step last_rate() const { return rate_; }
  double progress() const { return rule_.progress(); }
  bool stops() const { return stop_step_.has_value(); }
  const lockstep_options& options() const { return options_; }
  /// What was moved to or from this member since the last call, which a window's end makes.
  messages::balance_statistics take_balance();

  /// The same on all members.
  std::vector<std::uint64_t> save() const;
  /// Of a checkpoint, which is a state of `save`: whatever epoch is under way is given up, and `start_epoch` goes on
  /// with the one that the state stands in. Where that is of another number of members, or others are present now, the
  /// batch sizes are shared anew. None is above what its member has introduced itself with, nor above `highest`, where
  /// that says something (0: nothing), the same on all; nor, with as many members, above its limit in the state.
  /// Returns an empty string, or what is wrong; then nothing has changed.
  std::string restore(std::span<const std::uint64_t> words, std::span<const std::uint32_t> highest = {});
  /// The same of the state that the others have, behind which this member was left; before a `regroup`, with which it
  /// goes on in the epoch that stands open.
  std::string catch_up(std::span<const std::uint64_t> words) { return take(words, {}); }

private:
  std::string take(std::span<const std::uint64_t> words, std::span<const std::uint32_t> highest);
  template <class Predicate>
  bool any_step(Predicate predicate) const {
    for (std::size_t i = 0; i < std::max<std::size_t>(delivered_, 1); ++i)
      if (predicate(step_ + i))
        return true;
    return false;
  }
  /// What `drop_last` drops, where it is on.
  bool is_rest(std::uint64_t left, std::uint64_t total) const;
  /// As after the last completed step.
  const batch_plan& settled_plan() const { return plan_before_ ? *plan_before_ : plan_; }
  bool is_measured(std::uint64_t step) const;
  std::uint64_t digest() const;
  std::uint64_t least_total() const;
  std::string check(std::span<const step_row> rows) const;
  leases new_leases(sampler_position from);
  void lease(std::span<const std::uint32_t> batches);
  void deal_from(const leases& behind);
  void plan_next(std::span<const step_row> rows, const session::agreement& agreed, std::uint64_t from_step);
  std::vector<step_row> with_others_agreeing(std::span<const step_row> rows) const;
  std::vector<std::uint32_t> balance(std::span<const step_row> rows, const planned_batches& decided);
  bool judge_cores(std::span<const step_row> rows);
  void wait_for_decision();
  bool begins_small() const;
  std::vector<std::uint32_t> grow_back(const std::vector<std::uint32_t>& batches) const;
  learning_rate new_rule(std::uint64_t base_batch) const;

  lockstep_options options_;
  const std::vector<member_batch> introduced_; ///< with the limits that all members know
  std::vector<bool> present_;                  ///< who takes part; a member that does may have a batch of 0
  std::vector<bool> has_agent_;                ///< of those who are present; true for the others
  std::uint64_t base_batch_;                   ///< of all members, which the learning rate is meant for
  batch_plan plan_;
  /// Without what the rows of the step under way have brought, which a member that dies may keep from others; nothing:
  /// as `plan_`.
  std::optional<batch_plan> plan_before_;
  sampler sampler_;
  leases used_;   ///< behind the last completed step
  leases leased_; ///< behind the newest deal
  fetched_piece piece_;
  std::vector<std::uint64_t> shares_;  ///< of the newest deal
  std::deque<fetched_piece> to_fetch_; ///< leased, where this member fetches
  std::uint64_t next_piece_ = 0;       ///< behind these
  gradient_noise noise_;
  learning_rate rule_;
  learning_rate_step rate_; ///< of the last step
  messages::decision_key last_agreed_;
  policy::balancer balancer_;
  session::core_use cores_; ///< own
  std::vector<session::shared_cores> shared_cores_;
  std::uint64_t undecided_step_ = 0; ///< from which on a global batch below the initial one grows by itself

  // Completed.
  std::uint64_t step_ = 0;
  std::uint64_t first_step_ = 0; ///< since these members train together
  std::uint64_t samples_ = 0;
  sampler_position position_;
  bool in_epoch_ = false; ///< a step of the epoch was completed since it was started

  // Ahead of that.
  std::deque<dealt_step> ahead_;
  std::size_t delivered_ = 0; ///< of them
  std::uint64_t epoch_first_step_ = 0;
  bool epoch_open_ = false;
  std::optional<std::uint64_t> started_epoch_; ///< newest
  std::optional<std::uint64_t> left_step_;     ///< the epoch that was started is left once so many are completed
  bool rest_dropped_ = false;                  ///< the epoch ended before the step that is dealt next
  std::optional<std::uint64_t> stop_step_;     ///< no step from this one on

  // The step under way.
  struct pending_step {
    gradient_noise noise;
    learning_rate rule;
    learning_rate_step rate;
  };
  enum class row_phase : std::uint8_t { none, written, read };
  row_phase rows_ = row_phase::none;
  bool row_measures_ = false;
  std::vector<step_row> decoded_; ///< kept from step to step: hundreds of rows are large
  std::vector<std::uint32_t> not_finite_;
  gradient_observation measured_; ///< but for |g|^2, of what was delivered when the row was written
  std::optional<pending_step> pending_;
};

} // namespace dynamix::client
