#include "trainer/training_loop.hpp"

#include "client/proportional_split.hpp"
#include "client/random.hpp"
#include "session/rate_rule.hpp"
#include "trainer/emulation.hpp"
#include "trainer/evaluation.hpp"
#include "trainer/model_options.hpp"
#include "trainer/schedule.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
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

bool has_traces(const training_state& state, const exchange::group& peers) {
  return state.options.traces && peers.size() > 1;
}

bool watches(const training_state& state, const exchange::group& peers) {
  return state.options.windows && peers.size() > 1;
}

step_settings settings_of(const training_state& state, const exchange::group& peers) {
  auto settings = step_settings_of(state.options.training);
  settings.micro_batch = state.micro_batch;
  settings.slot_floats = has_traces(state, peers) ? policy::trace_floats : watches(state, peers) ? 1 : 0;
  return settings;
}

/// Most samples a step, of each member.
std::vector<std::uint32_t> limits_of(const training_state& state, const membership& place) {
  std::vector<std::uint32_t> highest;
  for (const auto rank : place.members)
    highest.push_back(state.options.highest_by_rank[rank]);
  return highest;
}

worker_traces traces_of(const training_state& state, const membership& place, std::uint32_t position) {
  auto highest = limits_of(state, place);
  const auto& options = state.options;
  const policy::trace_worker::limits own{.lowest = options.batch.lowest,
                                         .highest = highest[position],
                                         .least_total = cluster::goes_below_initial(options.training.rule)
                                                            ? 0
                                                            : static_cast<double>(options.base_batch())};
  return {.highest = std::move(highest),
          .self = policy::trace_worker(own, options.traces->masked),
          .reported = state.batches[position]};
}

/// The members are held to their bounds where decisions come in, so none are left here.
client::lockstep lockstep_of(const training_state& state, std::uint32_t position) {
  const auto& options = state.options;
  const std::vector<client::member_batch> members(state.batches.size(), {.lowest = 0});
  return {{.position = position,
           .members = members,
           .samples = state.epoch_samples,
           .seed = options.seed,
           .rule = dynamix::session::rate_rule_of(options.training.rule),
           .adaptive = is_adaptive(options.training.optimizer),
           .window_steps = options.window_steps,
           .settle_steps = options.settle_steps},
          {.step = state.step,
           .samples = state.samples,
           .position = state.position,
           .base_batch = options.base_batch(),
           .batches = state.batches,
           .in_force = state.in_force,
           .last_agreed = state.last_applied,
           .noise = state.noise,
           .rule = state.rule}};
}

} // namespace

training_loop::training_loop(training_state& state, const membership& place, exchange::group& peers,
                             decision_slot& decisions, observer& watcher, const exchange::interruption& stop)
    : state_(state), place_(place), position_(peers.position()), peers_(peers), decisions_(decisions),
      watcher_(watcher), stop_(stop),
      training_step_(state.model, state.train_loader, peers, state.time, stop, settings_of(state, peers)),
      steps_(lockstep_of(state, position_)) {
  if (has_traces(state, peers))
    traces_ = traces_of(state, place, position_);
  if (watches(state, peers)) {
    const auto& options = *state.options.windows;
    const auto begun = (state.step + options.steps - 1) / options.steps; // a resumed run may have had shorter windows
    windows_.emplace(policy::window_watch(options, std::min(state.window, begun)), state.time.now_seconds());
  }
}

generation_end training_loop::run() {
  state_.model->train();
  sums_.first_step = state_.step;
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
  const bool just_evaluated = state_.step > 0 && state_.evaluated_samples == state_.samples;
  if (state_.all_dealt())
    end(ending::completed, epochs_completed);
  else if (const auto* reason = just_evaluated ? ending_of(state_) : nullptr; reason != nullptr)
    end(ending::completed, reason);
  if (ended() || state_.is_due(training.evaluate_every_epochs, state_.evaluated_samples))
    evaluate_model();
  if ((ended() && state_.checkpointed_samples < state_.samples) ||
      state_.is_due(training.checkpoint_every_epochs, state_.checkpointed_samples))
    write_checkpoint();
}

void training_loop::train_one_step() {
  const double start = state_.time.now_seconds();
  const auto& options = state_.options;
  const bool agrees = windows_ ? windows_->watch.agrees(state_.step + 1)
                               : (state_.step + 1) % options.window_steps == options.settle_steps;
  const auto sums_before = sums_;
  state_.step_in_flight = true;
  std::unique_ptr<exchange::gathering> rows;
  const auto dealt = deal();
  if (agrees) {
    rows = begin_agreement();
    sums_.control_seconds += state_.time.now_seconds() - start;
  }
  auto result = compute(dealt);
  agreement agreed;
  if (agrees)
    agreed = finish_agreement(*rows);
  update(dealt, result);
  state_.step_in_flight = false;
  const double end_seconds = state_.time.now_seconds();
  sums_.iteration_seconds += end_seconds - start;
  watcher_.step_completed(state_.step);
  watcher_.step_timed({.step = state_.step,
                       .batch = state_.batches[position_],
                       .begin_seconds = start,
                       .end_seconds = end_seconds,
                       .data_seconds = result.data_seconds,
                       .compute_seconds = result.compute_seconds,
                       .blocked_seconds = result.gradients.blocked_seconds,
                       .collectives = std::move(result.gradients.collectives)});

  if (state_.all_dealt())
    end(ending::completed, epochs_completed);
  if (ended() || state_.is_due(options.training.evaluate_every_epochs, state_.evaluated_samples))
    evaluate_model();
  if (agreed.request == boundary_request::stop && !ended()) {
    end(ending::stopped, "stopped");
    evaluate_model();
  }
  const bool final = ended();
  const auto closing = find_window_end(result.gradients.slots);
  if (closing == policy::window_end::surprise) // times of before say nothing of the steps to come
    sums_.restart_times(sums_before);
  if (closing != policy::window_end::none || final)
    close_window(final);
  if (agreed.key && !final)
    apply(agreed);
  if (traces_ && !final)
    follow_traces(result.gradients.slots, end_seconds - start);
  if (agreed.request == boundary_request::regroup && !final)
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
  const auto samples = steps_.samples().first(deal.own.count);
  training_step_.begin(client::step_seed(state_.options.seed, state_.step, place_.rank), steps_.likely_samples());
  const double slowdown = slowdown_at(state_.options.emulate, state_.elapsed_seconds());
  if (state_.options.training.augmentation == cluster::augmentation_kind::crop_flip)
    state_.train_loader.augment(state_.options.seed, deal.epoch);
  const bool halved = peers_.size() == 1 && samples.size() > 1 && state_.step % halved_step_interval == 0;
  slot_writer write;
  if (traces_)
    write = [&](double seconds) { return lay_trace(samples.size(), seconds); };
  if (windows_)
    write = [&](double seconds) { return note_step(samples.size(), seconds); };
  auto result = halved ? training_step_.run_halved(samples, slowdown) : training_step_.run(samples, slowdown, write);
  if (training_step_.micro_batch() != state_.micro_batch) {
    state_.micro_batch = training_step_.micro_batch();
    watcher_.memory_limited(state_.micro_batch, deal.own.count);
  }
  return result;
}

void training_loop::update(const dealt_step& deal, const step_result& result) {
  const auto& gradients = result.gradients;
  // Every rank deals by itself, so a difference would mean that they hold different batch sizes.
  if (gradients.global_batch != deal.total)
    throw std::logic_error("the workers disagree about the batch sizes of step " + std::to_string(state_.step));

  const auto own = deal.own.count;
  const auto [rate, gain, progress] = steps_.rate({.active_workers = result.halved ? 2 : deal.active,
                                                   .weighted_square_sum = gradients.weighted_squares,
                                                   .global_square = gradients.square,
                                                   .global_batch = deal.total,
                                                   .own_square = gradients.own_square,
                                                   .own_batch = static_cast<std::uint32_t>(own)});
  const double scheduled = schedule_factor(state_.options.training, state_.samples, deal.total, state_.wanted_samples);
  state_.rate = {state_.options.training.learning_rate * scheduled * rate.learning_rate, rate.gain};
  const double norm = std::sqrt(gradients.square);
  clip_gradients(training_step_.parameters(), norm, state_.options.training.clip_norm);
  state_.descent.set_learning_rate(state_.rate.learning_rate);
  state_.descent.step();
  state_.average.follow(deal.total, state_.samples);

  steps_.complete(false);
  state_.step = steps_.step();
  state_.samples = steps_.samples_done();
  state_.position = steps_.position();
  state_.noise = steps_.noise_averages();
  state_.rule = steps_.rule_state();
  state_.train_loss += result.loss;
  state_.train_loss_samples += own;
  if (unconfirmed_checkpoint_)
    state_.checkpointed_samples = *std::exchange(unconfirmed_checkpoint_, std::nullopt);
  ++sums_.steps;
  ++sums_.timed_steps;
  sums_.samples += own;
  sums_.correct_samples += own;
  sums_.loss_samples += own;
  ++sums_.norm_steps;
  sums_.correct += result.correct;
  sums_.loss += result.loss;
  sums_.compute_seconds += result.compute_seconds;
  sums_.exchange_seconds += gradients.blocked_seconds;
  sums_.data_seconds += result.data_seconds;
  sums_.gradient_norm += norm;
}

std::unique_ptr<exchange::gathering> training_loop::begin_agreement() {
  return peers_.all_gather(encode(steps_.write_row(decisions_.held(), watcher_.request(), false, 1, 0)));
}

agreement training_loop::finish_agreement(exchange::gathering& gathered) {
  const double start = state_.time.now_seconds();
  const auto numbers = gathered.wait();
  constexpr auto columns = client::step_row_columns;
  std::vector<client::step_row> rows;
  for (std::size_t member = 0; member < peers_.size(); ++member)
    rows.push_back(client::decode_step_row(std::span(numbers).subspan(member * columns).first<columns>()));
  agreement agreed;
  if (const auto problem = steps_.read_rows(rows, agreed); !problem.empty())
    throw std::logic_error(problem);
  sums_.control_seconds += state_.time.now_seconds() - start;
  return agreed;
}

void training_loop::apply(const agreement& agreed) {
  std::vector<std::uint32_t> batches;
  for (const auto& decision : agreed.decisions)
    batches.push_back(decision.batch);
  if (traces_) { // what they have come to meanwhile stays
    steps_.shift(state_.batches);
    if (state_.options.traces->heeds_decisions)
      traces_->wish.decide(agreed.key->window, std::accumulate(batches.begin(), batches.end(), std::uint64_t{0}));
  } else {
    change_batches(std::move(batches));
  }
  state_.in_force = state_.last_applied = *agreed.key;
  decisions_.applied(agreed.decisions[position_], state_.step);
}

void training_loop::change_batches(std::vector<std::uint32_t> batches) {
  if (batches != state_.batches)
    sums_.restart_times();
  state_.batches = std::move(batches);
}

/// Of the steps so far, the same on all members; negative while it is not known.
double training_loop::noise_scale() const {
  const auto noise = state_.noise.estimate();
  return noise.valid && noise.noise_scale > 0 ? noise.noise_scale : -1;
}

/// This worker's trace of the step that it has just computed: what it takes for the next one. None where an epoch had
/// less left for it than its batch size: then all batch sizes stand for a step.
std::vector<float> training_loop::lay_trace(std::uint64_t samples, double compute_seconds) {
  if (!std::exchange(traces_->warm, true) || samples != state_.batches[position_])
    return {};
  auto& self = traces_->self;
  self.measure(static_cast<std::uint32_t>(samples), compute_seconds);
  const auto scale = noise_scale();
  const auto action = state_.options.traces->choose(place_.rank, self.view(traces_->field, scale));
  const auto slot = policy::encode(self.choose(traces_->field, scale, action, traces_->wish.correction()));
  return {slot.begin(), slot.end()};
}

/// What this worker lays beside its gradients of the step that it has just computed.
std::vector<float> training_loop::note_step(std::uint64_t samples, double compute_seconds) {
  if (!std::exchange(windows_->warm, true))
    return {};
  windows_->pace.measure(static_cast<double>(samples), compute_seconds);
  return {windows_->watch.note(windows_->pace, state_.time.now_seconds() - windows_->opened_seconds)};
}

/// What all workers' notes of the last step say of the window.
policy::window_end training_loop::find_window_end(std::span<const float> notes) {
  if (!windows_)
    return state_.step % state_.options.window_steps == 0 ? policy::window_end::counted : policy::window_end::none;
  const auto end = windows_->watch.close(state_.step, notes);
  if (end != policy::window_end::none)
    windows_->opened_seconds = state_.time.now_seconds();
  return end;
}

messages::reflex_statistics training_loop::reflex_of_window() {
  if (traces_)
    return traces_->account.take(traces_->self.pace());
  return windows_ && state_.options.windows->surprise ? windows_->account.take(windows_->pace)
                                                      : messages::reflex_statistics{};
}

/// The next step's batch sizes are what the traces name.
void training_loop::follow_traces(std::span<const float> slots, double step_seconds) {
  std::vector<policy::trace> laid;
  for (std::size_t at = 0; at < slots.size(); at += policy::trace_floats)
    laid.push_back(policy::decode_trace(slots.subspan(at).first<policy::trace_floats>()));
  traces_->field.deposit(laid);
  traces_->self.pass_barrier(traces_->field, step_seconds);
  auto next = policy::batches_of(laid, state_.batches, state_.options.batch.lowest, traces_->highest);
  const bool moved = next != state_.batches;
  if (moved)
    steps_.shift(next);
  change_batches(std::move(next));
  traces_->account.add(state_.batches[position_], traces_->reported, moved);
}

void training_loop::close_window(bool final) {
  const double start = state_.time.now_seconds();
  const auto number = (state_.step - 1) / state_.options.window_steps + 1;
  // Training may end where a surprise has closed this number already.
  state_.window = windows_ ? std::max(number, state_.window + 1) : number;
  window_record record{.window = state_.window,
                       .first_step = sums_.first_step,
                       .final = final,
                       .batch = state_.batches[position_],
                       .decision = state_.in_force,
                       .global_batch = state_.global_batch(),
                       .epoch = state_.position.epoch,
                       .epoch_samples = state_.position.cursor,
                       .elapsed_seconds = state_.elapsed_seconds(),
                       .statistics = sums_.statistics(state_.noise.estimate(), state_.rate),
                       .control_seconds = sums_.control_seconds,
                       .reflex = reflex_of_window()};
  if (traces_) {
    traces_->reported = state_.batches[position_];
    traces_->wish.close(state_.window, state_.global_batch());
  }
  watcher_.window_closed(record);
  sums_ = {.first_step = state_.step};
  sums_.control_seconds = state_.time.now_seconds() - start; // known only now, so it counts in the next window
}

/// All members come here with the same state, and so do or leave the same.
void training_loop::evaluate_model() {
  if (state_.evaluated_samples == state_.samples && state_.step > sums_.first_step)
    return; // just done
  const auto& options = state_.options;
  const double start = state_.time.now_seconds();
  const auto ranges = client::split_range({0, state_.test_samples}, state_.batches);
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
  state_.evaluated_samples = state_.samples;
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
  if (first_member())
    watcher_.evaluated({.step = state_.step,
                        .epoch = state_.position.epoch,
                        .samples = state_.samples,
                        .elapsed_seconds = state_.elapsed_seconds(),
                        .train_loss = total[4] > 0 ? client::finite_or_huge(total[3] / total[4]) : 0,
                        .test_loss = client::finite_or_huge(total[0] / total[2]),
                        .test_accuracy = state_.accuracy,
                        .global_batch = state_.global_batch(),
                        .learning_rate = state_.rate.learning_rate});
}

/// The others know that it is written when the first member takes part in a further step.
void training_loop::write_checkpoint() {
  if (!first_member()) {
    unconfirmed_checkpoint_ = state_.samples;
    return;
  }
  state_.checkpointed_samples = state_.samples;
  if (const auto path = state_.checkpoints.write(state_.capture()); !path.empty())
    watcher_.checkpoint_written(path, state_.step);
}

} // namespace dynamix::trainer
