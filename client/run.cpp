#include "client/run.hpp"

#include "client/cores.hpp"
#include "messages/loss.hpp"
#include "messages/validation.hpp"
#include "storage/fnv1a.hpp"
#include "storage/splitmix64.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/ranges.h>
#include <random>
#include <unistd.h>
#include <utility>

namespace dynamix::client {

namespace {

constexpr double heartbeat_interval_seconds = 0.05;
constexpr std::uint32_t farewell_timeout_ms = 1000;
constexpr std::size_t notices_max = 64;
constexpr std::uint32_t default_window_steps = 10;
constexpr std::uint64_t samples_max = (1ULL << 31) - 1;

std::uint64_t random_incarnation() {
  std::random_device source;
  const auto bits = (std::uint64_t{source()} << 32U) ^ source() ^ static_cast<std::uint64_t>(::getpid());
  return std::max<std::uint64_t>(1, storage::splitmix64(bits).next());
}

bool is_known(double value) {
  return std::isfinite(value) && value >= 0;
}

} // namespace

class run::stopwatch {
public:
  explicit stopwatch(run& of) : of_(of) {}
  ~stopwatch() { of_.sums_.control_seconds += std::chrono::duration<double>(clock::now() - start_).count(); }
  stopwatch(const stopwatch&) = delete;
  stopwatch& operator=(const stopwatch&) = delete;

private:
  run& of_;
  clock::time_point start_ = clock::now();
};

run::run(const dynamix_options& options)
    : position_(options.position), members_(options.members), hello_{.position = options.position,
                                                                     .members = options.members,
                                                                     .incarnation = random_incarnation()},
      told_members_(options.members) {
  if (options.agent != nullptr && *options.agent != 0)
    link_.emplace(options.agent, hello_);
}

std::string run::open(std::uint32_t timeout_ms) {
  if (!link_)
    return {};
  if (auto problem = link_->open(timeout_ms, welcome_); !problem.empty())
    return problem;
  take(welcome_);
  notice(link_->take_news());
  notice(keep_to_cpus(welcome_.cores));
  return {};
}

double run::elapsed_seconds() const {
  return std::chrono::duration<double>(clock::now() - opened_).count();
}

// The agent.

void run::notice(std::string text) {
  if (text.empty())
    return;
  if (notices_.size() == notices_max)
    notices_.pop_front();
  notices_.push_back(std::move(text));
}

std::optional<std::string> run::next_notice() {
  if (notices_.empty())
    return std::nullopt;
  auto text = std::move(notices_.front());
  notices_.pop_front();
  return text;
}

void run::pump() {
  if (!link_ || finished_)
    return;
  const auto seconds = std::chrono::duration<double>(clock::now().time_since_epoch()).count();
  link_->pump(seconds, [this](messages::any_message& what) { receive(what); });
  notice(link_->take_news());
}

void run::receive(messages::any_message& what) {
  if (const auto* welcome = std::get_if<messages::client_welcome>(&what)) {
    take(*welcome);
    told_members_ = members_;
    tell_group();
    heartbeat_seconds_.reset(); // the agent has begun anew, and does not know that this process trains
    send_heartbeat();
  } else if (const auto* placed = std::get_if<messages::placement>(&what)) {
    generation_ = placed->generation;
    slot_->enter_generation(generation_);
  } else if (const auto* decision = std::get_if<messages::decision>(&what)) {
    slot_->offer(*decision);
  } else if (const auto* asked = std::get_if<messages::client_notice>(&what)) {
    if (request_ != session::step_request::stop)
      notice(fmt::format("asked to stop: {}", asked->reason));
    request_ = session::step_request::stop;
  }
}

void run::take(const messages::client_welcome& welcome) {
  if (slot_ && welcome.rank != welcome_.rank)
    notice(fmt::format("the agent serves worker {} now, and not {} as before: its decisions are not for this process",
                       welcome.rank, welcome_.rank));
  if (!slot_) {
    welcome_ = welcome;
    slot_ = std::make_unique<session::decision_slot>(welcome.rank, welcome.lowest_batch, welcome.highest_batch);
  }
  if (welcome.generation > 0) {
    generation_ = welcome.generation;
    slot_->enter_generation(generation_);
  }
}

messages::heartbeat run::sign_of_life() const {
  return {.rank = welcome_.rank, .incarnation = hello_.incarnation, .generation = generation_, .steps = steps_->step()};
}

void run::send_heartbeat() {
  if (!link_ || !link_->connected() || !steps_)
    return;
  const auto now = elapsed_seconds();
  if (heartbeat_seconds_ && now - *heartbeat_seconds_ < heartbeat_interval_seconds)
    return;
  heartbeat_seconds_ = now;
  link_->send(sign_of_life());
}

// Beginning.

messages::rate_rule run::rule_of(std::uint32_t rule) const {
  if (rule != DYNAMIX_RULE_AGENT)
    return static_cast<messages::rate_rule>(rule);
  return link_ && welcome_.rule != messages::rate_rule::unspecified ? welcome_.rule : messages::rate_rule::constant;
}

messages::balancing run::balancing_of(std::uint32_t wanted) const {
  const auto said = link_ ? welcome_.balances : messages::balancing::off;
  if (wanted == DYNAMIX_BALANCE_OFF)
    return messages::balancing::off;
  return wanted == DYNAMIX_BALANCE_ON && said != messages::balancing::all ? messages::balancing::shares : said;
}

/// This worker's bounds: the caller's, else the agent's, else none; wide enough for its initial batch. What it begins
/// with is less where the agent says so.
std::string run::settle_bounds(const dynamix_workload& workload) {
  auto& batch = introduced_->batch;
  batch.initial = workload.batch;
  batch.lowest = workload.lowest_batch;
  batch.highest = workload.highest_batch;
  if (batch.lowest == 0)
    batch.lowest = std::min(link_ ? welcome_.lowest_batch : 1, batch.initial);
  if (batch.highest == 0)
    batch.highest = std::max(link_ ? welcome_.highest_batch : messages::max_batch, batch.initial);
  if (batch.highest > messages::max_batch)
    return fmt::format("a batch size of up to {} is above the most, {}", batch.highest, messages::max_batch);
  if (batch.initial < std::max(1U, batch.lowest) || batch.initial > batch.highest)
    return fmt::format("the batch size {} is not within {} to {}", batch.initial, std::max(1U, batch.lowest),
                       batch.highest);
  if (link_ && (batch.initial < welcome_.lowest_batch || batch.initial > welcome_.highest_batch))
    notice(fmt::format("the batch size {} is outside of the cluster file's, {} to {}", batch.initial,
                       welcome_.lowest_batch, welcome_.highest_batch));
  if (link_ && welcome_.start_divisor > 1 && goes_below_initial(introduced_->rule))
    batch.first = std::max(batch.lowest, batch.initial / welcome_.start_divisor);
  return {};
}

/// A stream's lengths, and what tells it from others; never 0.
std::string run::take_shards(const dynamix_workload& workload) {
  shards_.clear();
  if (workload.lengths == nullptr)
    return {};
  shards_.assign(workload.lengths, workload.lengths + workload.shards);
  storage::fnv1a hash;
  hash.add_number(workload.identity);
  std::uint64_t items = 0;
  for (const auto length : shards_) {
    hash.add_number(length);
    items = length > samples_max ? samples_max + 1 : std::min(items + length, samples_max + 1);
  }
  introduced_->shards = std::max<std::uint64_t>(hash.value(), 1);
  if (items != workload.samples)
    return fmt::format("the shards have {} items, and an epoch {} samples", items, workload.samples);
  return {};
}

std::string run::introduce(const dynamix_workload& workload, std::span<std::int64_t, introduction_columns> columns) {
  if (steps_)
    return "the run has begun already";
  if (workload.samples < 1 || workload.samples > samples_max)
    return fmt::format("an epoch of {} samples, expected 1 to {}", workload.samples, samples_max);
  if (workload.rule > DYNAMIX_RULE_ADASCALE)
    return fmt::format("an unknown learning-rate rule ({})", workload.rule);
  if (workload.balance > DYNAMIX_BALANCE_OFF)
    return fmt::format("an unknown way of balancing ({})", workload.balance);
  if (workload.window_steps > messages::max_window_steps)
    return fmt::format("{} steps per window, at most {} are allowed", workload.window_steps,
                       messages::max_window_steps);
  if (link_ && workload.window_steps != 0 && workload.window_steps != welcome_.window_steps)
    return fmt::format("{} steps per window, but the cluster file says {}: leave it to the cluster file",
                       workload.window_steps, welcome_.window_steps);
  introduced_.emplace();
  auto& own = *introduced_;
  own.rule = rule_of(workload.rule);
  if (auto problem = take_shards(workload); !problem.empty())
    return problem;
  if (auto problem = settle_bounds(workload); !problem.empty())
    return problem;
  own.version = introduction_version;
  own.position = position_;
  own.members = members_;
  own.samples = workload.samples;
  own.seed = workload.seed;
  own.shuffled = workload.shuffle != 0;
  own.drop_last = workload.drop_last != 0;
  own.adaptive = workload.adaptive != 0;
  own.window_steps = link_ ? welcome_.window_steps : workload.window_steps;
  if (own.window_steps == 0)
    own.window_steps = default_window_steps;
  own.balances = balancing_of(workload.balance);
  own.ahead = workload.ahead;
  own.lanes = workload.lanes;
  own.noise_interval = workload.noise_interval != 0 ? workload.noise_interval : std::max(1U, own.window_steps / 2);
  own.has_agent = link_.has_value();
  own.rank = welcome_.rank;
  own.workers = welcome_.workers;
  own.cluster_seed = welcome_.seed;
  std::ranges::copy(encode(own), columns.begin());
  return {};
}

std::string run::begin(std::span<const std::int64_t> rows) {
  if (!introduced_ || steps_)
    return steps_ ? "the run has begun already" : "introduce comes before begin";
  std::vector<introduction> all;
  for (std::size_t member = 0; member < members_; ++member)
    all.push_back(decode_introduction(rows.subspan(member * introduction_columns).first<introduction_columns>()));
  lockstep_options options;
  if (auto problem = fit_together(all, position_, options); !problem.empty())
    return problem;
  options.shards = std::move(shards_);
  options.fetches = introduced_->ahead > 0; // its row may be of the data loader that it had before it came back
  steps_.emplace(std::move(options));
  timed_batches_ = steps_->batches_at(0).batches;
  return {};
}

std::string run::start_epoch() {
  steps_->start_epoch();
  quota_.restart();
  own_weight_.reset();
  if (!heartbeat_seconds_)
    send_heartbeat();
  pump();
  return {};
}

// The step that is completed next.

std::string run::weights(double& own, double& total) {
  if (steps_->deals() == 0)
    return "no batch was delivered since the last step";
  own = static_cast<double>(steps_->own_samples());
  total = static_cast<double>(steps_->total_samples());
  return {};
}

std::string run::set_weights(double own, double total) {
  if (!is_known(own) || !is_known(total))
    return fmt::format("weights of {} and {}, expected finite numbers that are not negative", own, total);
  own_weight_ = own;
  return {};
}

std::string run::write_row(double own_square, std::span<std::int64_t, session::step_row_columns> row) {
  const stopwatch watch(*this);
  if (steps_->deals() == 0)
    return "no batch was delivered since the last step";
  if (steps_->waits_for_rows() || steps_->has_read_rows())
    return "the row of this step was written already";
  pump();
  const auto held = slot_ ? slot_->held() : std::array<messages::decision, 2>{};
  const auto weight = own_weight_.value_or(static_cast<double>(steps_->own_samples()));
  auto said = steps_->write_row(held, request_, weight, own_square);
  said.without_agent = link_ && !link_->connected();
  std::ranges::copy(session::encode(said), row.begin());
  return {};
}

std::string run::read_rows(std::span<const std::int64_t> rows) {
  const stopwatch watch(*this);
  if (!steps_->waits_for_rows())
    return "no row was written: write_row comes before read_rows";
  const auto before = steps_->newest_batches().batches[position_];
  const bool stopping = steps_->stops();
  const bool judged = !steps_->shared_cores().empty();
  const auto lacked = without_agent();
  session::agreement agreed;
  if (auto problem = steps_->read_rows(rows, agreed); !problem.empty())
    return problem;
  tell_not_finite();
  tell_agents(lacked);
  if (!judged && !steps_->shared_cores().empty())
    notice(session::describe_sharing(steps_->shared_cores(), position_));
  if (!own_weight_ && position_ == 0)
    look_for_sums(steps_->rows());
  const auto& planned = steps_->newest_batches();
  if (agreed.key) { // in place of those that were to hold from the same step on
    std::erase_if(awaited_, [&](const awaited_decision& each) { return each.from_step >= planned.from_step; });
    const auto& held = steps_->rows()[position_].held;
    if (std::ranges::find(held, *agreed.key, &messages::decision::key) != held.end()) // else its agent is gone
      awaited_.push_back({planned.from_step, agreed.decisions[position_]});
  }
  if (planned.batches[position_] != before)
    notice(fmt::format("{}batch {} -> {} from step {} on",
                       agreed.key ? fmt::format("window {}: ", planned.key.window) : "by the members' paces: ", before,
                       planned.batches[position_], planned.from_step));
  if (steps_->stops() && !stopping)
    notice("all members stop");
  return {};
}

/// A sum does not say any more whose gradient has spoiled it. The first member says so, and whom it is about.
void run::tell_not_finite() {
  constexpr std::uint32_t told_max = 10;
  const auto& whose = steps_->not_finite();
  const bool speaks = position_ == 0 || std::ranges::find(whose, position_) != whose.end();
  if (whose.empty() || !speaks || not_finite_told_++ >= told_max)
    return;
  notice(fmt::format("warning: the gradient of {} in step {} is not finite",
                     whose.size() == members_ && members_ > 1
                         ? "all members"
                         : fmt::format("member {}", fmt::join(whose, ", of member ")),
                     steps_->step()));
}

void run::measure_cores() {
  if (steps_->options().balances != messages::balancing::automatic)
    return;
  cores_.step_ended(elapsed_seconds());
  steps_->measured_cores(cores_.use());
}

/// Of a step whose weights are samples.
void run::look_for_sums(std::span<const step_row> rows) {
  std::vector<batch_square> workers;
  for (std::size_t member = 0; member < rows.size(); ++member)
    if (const auto& row = rows[member]; steps_->is_present(member) && row.weight > 0)
      workers.push_back({.samples = row.weight, .square = row.weighted_square / row.weight});
  if (summed_loss_.observe(workers))
    notice(
        fmt::format("warning: |gradient|^2 grows with the batch, by its power {:.1f}, where that of a mean falls: this "
                    "loss seems to be a sum (reduction=\"sum\"), and gradients are weighted as if it were a mean. Use "
                    "a mean over the batch; or give all workers one weight in each step (run.weight(1)), for the sum "
                    "over all samples divided by the number of workers, as plain data parallelism has it",
                    summed_loss_.exponent()));
}

std::string run::rate(double global_square, dynamix_step_rate& rate) {
  if (steps_->deals() == 0)
    return "no batch was delivered since the last step";
  if (steps_->waits_for_rows() || (steps_->gathers() && !steps_->has_read_rows()))
    return "this step gathers: write_row and read_rows come before rate";
  const auto progress = steps_->rate(global_square);
  rate.factor = progress.rate.learning_rate;
  rate.gain = progress.gain;
  rate.progress = progress.progress;
  return {};
}

std::string run::complete(const dynamix_step& step) {
  const stopwatch watch(*this);
  if (steps_->deals() == 0)
    return "no batch was delivered since the last step";
  if (steps_->waits_for_rows() || (steps_->gathers() && !steps_->has_read_rows()))
    return "this step gathers: write_row and read_rows come before complete";
  if (!steps_->has_rate() && step.skipped == 0)
    return "rate comes before complete, but for a step that is skipped";
  add_step(step);
  own_weight_.reset();
  steps_->computed(step.on_device != 0 ? step.compute_seconds
                                       : quota_.step_seconds(step.compute_seconds, elapsed_seconds()));
  const bool closes = steps_->complete(step.skipped != 0, step.iteration_seconds);
  measure_cores();
  count_applied();
  if (closes)
    close_window(false);
  send_heartbeat();
  pump();
  return {};
}

/// The decisions under which a step was completed.
void run::count_applied() {
  while (!awaited_.empty() && awaited_.front().from_step < steps_->step()) {
    ++decisions_;
    slot_->applied(awaited_.front().decision, awaited_.front().from_step);
    awaited_.erase(awaited_.begin());
  }
}

void run::add_step(const dynamix_step& step) {
  const auto deals = steps_->deals();
  const auto own = static_cast<double>(steps_->own_samples());
  const auto& planned = steps_->batches_at(steps_->step() + deals - 1);
  if (planned.batches != timed_batches_) {
    sums_.restart_times();
    timed_batches_ = planned.batches;
  }
  const auto known = [](double value) { return is_known(value) ? value : 0; };
  sums_.steps += deals;
  (is_known(step.iteration_seconds) ? sums_.timed_steps : sums_.untimed_steps) += deals;
  sums_.samples += steps_->own_samples();
  sums_.correct_samples += is_known(step.correct) ? steps_->own_samples() : 0;
  sums_.loss_samples += std::isfinite(step.loss) ? steps_->own_samples() : 0;
  sums_.norm_steps += is_known(step.gradient_norm) ? deals : 0;
  sums_.correct += static_cast<double>(std::llround(std::min(1.0, known(step.correct)) * own));
  sums_.loss += std::isfinite(step.loss) ? step.loss * own : 0;
  sums_.iteration_seconds += known(step.iteration_seconds);
  sums_.compute_seconds += known(step.compute_seconds);
  sums_.exchange_seconds += known(step.exchange_seconds);
  sums_.data_seconds += known(step.data_seconds);
  sums_.gradient_norm += known(step.gradient_norm) * deals;
  learning_rate_ = known(step.learning_rate);
}

const planned_batches& run::last_batches() const {
  return steps_->batches_at(std::max<std::uint64_t>(steps_->step(), 1) - 1);
}

void run::close_window(bool final) {
  const auto step = steps_->step();
  const auto& planned = last_batches();
  auto rate = steps_->last_rate();
  rate.learning_rate = learning_rate_;
  // Of this window alone, whether or not it is told.
  const auto balance = steps_->take_balance();
  if (link_ && link_->connected()) // nobody gathers what is told before a welcome
    link_->send(messages::window_report{.host = welcome_.host,
                                        .rank = welcome_.rank,
                                        .generation = std::max<std::uint64_t>(1, generation_),
                                        .window = steps_->window() + (final ? 1 : 0), // a step may be in two of them
                                        .first_step = sums_.first_step,
                                        .final = final,
                                        .batch = planned.batches[position_],
                                        .decision = planned.key,
                                        .global_batch = planned.total(),
                                        .epoch = steps_->position().epoch,
                                        .epoch_samples = steps_->position().cursor,
                                        .elapsed_seconds = elapsed_seconds(),
                                        .training = sums_.statistics(steps_->noise(), rate),
                                        .control_seconds = sums_.control_seconds,
                                        .balance = balance,
                                        .base_batch = decided_base_batch(planned),
                                        .highest_batch = steps_->options().members[position_].highest,
                                        .rule = steps_->options().rule});
  sums_ = {.first_step = step};
}

std::string run::evaluated(double train_loss, double test_loss, double test_accuracy) {
  quota_.restart();
  const auto known_loss = [](double loss) { return std::isfinite(loss) ? messages::sent_loss(loss) : 0; };
  accuracy_ = is_known(test_accuracy) ? std::min(1.0, test_accuracy) : 0;
  if (link_)
    link_->send(messages::evaluation_report{.step = steps_->step(),
                                            .epoch = steps_->position().epoch,
                                            .samples = steps_->samples_done(),
                                            .elapsed_seconds = elapsed_seconds(),
                                            .train_loss = known_loss(train_loss),
                                            .test_loss = known_loss(test_loss),
                                            .test_accuracy = accuracy_,
                                            .global_batch = last_batches().total(),
                                            .learning_rate = learning_rate_});
  return {};
}

std::string run::limit_batch(std::uint32_t samples) {
  if (samples == 0)
    return "a worker cannot be limited to no samples";
  steps_->limit_batch(samples);
  return {};
}

std::string run::status(dynamix_status& status) const {
  const auto& planned = steps_->batches_at(steps_->step());
  const auto noise = steps_->noise();
  status.batch = planned.batches[position_];
  status.global_batch = planned.total();
  status.step = steps_->step();
  status.samples = steps_->samples_done();
  status.epoch = steps_->next_position().epoch;
  status.cursor = steps_->next_position().cursor;
  status.window = steps_->window();
  status.generation = generation_;
  status.decisions = decisions_;
  status.connected = link_ && link_->connected() ? 1 : 0;
  status.stop = steps_->stops() ? 1 : 0;
  status.rank = welcome_.rank;
  status.noise_valid = noise.valid ? 1 : 0;
  status.noise_scale = noise.noise_scale;
  status.progress = steps_->progress();
  status.gpu = static_cast<std::uint32_t>(welcome_.gpu + 1);
  return {};
}

std::string run::batches(std::span<std::uint32_t> batches) const {
  const auto& planned = steps_->batches_at(steps_->step()).batches;
  if (batches.size() != planned.size())
    return fmt::format("there are {} members, not {}", planned.size(), batches.size());
  std::ranges::copy(planned, batches.begin());
  return {};
}

std::string run::finish(bool succeeded, const std::string& reason) {
  if (!link_ || std::exchange(finished_, true))
    return {};
  if (steps_ && sums_.steps > 0)
    close_window(true);
  const bool stopped = steps_ && steps_->stops();
  messages::farewell farewell{.host = welcome_.host,
                              .rank = welcome_.rank,
                              .succeeded = succeeded,
                              .reason = messages::fit_text(reason),
                              .wall_seconds = elapsed_seconds(),
                              .final_accuracy = accuracy_,
                              .decisions = slot_->close(),
                              .incarnation = hello_.incarnation,
                              .end = !succeeded ? messages::farewell_end::failed
                                     : stopped  ? messages::farewell_end::stopped
                                                : messages::farewell_end::completed};
  if (steps_) {
    farewell.steps = steps_->step();
    farewell.samples = steps_->samples_done();
    farewell.epochs = steps_->next_position().epoch;
  }
  if (steps_ && !link_->connected()) // one that hangs may read this yet, and takes the end of those who train alone
    link_->send(sign_of_life());
  link_->send(farewell);
  link_->close(farewell_timeout_ms);
  return {};
}

} // namespace dynamix::client
