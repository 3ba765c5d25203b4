#include "trainer/training_loop.hpp"

#include "client/proportional_split.hpp"
#include "client/random.hpp"
#include "messages/loss.hpp"
#include "session/step_settings.hpp"
#include "trainer/emulation.hpp"
#include "trainer/evaluation.hpp"
#include "trainer/model_options.hpp"
#include "trainer/schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/ranges.h>
#include <limits>
#include <utility>

namespace dynamix::trainer {

namespace {

/// A worker without peers runs every so many steps with its batch in halves, since only those show the gradient's
/// noise. A halved step costs a little more than a whole one, so not all are.
constexpr std::uint64_t halved_step_interval = 10;

constexpr auto epochs_completed = "epochs completed";
constexpr auto target_reached = "target accuracy reached";

/// Why what was found last ends training; null where it does not.
const char* ending_of(const training_state& state) {
  const auto& training = state.options.training;
  if (training.target_accuracy > 0 && state.accuracy >= training.target_accuracy)
    return target_reached;
  return training.patience > 0 && state.stale_evaluations >= training.patience ? "no better accuracy" : nullptr;
}

/// A run of which nothing comes any more ends at that.
constexpr std::uint32_t dropped_in_a_row_max = 50;
constexpr auto not_finite_advice = "; training.nan = 'drop' goes on without such steps";

std::string describe_not_finite(std::uint64_t step, const std::vector<std::uint32_t>& ranks, std::size_t members) {
  if (ranks.empty())
    return fmt::format("the workers' gradients of step {} add up to no finite number", step);
  if (ranks.size() == members && members > 1)
    return fmt::format("the gradients of all workers in step {} are not finite", step);
  return fmt::format("the gradient of rank {} in step {} is not finite", fmt::join(ranks, ", of rank "), step);
}

step_settings settings_of(const training_state& state, const exchange::group& peers) {
  auto settings = step_settings_of(state.options.training);
  settings.micro_batch = state.micro_batch;
  settings.row_columns = peers.size() > 1 ? dynamix::session::step_row_columns : 0;
  return settings;
}

client::lockstep lockstep_of(const training_state& state, const membership& place, std::uint32_t position) {
  const auto& options = state.options;
  std::vector<client::member_batch> members;
  for (const auto rank : place.members)
    members.push_back(
        {.initial = options.batch.initial, .lowest = options.batch.lowest, .highest = options.highest_by_rank[rank]});
  return {{.position = position,
           .members = members,
           .samples = state.epoch_samples,
           .seed = options.seed,
           .rule = dynamix::session::rate_rule_of(options.training.rule),
           .adaptive = is_adaptive(options.training.optimizer),
           .window_steps = options.window_steps,
           .balances = members.size() > 1 ? options.balances : messages::balancing::off},
          state.reached};
}

} // namespace

training_loop::training_loop(training_state& state, const membership& place, exchange::group& peers,
                             decision_slot& decisions, observer& watcher, const exchange::interruption& stop)
    : state_(state), place_(place), position_(peers.position()), peers_(peers), decisions_(decisions),
      watcher_(watcher), stop_(stop),
      training_step_(state.model, state.train_loader, peers, state.time, stop, settings_of(state, peers)),
      steps_(lockstep_of(state, place, position_)) {}

generation_end training_loop::run() {
  state_.model->train();
  sums_.first_step = state_.reached.step;
  steps_.start_epoch(); // goes on in the one that the state stands in
  watcher_.started();
  catch_up();
  while (!ended()) {
    exchange::throw_if_raised(stop_);
    train_one_step();
  }
  if (const auto& problem = state_.checkpoints.problem(); end_.how != ending::regrouped && !problem.empty())
    end_.reason += "; the last checkpoint could not be written: " + problem;
  return end_;
}

/// What the generation before was about to do when it ended.
void training_loop::catch_up() {
  const auto& training = state_.options.training;
  const bool just_evaluated = state_.reached.step > 0 && state_.evaluated_samples == state_.reached.samples;
  if (state_.all_dealt())
    end(ending::completed, epochs_completed);
  else if (const auto* reason = just_evaluated ? ending_of(state_) : nullptr; reason != nullptr)
    end(ending::completed, reason);
  if (ended() || state_.is_due(training.evaluate_every_epochs, state_.evaluated_samples))
    evaluate_model();
  if ((ended() && state_.checkpointed_samples < state_.reached.samples) ||
      state_.is_due(training.checkpoint_every_epochs, state_.checkpointed_samples))
    write_checkpoint();
}

void training_loop::train_one_step() {
  const double start = state_.time.now_seconds();
  const auto& options = state_.options;
  state_.step_in_flight = true;
  const auto dealt = deal();
  auto result = compute(dealt);
  const auto agreed = read_rows(result.gradients.rows);
  update(dealt, result, start);
  if (agreed.key && agreed.request != step_request::stop && !ended() && !state_.all_dealt())
    decisions_.applied(agreed.decisions[position_], state_.reached.step);
  state_.step_in_flight = false;
  const double end_seconds = state_.time.now_seconds();
  sums_.iteration_seconds += end_seconds - start;
  watcher_.step_completed(state_.reached.step);
  watcher_.step_timed({.step = state_.reached.step,
                       .batch = last_batches().batches[position_],
                       .begin_seconds = start,
                       .end_seconds = end_seconds,
                       .data_seconds = result.data_seconds,
                       .compute_seconds = result.compute_seconds,
                       .blocked_seconds = result.gradients.blocked_seconds,
                       .collectives = std::move(result.gradients.collectives)});

  if (state_.all_dealt() && !ended())
    end(ending::completed, epochs_completed);
  if (ended() || state_.is_due(options.training.evaluate_every_epochs, state_.evaluated_samples))
    evaluate_model();
  if (agreed.request == step_request::stop && !ended()) {
    end(ending::stopped, "stopped");
    evaluate_model();
  }
  const bool final = ended();
  if (final || state_.reached.step % options.window_steps == 0)
    close_window(final);
  if (!final && steps_.batches_at(state_.reached.step).batches != last_batches().batches)
    sums_.restart_times();
  if (agreed.request == step_request::regroup && !final)
    end(ending::regrouped, "regrouping");
  if (final || state_.is_due(options.training.checkpoint_every_epochs, state_.checkpointed_samples))
    write_checkpoint();
}

dealt_step training_loop::deal() {
  dealt_step dealt;
  if (steps_.deal(dealt) == client::deal_verdict::end) {
    steps_.start_epoch();
    steps_.deal(dealt);
  }
  steps_.deliver();
  return dealt;
}

step_result training_loop::compute(const dealt_step& deal) {
  const auto numbers = steps_.samples();
  const auto samples = std::span(numbers).first(deal.own);
  const auto likely = steps_.likely_samples();
  training_step_.begin(client::step_seed(state_.options.seed, state_.reached.step, place_.rank), likely);
  const double slowdown = slowdown_at(state_.options.emulate, state_.elapsed_seconds());
  if (state_.options.training.augmentation == cluster::augmentation_kind::crop_flip)
    state_.train_loader.augment(state_.options.seed, deal.epoch);
  const bool halved = peers_.size() == 1 && samples.size() > 1 && state_.reached.step % halved_step_interval == 0;
  auto result = halved ? training_step_.run_halved(samples, slowdown)
                       : training_step_.run(samples, slowdown,
                                            [this](double seconds, bool finite) { return write_row(seconds, finite); });
  if (peers_.size() == 1)
    result.gradients.rows = write_row(result.compute_seconds, std::isfinite(result.gradients.square));
  if (training_step_.micro_batch() != state_.micro_batch) {
    state_.micro_batch = training_step_.micro_batch();
    watcher_.memory_limited(state_.micro_batch, deal.own);
  }
  return result;
}

void training_loop::update(const dealt_step& deal, const step_result& result, double start_seconds) {
  const auto& gradients = result.gradients;
  // Every rank deals by itself, so a difference would mean that they hold different batch sizes.
  if (gradients.global_batch != deal.total)
    throw std::logic_error("the workers disagree about the batch sizes of step " + std::to_string(state_.reached.step));

  const bool finite = std::isfinite(gradients.square); // all have the same sums
  const double norm = finite ? descend(deal, result) : 0;
  if (finite)
    dropped_in_a_row_ = 0;
  else
    drop();
  steps_.complete(!finite, state_.time.now_seconds() - start_seconds);
  if (steps_.options().balances == dynamix::messages::balancing::automatic) {
    cores_.step_ended(state_.time.now_seconds());
    steps_.measured_cores(cores_.use());
  }
  state_.reached = steps_.reached();
  if (unconfirmed_checkpoint_)
    state_.checkpointed_samples = *std::exchange(unconfirmed_checkpoint_, std::nullopt);
  ++sums_.steps;
  ++sums_.timed_steps;
  sums_.samples += deal.own;
  sums_.compute_seconds += result.compute_seconds;
  sums_.exchange_seconds += gradients.blocked_seconds;
  sums_.data_seconds += result.data_seconds;
  if (finite)
    count(result, deal.own, norm);
}

/// The optimiser's step. Returns the gradient's norm.
double training_loop::descend(const dealt_step& deal, const step_result& result) {
  const auto& gradients = result.gradients;
  const auto [rate, gain, progress] = steps_.rate({.active_workers = result.halved ? 2 : deal.active,
                                                   .weighted_square_sum = gradients.weighted_squares,
                                                   .global_square = gradients.square,
                                                   .global_batch = deal.total,
                                                   .own_square = gradients.own_square,
                                                   .own_batch = static_cast<std::uint32_t>(deal.own)});
  const double scheduled =
      schedule_factor(state_.options.training, state_.reached.samples, deal.total, state_.wanted_samples);
  state_.rate = {state_.options.training.learning_rate * scheduled * rate.learning_rate, rate.gain};
  const double norm = std::sqrt(gradients.square);
  clip_gradients(training_step_.parameters(), norm, state_.options.training.clip_norm);
  state_.descent.set_learning_rate(state_.rate.learning_rate);
  state_.descent.step();
  state_.average.follow(deal.total, state_.reached.samples);
  return norm;
}

/// The step leaves no trace in the parameters, and all know by whom. Who stops here does so in order: a restart would
/// come to the same.
void training_loop::drop() {
  std::vector<std::uint32_t> ranks;
  for (const auto position : steps_.not_finite())
    ranks.push_back(place_.members[position]);
  const auto reason = describe_not_finite(state_.reached.step, ranks, place_.members.size());
  if (state_.options.training.nan == cluster::nan_kind::stop)
    end(ending::stopped, reason + not_finite_advice);
  else if (++dropped_in_a_row_ >= dropped_in_a_row_max)
    end(ending::stopped, fmt::format("{} steps in a row were dropped: {}", dropped_in_a_row_, reason));
  else
    watcher_.step_dropped(reason);
}

/// What a step that counts has shown of this worker's samples.
void training_loop::count(const step_result& result, std::uint64_t own, double norm) {
  state_.train_loss += result.loss;
  state_.train_loss_samples += own;
  sums_.correct_samples += own;
  sums_.loss_samples += own;
  ++sums_.norm_steps;
  sums_.correct += result.correct;
  sums_.loss += result.loss;
  sums_.gradient_norm += norm;
}

/// What this worker tells the others of the step that it has just computed.
std::vector<std::int64_t> training_loop::write_row(double compute_seconds, bool finite) {
  steps_.computed(quota_.step_seconds(compute_seconds, state_.time.now_seconds()));
  const double square = finite ? 0 : std::numeric_limits<double>::infinity();
  const auto row = encode(steps_.write_row(decisions_.held(), watcher_.request(), 1, square));
  return {row.begin(), row.end()};
}

agreement training_loop::read_rows(std::span<const std::int64_t> numbers) {
  const double start = state_.time.now_seconds();
  const bool judged = !steps_.shared_cores().empty();
  agreement agreed;
  if (const auto problem = steps_.read_rows(numbers, agreed); !problem.empty())
    throw std::logic_error(problem);
  if (!judged && !steps_.shared_cores().empty())
    watcher_.cores_judged(dynamix::session::describe_sharing(steps_.shared_cores(), position_));
  sums_.control_seconds += state_.time.now_seconds() - start;
  return agreed;
}

void training_loop::close_window(bool final) {
  const double start = state_.time.now_seconds();
  state_.window = (state_.reached.step - 1) / state_.options.window_steps + 1;
  const auto& planned = last_batches();
  window_record record{.window = state_.window,
                       .first_step = sums_.first_step,
                       .final = final,
                       .batch = planned.batches[position_],
                       .decision = planned.key,
                       .global_batch = planned.total(),
                       .epoch = state_.reached.position.epoch,
                       .epoch_samples = state_.reached.position.cursor,
                       .elapsed_seconds = state_.elapsed_seconds(),
                       .statistics = sums_.statistics(steps_.noise(), state_.rate),
                       .control_seconds = sums_.control_seconds,
                       .balance = steps_.take_balance()};
  watcher_.window_closed(record);
  sums_ = {.first_step = state_.reached.step};
  sums_.control_seconds = state_.time.now_seconds() - start; // known only now, so it counts in the next window
}

/// All members come here with the same state, and so do or leave the same.
void training_loop::evaluate_model() {
  quota_.restart();
  if (state_.evaluated_samples == state_.reached.samples && state_.reached.step > sums_.first_step)
    return; // just done
  const auto& options = state_.options;
  const double start = state_.time.now_seconds();
  const auto ranges = client::split_range({0, state_.test_samples}, state_.reached.batches);
  evaluation_sums own;
  {
    const averaged_weights shown(state_.average);
    own = evaluate(
        state_.model, state_.test_loader, ranges[position_], evaluation_batch_of(options.training),
        [this] { return stop_.raised(); }, state_.test_stride, options.training.precision);
  }
  exchange::throw_if_raised(stop_);
  const double slowdown = slowdown_at(options.emulate, state_.elapsed_seconds());
  sleep_unless_raised(state_.time, stop_, emulation_delay_seconds(slowdown, state_.time.now_seconds() - start));

  const auto totals = peers_.make_bucket(exchange::element::float32, 0, 5);
  const auto total = totals->sums();
  std::ranges::copy(std::array{own.loss, own.correct, static_cast<double>(own.count), state_.train_loss,
                               static_cast<double>(state_.train_loss_samples)},
                    total.begin());
  totals->start();
  totals->wait();
  // The evaluation of a stop, which a resume would not have, decides nothing.
  const bool due = state_.is_due(options.training.evaluate_every_epochs, state_.evaluated_samples);
  state_.evaluated_samples = state_.reached.samples;
  state_.train_loss = 0;
  state_.train_loss_samples = 0;
  // Every member has the same sums, so all of them stop here or none.
  state_.accuracy = total[1] / total[2];
  if (due) {
    state_.stale_evaluations = state_.accuracy > state_.best_accuracy ? 0 : state_.stale_evaluations + 1;
    state_.best_accuracy = std::max(state_.best_accuracy, state_.accuracy);
  }
  const double target = options.training.target_accuracy;
  if (target > 0 && state_.accuracy >= target && state_.seconds_to_target < 0)
    state_.seconds_to_target = state_.elapsed_seconds();
  if (const auto* reason = ending_of(state_); reason != nullptr && !ended())
    end(ending::completed, reason);
  const auto sent = [](double loss) { return messages::sent_loss(client::finite_or_huge(loss)); };
  if (first_member())
    watcher_.evaluated({.step = state_.reached.step,
                        .epoch = state_.reached.position.epoch,
                        .samples = state_.reached.samples,
                        .elapsed_seconds = state_.elapsed_seconds(),
                        .train_loss = total[4] > 0 ? sent(total[3] / total[4]) : 0,
                        .test_loss = sent(total[0] / total[2]),
                        .test_accuracy = state_.accuracy,
                        .global_batch = last_batches().total(),
                        .learning_rate = state_.rate.learning_rate});
}

/// The others know that it is written when the first member takes part in a further step.
void training_loop::write_checkpoint() {
  if (!first_member()) {
    unconfirmed_checkpoint_ = state_.reached.samples;
    return;
  }
  state_.checkpointed_samples = state_.reached.samples;
  if (const auto path = state_.checkpoints.write(state_.capture()); !path.empty())
    watcher_.checkpoint_written(path, state_.reached.step);
  else if (const auto& problem = state_.checkpoints.problem(); !problem.empty())
    watcher_.checkpoint_failed(problem, state_.reached.step);
}

} // namespace dynamix::trainer
