#include "client/lockstep.hpp"

#include "client/proportional_split.hpp"
#include "messages/early_steps.hpp"
#include "session/undecided.hpp"
#include "storage/fnv1a.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fmt/core.h>
#include <numeric>
#include <utility>

namespace dynamix::client {

namespace {

/// The gradient noise is averaged over steps, so it is measured in each of the first ones.
constexpr std::uint64_t densely_measured_steps = 16;

std::vector<std::uint32_t> initial_batches(const std::vector<member_batch>& members) {
  std::vector<std::uint32_t> batches;
  for (const auto& member : members)
    batches.push_back(member.initial);
  return batches;
}

std::vector<std::uint32_t> first_batches(const std::vector<member_batch>& members) {
  std::vector<std::uint32_t> batches;
  for (const auto& member : members)
    batches.push_back(member.first == 0 ? member.initial : member.first);
  return batches;
}

} // namespace

lockstep::lockstep(lockstep_options options)
    : options_(std::move(options)), introduced_(options_.members), present_(options_.members.size(), true),
      has_agent_(options_.members.size(), true),
      base_batch_(batch_plan(initial_batches(options_.members), {}).newest().total()),
      plan_(first_batches(options_.members), limits_of(options_.members)),
      sampler_(options_.seed, options_.shards.empty() ? std::vector{options_.samples} : options_.shards,
               options_.shuffled, !options_.shards.empty()),
      rule_(new_rule(base_batch_)) {
  options_.lanes.resize(options_.members.size(), 1);
  wait_for_decision();
}

lockstep::lockstep(lockstep_options options, reached_state from) : lockstep(std::move(options)) {
  base_batch_ = from.base_batch;
  plan_ = batch_plan(std::move(from.batches), limits_of(introduced_), from.in_force);
  noise_ = from.noise;
  rule_ = new_rule(base_batch_);
  rule_.restore(from.rule);
  last_agreed_ = from.last_agreed;
  step_ = from.step;
  samples_ = from.samples;
  position_ = from.position;
  used_ = new_leases(position_);
  first_step_ = step_;
  wait_for_decision();
}

learning_rate lockstep::new_rule(std::uint64_t base_batch) const {
  return {options_.rule, 1, base_batch, options_.adaptive};
}

// Samples.

/// Even batches that no epoch fills have a step.
bool lockstep::is_rest(std::uint64_t left, std::uint64_t total) const {
  return options_.drop_last && left < total && left < options_.samples;
}

void lockstep::start_epoch() {
  ahead_.clear();
  delivered_ = 0;
  if (rows_ == row_phase::read)
    rows_ = row_phase::none;
  pending_.reset();
  auto from = position_;
  // Of a restored state, what is left may be too little for a step: of these members, or of one that did not know it.
  if ((in_epoch_ && from.cursor > 0) || is_rest(options_.samples - from.cursor, plan_.at(step_).total()))
    from = {from.epoch + 1, 0};
  if (from.cursor == 0)
    used_ = new_leases(from);
  position_ = from;
  in_epoch_ = false;
  epoch_first_step_ = step_;
  started_epoch_ = from.epoch;
  deal_from(used_);
  epoch_open_ = true;
  rest_dropped_ = false;
  left_step_.reset();
}

void lockstep::leave_epoch(std::uint64_t steps_to_come) {
  if (stops() || left_step_)
    return;
  epoch_open_ = false;
  left_step_ = step_ + steps_to_come;
}

leases lockstep::new_leases(sampler_position from) {
  return {{.ahead = options_.ahead,
           .lanes = options_.lanes,
           .whole_shards = sampler_.is_stream(),
           .drop_last = options_.drop_last},
          sampler_.items_of(from.epoch, from.cursor)};
}

/// What was fetched and not used is fetched again.
void lockstep::deal_from(const leases& behind) {
  leased_ = behind;
  next_piece_ = leased_.pieces_used(options_.position);
  to_fetch_.clear();
  lease(plan_.at(step_).batches);
}

/// What is leased may be dealt before a data loader fetches it.
void lockstep::lease(std::span<const std::uint32_t> batches) {
  leased_.lease(batches);
  for (; options_.fetches && next_piece_ < leased_.pieces_leased(options_.position); ++next_piece_)
    to_fetch_.push_back({.epoch = *started_epoch_,
                         .lane = next_piece_ % options_.lanes[options_.position],
                         .ranges = leased_.piece(options_.position, next_piece_)});
}

deal_verdict lockstep::fetch() {
  if (!epoch_open_ || to_fetch_.empty())
    return epoch_open_ && leased_.left() > 0 ? deal_verdict::wait : deal_verdict::end;
  piece_ = std::move(to_fetch_.front());
  to_fetch_.pop_front();
  return deal_verdict::dealt;
}

deal_verdict lockstep::deal(dealt_step& dealt) {
  if (!epoch_open_ || leased_.left() == 0)
    return deal_verdict::end;
  if (waits_for_rows())
    return deal_verdict::wait;
  const auto step = this->dealt();
  const auto& planned = plan_.at(step);
  rest_dropped_ = is_rest(leased_.left(), planned.total());
  if (rest_dropped_ || (stop_step_ && step >= *stop_step_)) {
    epoch_open_ = false;
    return deal_verdict::end;
  }
  lease(planned.batches);
  shares_ = leased_.next_shares(planned.batches, planned.limits);
  const auto own = shares_.begin() + options_.position;
  piece_ = {.epoch = *started_epoch_,
            .lane = leased_.pieces_used(options_.position) % options_.lanes[options_.position],
            .ranges = leased_.next_items(options_.position, *own)};
  if (piece_.ranges.empty())
    piece_.ranges.push_back(sampler_.stand_in());
  const auto before = options_.samples - leased_.left();
  leased_.use(shares_);
  const auto left = leased_.left();
  const auto epoch = *started_epoch_;
  dealt = {.step = step,
           .epoch = epoch,
           .total = std::accumulate(shares_.begin(), shares_.end(), std::uint64_t{0}),
           .own = *own,
           .first = std::accumulate(shares_.begin(), own, before),
           .active = static_cast<std::uint32_t>(
               std::ranges::count_if(shares_, [](std::uint64_t share) { return share > 0; })),
           .ends_epoch = left == 0,
           .after = left == 0 ? sampler_position{epoch + 1, 0} : sampler_position{epoch, options_.samples - left}};
  ahead_.push_back(dealt);
  return deal_verdict::dealt;
}

std::vector<std::uint32_t> lockstep::likely_samples() {
  if (!options_.shuffled || !epoch_open_ || leased_.left() == 0)
    return {};
  auto next = leased_;
  const auto& planned = plan_.at(dealt());
  next.lease(planned.batches);
  const auto own = next.next_shares(planned.batches, planned.limits)[options_.position];
  return sampler_.numbers_of(*started_epoch_, next.next_items(options_.position, own));
}

std::optional<dealt_step> lockstep::deliver() {
  if (delivered_ == ahead_.size())
    return std::nullopt;
  return ahead_[delivered_++];
}

std::uint64_t lockstep::epoch_steps() const {
  const bool between = ahead_.empty() && (!epoch_open_ || leased_.left() == 0);
  const auto first = between ? step_ : epoch_first_step_;
  auto step = between ? step_ : dealt();
  auto left = !between ? leased_.left() : in_epoch_ ? options_.samples : options_.samples - position_.cursor;
  const auto entries = plan_.entries();
  for (std::size_t i = 0; i < entries.size() && left > 0; ++i) {
    const auto end = i + 1 < entries.size() ? entries[i + 1].from_step : UINT64_MAX;
    if (end <= step)
      continue;
    const bool to_come = i + 1 == entries.size();
    const auto total = to_come && begins_small() ? base_batch_ : entries[i].total();
    const auto whole = left / total;
    const auto fitting = whole + (left % total > 0 && !is_rest(left % total, total) ? 1 : 0);
    const auto taken = std::min(fitting, end - step);
    step += taken;
    left -= std::min(left, taken * total);
    if (taken == fitting)
      break;
  }
  return step - first;
}

// The step that is completed next.

bool lockstep::is_measured(std::uint64_t step) const {
  if (options_.members.size() < 2)
    return false; // one batch shows nothing of its gradient's noise
  const auto interval = options_.noise_interval;
  return step < densely_measured_steps || step % interval == 1 % interval;
}

std::uint64_t lockstep::own_samples() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < delivered_; ++i)
    sum += ahead_[i].own;
  return sum;
}

std::uint64_t lockstep::total_samples() const {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < delivered_; ++i)
    sum += ahead_[i].total;
  return sum;
}

std::uint64_t lockstep::digest() const {
  storage::fnv1a hash;
  const auto add = [&hash](std::uint64_t number) { hash.add_number(number); };
  add(samples_);
  add(position_.epoch);
  add(position_.cursor);
  add(delivered_);
  add(total_samples());
  add(std::bit_cast<std::uint64_t>(rule_.progress()));
  add(noise_.state().steps);
  for (std::size_t member = 0; member < options_.members.size(); ++member) {
    add(used_.items_leased(member));
    add(used_.pieces_leased(member));
  }
  for (const auto& planned : plan_.entries()) {
    if (&planned != &plan_.at(std::max(planned.from_step, step_)))
      continue; // holds in no step to come
    add(planned.from_step);
    for (const auto batch : planned.batches)
      add(batch);
  }
  return hash.value();
}

/// Of a step on all of a batch: an epoch's last one may have less, which says little; and the first one allocates.
void lockstep::computed(double seconds) {
  const auto parts = static_cast<double>(std::max(deals(), 1U));
  const auto samples = static_cast<double>(own_samples()) / parts;
  if (step_ > first_step_ && samples == plan_.at(step_).batches[options_.position])
    balancer_.measure(samples, seconds / parts);
}

/// Of all members in a step, where nobody decides: the rule says whether fewer are worth as much.
std::uint64_t lockstep::least_total() const {
  return goes_below_initial(options_.rule) ? 0 : base_batch_;
}

step_row lockstep::write_row(std::array<messages::decision, 2> held, session::step_request request, double weight,
                             double own_square) {
  const auto& own = options_.members[options_.position];
  for (auto& decision : held)
    if (decision.key != messages::decision_key{})
      decision.batch = std::clamp(decision.batch, std::min(own.lowest, own.highest), own.highest);
  rows_ = row_phase::written;
  row_measures_ = measures();
  measured_ = {.global_batch = total_samples(),
               .own_square = own_square,
               .own_batch = static_cast<std::uint32_t>(own_samples())};
  const auto noise = noise_.estimate();
  const bool tells = noise.valid && step_ >= messages::early_steps;
  return {.held = held,
          .request = request,
          // The batch sizes of a step that was found not to fit count as used.
          .dealt = dealt() + (rest_dropped_ ? 1 : 0),
          .step = step_,
          .digest = digest(),
          .weight = weight,
          .weighted_square = weight > 0 && (row_measures_ || std::isinf(own_square)) ? weight * own_square : 0,
          .highest_batch = own.highest,
          .pace = balancer_.estimate(plan_.at(step_).batches[options_.position]),
          .total_batch = options_.balances == messages::balancing::all
                             ? balancer_.propose(tells ? noise.noise_scale : 0, least_total())
                             : 0,
          .cores = options_.balances == messages::balancing::automatic ? cores_ : session::core_use{}};
}

std::string lockstep::check(std::span<const step_row> rows) const {
  const auto& own = rows[options_.position];
  for (std::size_t member = 0; member < rows.size(); ++member) {
    if (!is_present(member))
      continue;
    if (rows[member].step != own.step)
      return fmt::format("member {} has completed {} steps, this one (member {}) {}: all members must take the same "
                         "steps, and break off an epoch at the same one",
                         member, rows[member].step, options_.position, own.step);
    if (rows[member].digest != own.digest)
      return fmt::format("members {} and {} disagree about the samples of step {}: each must be given as many batches "
                         "a step, skip the same steps and be restored from the same state",
                         member, options_.position, own.step);
    if (!(rows[member].weight >= 0) || !std::isfinite(rows[member].weight))
      return fmt::format("the weight of member {} in step {} is {}, expected a finite number that is not negative",
                         member, own.step, rows[member].weight);
  }
  return {};
}

/// Who is absent, or without an agent while others have one, stands in the way of nothing: it holds what somebody for
/// whom decisions are does, with the batch that is in force where nobody has decided its own.
std::vector<step_row> lockstep::with_others_agreeing(std::span<const step_row> rows) const {
  std::vector<bool> decides(rows.size());
  for (std::size_t member = 0; member < rows.size(); ++member)
    decides[member] = is_present(member) && has_agent(member);
  if (std::ranges::count(decides, true) == 0)
    decides = present_;
  const auto& decided = rows[static_cast<std::size_t>(std::ranges::find(decides, true) - decides.begin())];
  std::vector<step_row> all(rows.begin(), rows.end());
  for (std::size_t member = 0; member < rows.size(); ++member) {
    if (decides[member])
      continue;
    all[member].held = decided.held;
    if (!is_present(member))
      all[member].request = session::step_request::none;
    for (auto& held : all[member].held) {
      const auto own = std::ranges::find(rows[member].held, held.key, &messages::decision::key);
      held.batch = is_present(member) && own != rows[member].held.end() ? own->batch : plan_.newest().batches[member];
    }
  }
  return all;
}

std::string lockstep::read_rows(std::span<const std::int64_t> numbers, session::agreement& agreed) {
  constexpr auto columns = session::step_row_columns;
  decoded_.resize(options_.members.size());
  for (std::size_t member = 0; member < decoded_.size(); ++member)
    decoded_[member] = session::decode_step_row(numbers.subspan(member * columns).first<columns>());
  return read_rows(decoded_, agreed);
}

std::string lockstep::read_rows(std::span<const step_row> rows, session::agreement& agreed) {
  rows_ = row_phase::none;
  if (auto problem = check(rows); !problem.empty())
    return problem;
  std::uint64_t from_step = 0;
  double weights = 0;
  double weighted_squares = 0;
  std::uint32_t active = 0;
  not_finite_.clear();
  for (std::size_t member = 0; member < rows.size(); ++member) {
    if (!is_present(member))
      continue;
    const auto& row = rows[member];
    has_agent_[member] = !row.without_agent;
    if (std::isinf(row.weighted_square))
      not_finite_.push_back(static_cast<std::uint32_t>(member));
    from_step = std::max(from_step, row.dealt);
    weights += row.weight;
    weighted_squares += row.weighted_square;
    active += row.weight > 0 ? 1 : 0;
  }
  const bool all_decide = std::ranges::count(present_, false) == 0 && std::ranges::count(has_agent_, false) == 0;
  agreed =
      all_decide ? agree(rows, last_agreed_, from_step) : agree(with_others_agreeing(rows), last_agreed_, from_step);
  plan_next(rows, agreed, from_step);
  if (agreed.request == session::step_request::stop && !stop_step_)
    stop_step_ = from_step;
  // Weights may count tokens; the noise is that of a sample.
  const auto total = static_cast<double>(measured_.global_batch);
  measured_.active_workers = active;
  measured_.weighted_square_sum = weights > 0 ? weighted_squares * (total / weights) : 0;
  rows_ = row_phase::read;
  return {};
}

/// The agreed batch sizes, none above what its member can hold by now.
void lockstep::plan_next(std::span<const step_row> rows, const session::agreement& agreed, std::uint64_t from_step) {
  auto next = plan_.newest();
  if (agreed.key) {
    last_agreed_ = *agreed.key;
    next.key = *agreed.key;
    wait_for_decision();
    // Where the members choose the global batch, a decision only repeats what they reported some steps ago.
    if (options_.balances != messages::balancing::all)
      for (std::size_t member = 0; member < rows.size(); ++member)
        next.batches[member] = is_present(member) ? agreed.decisions[member].batch : 0;
  }
  const bool nobody_decides = options_.decides && options_.balances != messages::balancing::all;
  if (nobody_decides && goes_below_initial(options_.rule) && step_ >= undecided_step_) {
    undecided_step_ = step_ + options_.window_steps;
    next.batches = grow_back(next.batches);
  }
  for (std::size_t member = 0; member < rows.size(); ++member)
    if (is_present(member)) {
      next.limits[member] = std::clamp(rows[member].highest_batch, 1U, introduced_[member].highest);
      next.batches[member] = std::min(next.batches[member], next.limits[member]);
    }
  if (options_.balances != messages::balancing::off && judge_cores(rows)) {
    next.batches = balance(rows, next);
    balancer_.count(next.batches[options_.position], next.batches != plan_.newest().batches && !agreed.key);
  }
  if (!agreed.key && next.batches == plan_.newest().batches && next.limits == plan_.newest().limits)
    return;
  next.from_step = from_step;
  if (!plan_before_)
    plan_before_ = plan_;
  plan_.add(std::move(next));
}

bool lockstep::begins_small() const {
  const auto& now = plan_.newest();
  return now.key == messages::decision_key{} && now.total() < base_batch_ &&
         std::ranges::any_of(introduced_, [](const member_batch& each) { return each.first > 0; });
}

void lockstep::wait_for_decision() {
  undecided_step_ = std::max(step_ + session::undecided_windows * options_.window_steps, messages::early_steps);
}

/// Training began small, or was decided to be, and now the arbitrator is gone: what nobody looks after is not left so.
std::vector<std::uint32_t> lockstep::grow_back(const std::vector<std::uint32_t>& batches) const {
  const auto total = std::accumulate(batches.begin(), batches.end(), std::uint64_t{0});
  if (total >= base_batch_)
    return batches;
  std::vector<std::uint32_t> grown;
  for (const auto batch : split_in_proportion(std::min(2 * total, base_batch_), batches))
    grown.push_back(static_cast<std::uint32_t>(batch));
  return share_among(grown, within(introduced_, plan_.newest().limits), present_);
}

/// Returns whether it is known who shares cores, where that counts.
bool lockstep::judge_cores(std::span<const step_row> rows) {
  if (options_.balances != messages::balancing::automatic)
    return true;
  if (shared_cores_.empty()) {
    std::vector<session::core_use> told;
    for (std::size_t member = 0; member < rows.size(); ++member) // who is absent shares none
      told.push_back(is_present(member) ? rows[member].cores : session::core_use{.cpus = 1});
    shared_cores_ = session::judge_cores(told).value_or(std::vector<session::shared_cores>{});
  }
  return !shared_cores_.empty();
}

messages::balance_statistics lockstep::take_balance() {
  auto taken = balancer_.take_statistics(plan_.at(step_).batches[options_.position]);
  if (!shared_cores_.empty()) {
    taken.shared_cpus = shared_cores_[options_.position].cpus;
    taken.shared_demand = shared_cores_[options_.position].demand;
  }
  return taken;
}

/// What all come to of their own paces, at the global batch of `decided`, which is what is in force where nothing was
/// decided.
std::vector<std::uint32_t> lockstep::balance(std::span<const step_row> rows, const planned_batches& decided) {
  auto total = decided.total();
  bool measured = true;
  std::vector<std::uint64_t> proposed;
  for (std::size_t member = 0; member < rows.size(); ++member)
    if (is_present(member)) {
      measured = measured && rows[member].pace.measured();
      if (options_.balances == messages::balancing::all)
        proposed.push_back(rows[member].total_batch);
    }
  if (!proposed.empty())
    total = policy::median_total(std::move(proposed), total);
  // What is in force has followed the paces further than a decision can know.
  const auto& from = measured ? plan_.newest().batches : decided.batches;
  std::vector<policy::balanced_worker> workers;
  workers.reserve(rows.size());
  for (std::size_t member = 0; member < rows.size(); ++member) {
    if (!is_present(member))
      continue;
    auto& worker = workers.emplace_back(
        policy::balanced_worker{.pace = rows[member].pace,
                                .batch = from[member],
                                .lowest = std::min(introduced_[member].lowest, decided.limits[member]),
                                .highest = decided.limits[member]});
    if (!shared_cores_.empty() && shared_cores_[member].cpus > 0)
      worker.batch = worker.lowest = worker.highest = decided.batches[member];
  }
  const auto shared = policy::balance(total, workers);
  std::vector<std::uint32_t> batches(rows.size());
  std::size_t next = 0;
  for (std::size_t member = 0; member < rows.size(); ++member)
    if (is_present(member))
      batches[member] = shared.batches[next++];
  balancer_.follow(shared);
  return batches;
}

step_progress lockstep::rate(double global_square) {
  gradient_observation seen;
  if (has_read_rows() && row_measures_) {
    seen = measured_;
    seen.global_square = global_square;
  }
  return rate(seen);
}

step_progress lockstep::rate(const gradient_observation& seen) {
  pending_ = {.noise = noise_, .rule = rule_, .rate = {}};
  const auto sample = pending_->noise.observe(seen);
  const auto total = total_samples();
  pending_->rate = pending_->rule.advance(total, sample, deals());
  const double scale = static_cast<double>(total) / (static_cast<double>(base_batch_) * deals());
  const bool by_noise = options_.rule == messages::rate_rule::adascale;
  return {
      .rate = pending_->rate, .gain = by_noise ? pending_->rate.gain : scale, .progress = pending_->rule.progress()};
}

bool lockstep::complete(bool skipped, double step_seconds) {
  balancer_.end_step(step_seconds);
  if (pending_ && !skipped) {
    noise_ = pending_->noise;
    rule_ = pending_->rule;
    rate_ = pending_->rate;
  }
  pending_.reset();
  rows_ = row_phase::none;
  const auto before = step_ / options_.window_steps;
  for (; delivered_ > 0; --delivered_) {
    samples_ += ahead_.front().total;
    position_ = ahead_.front().after;
    const auto& planned = plan_.at(step_);
    used_.lease(planned.batches);
    used_.use(used_.next_shares(planned.batches, planned.limits));
    ahead_.pop_front();
    ++step_;
  }
  in_epoch_ = true;
  if (is_rest(options_.samples - position_.cursor, plan_.at(step_).total())) // settled: the rows of the step are read
    position_ = {position_.epoch + 1, 0};
  plan_before_.reset();
  plan_.forget_before(step_ - 1);
  return step_ / options_.window_steps != before;
}

reached_state lockstep::reached() const {
  const auto& planned = settled_plan().newest();
  return {.step = step_,
          .samples = samples_,
          .position = position_,
          .base_batch = base_batch_,
          .batches = planned.batches,
          .in_force = planned.key,
          .last_agreed = last_agreed_,
          .noise = noise_,
          .rule = rule_.state()};
}

void lockstep::regroup(const std::vector<bool>& present) {
  ahead_.clear();
  delivered_ = 0;
  pending_.reset();
  rows_ = row_phase::none;
  rest_dropped_ = false;
  stop_step_.reset(); // who was asked to stop asks again
  const auto& settled = settled_plan().newest();
  plan_ = batch_plan(share_among(settled.batches, within(introduced_, settled.limits), present), settled.limits);
  plan_before_.reset();
  present_ = present;
  for (std::size_t member = 0; member < present.size(); ++member)
    has_agent_[member] = has_agent_[member] || !present[member];
  first_step_ = step_;
  cores_ = {};
  shared_cores_.clear();
  wait_for_decision();
  last_agreed_ = {};
  // An epoch that has come to its end meanwhile has no more steps.
  epoch_open_ = started_epoch_ == next_position().epoch;
  used_.give_back(present);
  if (epoch_open_)
    deal_from(used_);
  in_epoch_ = in_epoch_ || (epoch_open_ && position_.cursor > 0);
}

void lockstep::limit_batch(std::uint32_t highest) {
  auto& own = options_.members[options_.position];
  own.highest = std::clamp(highest, 1U, own.highest);
}

} // namespace dynamix::client
