#include "trainer/training_loop.hpp"

#include "trainer/agreement.hpp"
#include "trainer/emulation.hpp"
#include "trainer/evaluation.hpp"
#include "trainer/random.hpp"
#include "trainer/tensor_records.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dynamix::trainer {

namespace {

/// A worker without peers runs every so many steps with its batch in halves, since only those show the gradient's
/// noise. A halved step costs a little more than a whole one, so not all are.
constexpr std::uint64_t halved_step_interval = 10;

std::uint64_t initial_global_batch(const loop_options& options, std::uint32_t world_size) {
  return std::uint64_t{options.batch.initial} * world_size;
}

std::uint64_t samples_in(double epochs, std::uint64_t epoch_samples) {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(epochs * static_cast<double>(epoch_samples)));
}

} // namespace

training_loop::training_loop(loop_options options, torch::nn::Sequential model, const dataset& train,
                             const dataset& test, exchange& peers, clock& time, decision_slot& decisions,
                             observer& watcher)
    : options_(std::move(options)), model_(std::move(model)), peers_(peers), time_(time), decisions_(decisions),
      watcher_(watcher), train_loader_(train, measure_channels(train), options_.device),
      test_loader_(test, measure_channels(train), options_.device), test_samples_(test.size()),
      training_step_(model_, train_loader_, peers, time, std::size_t{options_.training.bucket_kib} * 1024),
      optimizer_(options_.training, training_step_.parameters()), sampler_(options_.seed, train.size()),
      rule_(options_.training.rule, options_.training.learning_rate, initial_global_batch(options_, peers.world_size()),
            is_adaptive(options_.training.optimizer)),
      checkpoints_(peers.rank() == 0 ? options_.checkpoint_directory : ""),
      wanted_samples_(samples_in(options_.training.epochs, train.size())),
      batches_(peers.world_size(), options_.batch.initial), started_seconds_(time.now_seconds()) {}

outcome training_loop::run() {
  model_->train();
  started_seconds_ = time_.now_seconds();
  sums_.first_step = step_;
  watcher_.started();
  if (samples_ >= wanted_samples_) { // restored at the very end
    end_reason_ = "epochs completed";
    evaluate_model();
  }
  while (end_reason_.empty())
    train_one_step();
  auto result = progress();
  result.succeeded = true;
  result.reason = end_reason_;
  if (!checkpoints_.problem().empty())
    result.reason += "; the last checkpoint could not be written: " + checkpoints_.problem();
  return result;
}

void training_loop::train_one_step() {
  const double start = time_.now_seconds();
  const auto samples_before = samples_;
  const auto step_of_window = (step_ + 1) % options_.window_steps;
  const bool closes = step_of_window == 0;
  const bool agrees = step_of_window == options_.settle_steps;
  gathering gathered;
  if (agrees) {
    gathered = begin_agreement();
    sums_.control_seconds += time_.now_seconds() - start;
  }
  const auto deal = sampler_.deal(batches_);
  update(deal, compute(deal));
  sums_.iteration_seconds += time_.now_seconds() - start;

  if (samples_ >= wanted_samples_)
    end_reason_ = "epochs completed";
  if (!end_reason_.empty() || crossed(options_.training.evaluate_every_epochs, samples_before))
    evaluate_model();
  agreement agreed;
  if (agrees)
    agreed = finish_agreement(gathered);
  if (agreed.stop && end_reason_.empty()) {
    end_reason_ = "stopped";
    evaluate_model();
  }
  const bool final = !end_reason_.empty();
  if (closes || final)
    close_window(final);
  if (agreed.key && !final)
    apply(agreed);
  if (final || crossed(options_.training.checkpoint_every_epochs, samples_before))
    if (const auto path = checkpoints_.write(capture()); !path.empty())
      watcher_.checkpoint_written(path, step_);
}

step_result training_loop::compute(const deal_result& deal) {
  torch::manual_seed(step_seed(options_.seed, step_, peers_.rank()));
  const auto samples = sampler_.samples_of(deal.ranges[peers_.rank()]);
  const double slowdown = slowdown_at(options_.emulate, elapsed_seconds());
  if (peers_.world_size() == 1 && samples.size() > 1 && step_ % halved_step_interval == 0)
    return training_step_.run_halved(samples, slowdown);
  return training_step_.run(samples, slowdown);
}

void training_loop::update(const deal_result& deal, const step_result& result) {
  const auto& gradients = result.gradients;
  // Every rank deals by itself, so a difference would mean that they hold different batch sizes. Sums of float32 are
  // exact up to 2^24, hence the tolerance.
  const auto dealt = static_cast<double>(deal.samples);
  if (std::abs(static_cast<double>(gradients.global_batch) - dealt) > 1e-5 * dealt)
    throw std::logic_error("the workers disagree about the batch sizes of step " + std::to_string(step_));

  const auto own = deal.ranges[peers_.rank()].count;
  const auto active = std::ranges::count_if(deal.ranges, [](const index_range& range) { return range.count > 0; });
  const auto sample = noise_.observe({.active_workers = result.halved ? 2 : static_cast<std::uint32_t>(active),
                                      .weighted_square_sum = gradients.weighted_squares,
                                      .global_square = gradients.square,
                                      .global_batch = deal.samples,
                                      .own_square = gradients.own_square,
                                      .own_batch = static_cast<std::uint32_t>(own)});
  rate_ = rule_.advance(deal.samples, sample);
  const double norm = std::sqrt(gradients.square);
  clip_gradients(training_step_.parameters(), norm, options_.training.clip_norm);
  optimizer_.set_learning_rate(rate_.learning_rate);
  optimizer_.step();

  ++step_;
  samples_ += deal.samples;
  position_ = sampler_.position();
  train_loss_ += result.loss;
  train_loss_samples_ += own;
  ++sums_.steps;
  ++sums_.timed_steps;
  sums_.samples += own;
  sums_.correct += result.correct;
  sums_.loss += result.loss;
  sums_.compute_seconds += result.compute_seconds;
  sums_.exchange_seconds += gradients.blocked_seconds;
  sums_.data_seconds += result.data_seconds;
  sums_.gradient_norm += norm;
}

training_loop::gathering training_loop::begin_agreement() {
  const auto numbers = encode(boundary_row{.held = decisions_.held(), .stop = watcher_.stop_requested()});
  gathering gathered;
  gathered.row = torch::tensor(at::ArrayRef<std::int64_t>(numbers.data(), numbers.size()), torch::kInt64);
  gathered.rows = torch::empty({peers_.world_size(), static_cast<std::int64_t>(boundary_columns)}, torch::kInt64);
  gathered.pending = peers_.all_gather(gathered.row, gathered.rows);
  return gathered;
}

agreement training_loop::finish_agreement(gathering& gathered) {
  const double start = time_.now_seconds();
  gathered.pending->wait();
  std::vector<boundary_row> rows;
  const auto* numbers = gathered.rows.data_ptr<std::int64_t>();
  for (std::uint32_t rank = 0; rank < peers_.world_size(); ++rank)
    rows.push_back(decode_row(
        std::span<const std::int64_t, boundary_columns>(numbers + rank * boundary_columns, boundary_columns)));
  auto agreed = agree(rows, last_applied_, step_);
  sums_.control_seconds += time_.now_seconds() - start;
  return agreed;
}

void training_loop::apply(const agreement& agreed) {
  std::vector<std::uint32_t> batches;
  for (const auto& decision : agreed.decisions)
    batches.push_back(decision.batch);
  if (batches != batches_)
    sums_.restart_times();
  batches_ = std::move(batches);
  in_force_ = last_applied_ = *agreed.key;
  decisions_.applied(agreed.decisions[peers_.rank()], step_);
}

void training_loop::close_window(bool final) {
  const double start = time_.now_seconds();
  window_ = (step_ - 1) / options_.window_steps + 1;
  window_record record{.window = window_,
                       .first_step = sums_.first_step,
                       .final = final,
                       .batch = batches_[peers_.rank()],
                       .decision = in_force_,
                       .global_batch = std::accumulate(batches_.begin(), batches_.end(), std::uint64_t{0}),
                       .epoch = position_.epoch,
                       .epoch_samples = position_.cursor,
                       .elapsed_seconds = elapsed_seconds(),
                       .statistics = sums_.statistics(noise_.estimate(), rate_),
                       .control_seconds = sums_.control_seconds};
  watcher_.window_closed(record);
  sums_ = {.first_step = step_};
  sums_.control_seconds = time_.now_seconds() - start; // known only now, so it counts in the next window
}

void training_loop::evaluate_model() {
  if (evaluated_at_step_ == step_ && step_ > 0)
    return;
  evaluated_at_step_ = step_;
  const double start = time_.now_seconds();
  const auto ranges = split_range({0, test_samples_}, batches_);
  const auto own = evaluate(model_, test_loader_, ranges[peers_.rank()]);
  const double slowdown = slowdown_at(options_.emulate, elapsed_seconds());
  if (const double delay = emulation_delay_seconds(slowdown, time_.now_seconds() - start); delay > 0)
    time_.sleep_seconds(delay);

  auto totals = torch::tensor({own.loss, static_cast<double>(own.correct), static_cast<double>(own.count), train_loss_,
                               static_cast<double>(train_loss_samples_)},
                              torch::kFloat64);
  peers_.all_reduce_sum(totals)->wait();
  const auto* total = totals.data_ptr<double>();
  train_loss_ = 0;
  train_loss_samples_ = 0;
  // Every rank has the same sums, so all of them stop here or none.
  accuracy_ = total[1] / total[2];
  best_accuracy_ = std::max(best_accuracy_, accuracy_);
  const double target = options_.training.target_accuracy;
  if (target > 0 && accuracy_ >= target) {
    if (seconds_to_target_ < 0)
      seconds_to_target_ = elapsed_seconds();
    if (end_reason_.empty())
      end_reason_ = "target accuracy reached";
  }
  if (peers_.rank() == 0)
    watcher_.evaluated({.step = step_,
                        .epoch = position_.epoch,
                        .samples = samples_,
                        .elapsed_seconds = elapsed_seconds(),
                        .train_loss = total[4] > 0 ? finite_or_huge(total[3] / total[4]) : 0,
                        .test_loss = finite_or_huge(total[0] / total[2]),
                        .test_accuracy = accuracy_,
                        .global_batch = std::accumulate(batches_.begin(), batches_.end(), std::uint64_t{0}),
                        .learning_rate = rate_.learning_rate});
}

bool training_loop::crossed(double every_epochs, std::uint64_t samples_before) const {
  const double interval = std::max(1.0, every_epochs * static_cast<double>(sampler_.epoch_samples()));
  return std::floor(static_cast<double>(samples_) / interval) >
         std::floor(static_cast<double>(samples_before) / interval);
}

double training_loop::elapsed_seconds() const {
  return earlier_seconds_ + time_.now_seconds() - started_seconds_;
}

outcome training_loop::progress() const {
  return {.steps = step_,
          .samples = samples_,
          .epochs = position_.epoch,
          .wall_seconds = elapsed_seconds(),
          .final_accuracy = accuracy_,
          .seconds_to_target = seconds_to_target_,
          .parameter_checksum = model_checksum(*model_),
          .checkpoint = checkpoints_.newest()};
}

checkpoint training_loop::capture() const {
  return {.seed = options_.seed,
          .step = step_,
          .samples = samples_,
          .sampler = position_,
          .epoch_samples = sampler_.epoch_samples(),
          .learning_rate = rule_.state(),
          .noise = noise_.state(),
          .batches = batches_,
          .decision = in_force_,
          .window = window_,
          .elapsed_seconds = elapsed_seconds(),
          .best_accuracy = best_accuracy_,
          .seconds_to_target = seconds_to_target_,
          .model = model_records(*model_),
          .optimizer = optimizer_.state(),
          .policy = {}};
}

std::string training_loop::restore(const checkpoint& state) {
  if (state.seed != options_.seed)
    return "it belongs to a run with seed " + std::to_string(state.seed) + ", this one has seed " +
           std::to_string(options_.seed);
  if (state.epoch_samples != sampler_.epoch_samples())
    return "it was trained on " + std::to_string(state.epoch_samples) + " samples, the data set has " +
           std::to_string(sampler_.epoch_samples());
  if (state.batches.size() != batches_.size())
    return "it is of " + std::to_string(state.batches.size()) + " workers, this run has " +
           std::to_string(batches_.size());
  if (auto problem = restore_model(state.model, *model_); !problem.empty())
    return problem;
  if (auto problem = optimizer_.restore(state.optimizer); !problem.empty())
    return problem;
  if (!sampler_.restore(state.sampler))
    return "its place in the data set lies outside an epoch";
  step_ = state.step;
  samples_ = state.samples;
  position_ = state.sampler;
  for (std::size_t rank = 0; rank < batches_.size(); ++rank) // the bounds may have been narrowed since
    batches_[rank] = std::clamp(state.batches[rank], options_.batch.lowest, options_.batch.highest);
  window_ = state.window;
  in_force_ = state.decision;
  earlier_seconds_ = state.elapsed_seconds;
  best_accuracy_ = state.best_accuracy;
  seconds_to_target_ = state.seconds_to_target;
  rule_.restore(state.learning_rate);
  noise_.restore(state.noise);
  return {};
}

} // namespace dynamix::trainer
