#pragma once

/// A LibTorch training loop joins Dynamix in two lines: header-only, over the C functions of dynamix.h, for LibTorch
/// from 2.6 on.
///
///     auto optimizer = dynamix::join(model->parameters(), torch::optim::SGD(model->parameters(), 0.1),
///                                    {.batch = 64, .samples = n}, dynamix::group_of(gloo));
///     auto loader = torch::data::make_data_loader(data, optimizer.run().sampler(), options);
///     for (int epoch = 0; epoch < epochs; ++epoch)
///       for (auto& batch : *loader) {
///         optimizer.zero_grad();
///         loss_of(model, batch).backward();
///         optimizer.step(); // averages the gradients: a sum of them by hand is left out
///       }
///
/// Training is over where the optimiser, and the loader that has its sampler, are destroyed at an epoch's end;
/// `optimizer.run().finish()` says it elsewhere, and throws where another member has ended before. An optimiser that
/// somebody else owns stays where it is: `join` returns the run then, and its `step` is called in place of the
/// optimiser's.
///
/// All members call the same functions in the same order. What goes wrong is thrown as dynamix::error.

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <dynamix/dynamix.h>
#include <dynamix/torch_batches.hpp>
#include <dynamix/torch_buckets.hpp>
#include <exception>
#include <functional>
#include <iostream>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace dynamix {

class error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

enum class rate_rule : std::uint32_t {
  agent = DYNAMIX_RULE_AGENT, ///< as the agent says; constant without one
  constant = DYNAMIX_RULE_CONSTANT,
  linear = DYNAMIX_RULE_LINEAR,
  square_root = DYNAMIX_RULE_SQUARE_ROOT,
  adascale = DYNAMIX_RULE_ADASCALE,
};

/// What members deal of a stream (torch_stream.hpp), the same on all of them.
struct stream_shards {
  std::vector<std::uint64_t> lengths = {}; ///< items of each
  std::uint64_t identity = 0;              ///< a hash of their names
  friend bool operator==(const stream_shards& one, const stream_shards& other) {
    return one.lengths == other.lengths && one.identity == other.identity;
  }
};

struct join_options {
  std::uint32_t batch = 0;   ///< of this worker at the start, samples per step
  std::uint64_t samples = 0; ///< of an epoch; left out with `shards`
  stream_shards shards = {}; ///< of a stream
  std::uint32_t readers = 1; ///< shards that this member has open at once: the data loader's workers, as a rule
  std::uint64_t seed = 0;    ///< of the order of samples; that of member 0 counts
  bool shuffle = true;       ///< the samples, or the shards, whose items keep their order
  bool drop_last = false;    ///< an epoch ends before a step that its samples do not fill
  rate_rule rule = rate_rule::agent;
  std::uint32_t lowest_batch = 0;   ///< 0: the agent's
  std::uint32_t highest_batch = 0;  ///< 0: the agent's
  std::uint32_t noise_interval = 0; ///< steps between measurements of the gradient noise; 0: twice a window
  /// Whether the members share the global batch by their own paces; nothing: as the cluster file says, off without one.
  std::optional<bool> balance;
  std::uint32_t local_rank = 0;                    ///< among the processes of this machine, each of which has its agent
  std::optional<std::string> agent = std::nullopt; ///< its socket; empty: none. Not set: $DYNAMIX_AGENT
  double clip_norm = 0;                            ///< of the mean gradient; 0: not clipped
  std::function<void(const std::string&)> log = [](const std::string& line) {
    std::clog << "dynamix: " << line << '\n';
  };
};

/// How the members exchange tensors. `group_of` makes one of any c10d process group.
struct process_group {
  int rank = 0;
  int size = 1;
  std::function<void(torch::Tensor&)> all_reduce_sum = [](torch::Tensor&) {};
  /// In place, from member 0.
  std::function<void(torch::Tensor&)> broadcast = [](torch::Tensor&) {};
  /// The members' rows, one behind the other.
  std::function<torch::Tensor(const torch::Tensor&)> all_gather = [](const torch::Tensor& row) { return row; };
};

/// Of a pointer to a c10d process group or backend, which this header need not know.
template <class Pointer>
process_group group_of(Pointer group) {
  process_group made{group->getRank(), group->getSize(), {}, {}, {}};
  made.all_reduce_sum = [group](torch::Tensor& tensor) {
    std::vector<torch::Tensor> tensors{tensor};
    group->allreduce(tensors)->wait();
  };
  made.broadcast = [group](torch::Tensor& tensor) {
    std::vector<torch::Tensor> tensors{tensor};
    group->broadcast(tensors)->wait();
  };
  made.all_gather = [group](const torch::Tensor& row) {
    std::vector<torch::Tensor> rows{row};
    std::vector<std::vector<torch::Tensor>> gathered(1);
    for (int member = 0; member < group->getSize(); ++member)
      gathered[0].push_back(torch::empty_like(row));
    group->allgather(gathered, rows)->wait();
    return torch::cat(gathered[0]);
  };
  return made;
}

namespace detail {

template <class Struct>
Struct sized() {
  Struct made{};
  made.size = sizeof made;
  return made;
}

inline double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// What a run and its samplers share.
class session {
public:
  /// `update` is the optimiser's own step.
  session(std::vector<torch::Tensor> parameters, torch::optim::Optimizer& optimizer, std::function<void()> update,
          join_options options, process_group group)
      : parameters_(std::move(parameters)), optimizer_(optimizer), update_(std::move(update)),
        options_(std::move(options)), group_(std::move(group)) {
    auto opening = sized<dynamix_options>();
    opening.position = static_cast<std::uint32_t>(group_.rank);
    opening.members = static_cast<std::uint32_t>(group_.size);
    std::string path(4096, '\0');
    path.resize(std::min(dynamix_agent_path(options_.local_rank, path.data(), path.size()), path.size() - 1));
    const auto agent = options_.agent.value_or(path);
    opening.agent = agent.c_str();
    char problem[4096] = "";
    run_ = dynamix_open(&opening, problem, sizeof problem);
    if (run_ == nullptr)
      throw error(problem);
    try {
      begin();
    } catch (...) {
      dynamix_close(run_);
      throw;
    }
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  ~session() {
    leave();
    dynamix_close(run_);
  }

  dynamix_run* run() const { return run_; }
  const join_options& options() const { return options_; }
  const process_group& group() const { return group_; }

  void check(int code) const {
    if (code == DYNAMIX_ERROR)
      throw error(dynamix_error(run_));
  }

  void start_epoch() {
    check(dynamix_start_epoch(run_));
    batches_.start_epoch();
    restart_clock();
  }

  /// What comes before is no part of the next step's time: an evaluation, a checkpoint.
  void restart_clock() { step_end_ = now(); }

  std::optional<dynamix_deal> deal_next() {
    auto deal = sized<dynamix_deal>();
    const int code = dynamix_deal_next(run_, &deal);
    check(code);
    if (code != DYNAMIX_OK)
      return std::nullopt;
    batches_.dealt(deal.own);
    return deal;
  }

  /// The samples of the next step.
  std::optional<std::vector<std::size_t>> deal() {
    const auto dealt = deal_next();
    if (!dealt)
      return std::nullopt;
    std::vector<std::uint32_t> numbers(std::max(dealt->own, 1U));
    check(dynamix_samples(run_, numbers.data(), numbers.size()));
    return std::vector<std::size_t>(numbers.begin(), numbers.end());
  }

  /// Where the samples of the newest deal lie.
  std::vector<dynamix_range> ranges(std::uint32_t count) const {
    std::vector<dynamix_range> made(count);
    check(dynamix_ranges(run_, made.data(), made.size()));
    return made;
  }

  dynamix_status status() const {
    auto status = sized<dynamix_status>();
    check(dynamix_get_status(run_, &status));
    return status;
  }

  void deliver() {
    check(dynamix_deliver(run_, nullptr));
    batches_.taken();
  }

  void weight(double own) { told_weight_ = own; }

  /// Leaves the joined batch's mean gradient in the parameters.
  void average_gradients() {
    deliver();
    double own = 0;
    double total = 0;
    check(dynamix_weights(run_, &own, &total));
    torch::NoGradGuard no_gradient;
    if (told_weight_) {
      own = own > 0 ? *told_weight_ : 0; // else of a batch that does not count
      auto sum = torch::tensor({own}, torch::kFloat64);
      group_.all_reduce_sum(sum);
      total = sum.item<double>();
      check(dynamix_set_weights(run_, own, total));
    }
    const double repeats = told_weight_ ? 1 : batches_.repeats();
    const double factor = total > 0 ? own / total * repeats : 0;
    const double start = now();
    const auto due = dynamix_due(run_);
    const bool measures = (due & DYNAMIX_MEASURE) != 0;
    const bool needs_norm = measures || options_.clip_norm > 0;
    double own_square = 0;
    global_square_ = needs_norm ? 0 : -1;
    auto buckets = pack(parameters_, own > 0 || total <= 0);
    for (auto& each : buckets)
      if (measures)
        own_square += repeats * repeats * scale(each.values, factor);
      else
        multiply(each.values, factor);
    for (auto& each : buckets) {
      group_.all_reduce_sum(each.whole);
      if (needs_norm)
        global_square_ += squares(each.values);
    }
    for (auto& each : buckets)
      unpack(each);
    if ((due & DYNAMIX_GATHER) != 0) {
      auto row = torch::zeros({DYNAMIX_ROW_COLUMNS}, torch::kInt64);
      if (!std::isfinite(own_square))
        own_square = std::numeric_limits<double>::infinity();
      check(dynamix_write_row(run_, own_square, row.data_ptr<std::int64_t>()));
      const auto rows = group_.all_gather(row);
      check(dynamix_read_rows(run_, rows.data_ptr<std::int64_t>()));
    }
    exchange_seconds_ += now() - start;
    averaged_ = true;
  }

  void report(std::optional<double> loss, std::optional<double> correct) {
    loss_ = loss;
    correct_ = correct;
  }

  void step() {
    if (!averaged_)
      average_gradients();
    const double norm = global_square_ < 0 ? -1 : std::sqrt(global_square_);
    if (options_.clip_norm > 0 && norm > options_.clip_norm)
      for (auto& parameter : parameters_)
        if (parameter.grad().defined())
          parameter.mutable_grad().mul_(options_.clip_norm / norm);
    auto rate = sized<dynamix_step_rate>();
    check(dynamix_rate(run_, global_square_ < 0 ? 0 : global_square_, &rate));
    const double learning_rate = scaled_step(rate.factor);
    const double end = now();
    auto step = sized<dynamix_step>();
    step.iteration_seconds = end - step_end_;
    step.exchange_seconds = exchange_seconds_;
    step.compute_seconds = std::max(0.0, step.iteration_seconds - exchange_seconds_);
    step.loss = loss_.value_or(std::nan(""));
    step.correct = correct_.value_or(-1);
    step.gradient_norm = norm;
    step.learning_rate = learning_rate;
    check(dynamix_complete(run_, &step));
    step_end_ = end;
    exchange_seconds_ = 0;
    loss_.reset();
    correct_.reset();
    told_weight_.reset();
    averaged_ = false;
    batches_.start_step();
    tell();
  }

  void finish(const std::string& reason) {
    finished_ = true;
    try {
      auto member = torch::ones({1}, torch::kInt64);
      group_.all_reduce_sum(member);
    } catch (const std::exception& problem) {
      const std::string why = "another member has ended before the end of its training";
      check(dynamix_finish(run_, 0, why.c_str()));
      throw error(why + ": " + problem.what());
    }
    check(dynamix_finish(run_, 1, reason.c_str()));
    tell();
  }

  void tell() {
    while (const char* line = dynamix_next_notice(run_))
      if (options_.log)
        options_.log(line);
  }

private:
  /// The run is destroyed: its training is over if nothing is thrown and the loop has come to an epoch's end.
  void leave() noexcept {
    if (finished_)
      return;
    auto status = sized<dynamix_status>();
    const bool told = dynamix_get_status(run_, &status) == DYNAMIX_OK;
    const bool thrown = std::uncaught_exceptions() > exceptions_;
    try {
      if (!thrown && told && status.step > 0 && (status.cursor == 0 || status.stop != 0))
        return finish("epochs completed");
      dynamix_finish(run_, 0,
                     thrown ? "an exception has ended the training loop" : "the training loop has ended amid an epoch");
    } catch (const std::exception& problem) { // a destructor throws nothing
      if (options_.log)
        options_.log(problem.what());
    }
  }

  std::uint64_t samples() const {
    const auto& lengths = options_.shards.lengths;
    return lengths.empty() ? options_.samples : std::accumulate(lengths.begin(), lengths.end(), std::uint64_t{0});
  }

  void begin() {
    auto work = sized<dynamix_workload>();
    work.batch = options_.batch;
    work.samples = samples();
    if (!options_.shards.lengths.empty()) {
      const auto& lengths = options_.shards.lengths;
      work.lengths = lengths.data();
      work.shards = lengths.size();
      work.identity = options_.shards.identity;
      work.lanes = options_.readers;
    }
    work.seed = options_.seed;
    work.lowest_batch = options_.lowest_batch;
    work.highest_batch = options_.highest_batch;
    work.shuffle = options_.shuffle ? 1 : 0;
    work.drop_last = options_.drop_last ? 1 : 0;
    work.rule = static_cast<std::uint32_t>(options_.rule);
    work.noise_interval = options_.noise_interval;
    if (options_.balance)
      work.balance = *options_.balance ? DYNAMIX_BALANCE_ON : DYNAMIX_BALANCE_OFF;
    work.adaptive = dynamic_cast<torch::optim::SGD*>(&optimizer_) == nullptr ? 1 : 0;
    auto row = torch::zeros({DYNAMIX_INTRODUCTION_COLUMNS}, torch::kInt64);
    check(dynamix_introduce(run_, &work, row.data_ptr<std::int64_t>()));
    const auto rows = group_.all_gather(row);
    check(dynamix_begin(run_, rows.data_ptr<std::int64_t>()));
    torch::NoGradGuard no_gradient;
    for (auto& parameter : parameters_)
      group_.broadcast(parameter);
    tell();
  }

  static double scale(torch::Tensor& flat, double factor) {
    const auto count = static_cast<std::size_t>(flat.numel());
    if (flat.device().is_cpu() && flat.scalar_type() == torch::kFloat32)
      return dynamix_scale_f32(flat.data_ptr<float>(), count, factor);
    if (flat.device().is_cpu() && flat.scalar_type() == torch::kFloat64)
      return dynamix_scale_f64(flat.data_ptr<double>(), count, factor);
    const double square = factor == 0 ? 0 : squares(flat);
    multiply(flat, factor);
    return square;
  }

  static void multiply(torch::Tensor& flat, double factor) {
    if (factor == 0)
      flat.zero_(); // also where they are not numbers
    else
      flat.mul_(factor);
  }

  static double squares(const torch::Tensor& flat) {
    const auto count = static_cast<std::size_t>(flat.numel());
    if (flat.device().is_cpu() && flat.scalar_type() == torch::kFloat32)
      return dynamix_squares_f32(flat.data_ptr<float>(), count);
    if (flat.device().is_cpu() && flat.scalar_type() == torch::kFloat64)
      return dynamix_squares_f64(flat.data_ptr<double>(), count);
    const auto wide = flat.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
    const auto norm = flat.norm(2, wide).to(torch::kFloat64);
    return norm.square().template item<double>();
  }

  /// The optimiser's step at `factor` times its learning rates, which stay as the user or a schedule sets them.
  double scaled_step(double factor) {
    std::vector<double> rates;
    for (auto& group : optimizer_.param_groups()) {
      rates.push_back(group.options().get_lr());
      group.options().set_lr(rates.back() * factor);
    }
    update_();
    for (std::size_t i = 0; i < rates.size(); ++i)
      optimizer_.param_groups()[i].options().set_lr(rates[i]);
    return rates.empty() ? -1 : rates[0] * factor;
  }

  std::vector<torch::Tensor> parameters_;
  torch::optim::Optimizer& optimizer_;
  std::function<void()> update_;
  join_options options_;
  process_group group_;
  dynamix_run* run_ = nullptr;
  step_batches batches_{parameters_};
  std::optional<double> told_weight_; ///< of the step under way
  bool averaged_ = false;
  bool finished_ = false;
  int exceptions_ = std::uncaught_exceptions(); ///< on their way when the run was made
  std::optional<double> loss_;                  ///< of the step under way
  std::optional<double> correct_;
  double global_square_ = 0; ///< negative: not known
  double exchange_seconds_ = 0;
  double step_end_ = now();
};

} // namespace detail

/// Deals each member its samples: for torch::data::make_data_loader, whose batch size then does not count. A member
/// without samples in a step gets a batch of one, which does not count either.
class sampler : public torch::data::samplers::Sampler<> {
public:
  explicit sampler(std::shared_ptr<detail::session> of) : session_(std::move(of)) {}

  /// Begins an epoch; of the batches of the one before, what is left is given up.
  void reset(torch::optional<std::size_t> = torch::nullopt) override { session_->start_epoch(); }
  torch::optional<std::vector<std::size_t>> next(std::size_t) override {
    auto numbers = session_->deal();
    if (!numbers)
      return torch::nullopt;
    return std::move(*numbers);
  }
  /// A run saves and restores itself.
  void save(torch::serialize::OutputArchive&) const override {}
  void load(torch::serialize::InputArchive&) override {}

private:
  std::shared_ptr<detail::session> session_;
};

class run {
public:
  explicit run(std::shared_ptr<detail::session> of) : session_(std::move(of)) {}

  /// To be given to one data loader.
  dynamix::sampler sampler() const { return dynamix::sampler(session_); }

  /// The batch that the loop has now counts as part of the next step: for gradients that are accumulated over several
  /// batches, between two of them. Not behind the last of a step, which the step itself counts. One without samples
  /// counts for nothing, and the member's others for as much more: a loop may divide losses by the number of all.
  void accumulate() { session_->deliver(); }
  /// The loop over the data loader was left amid an epoch, on all members behind the same step: states that are saved
  /// from here on, and the end of the run, stand at the beginning of the next one.
  void leave_epoch() { session_->check(dynamix_leave_epoch(session_->run(), 0)); }
  /// The loss of this step is a mean over `own` items that are not samples; they count where the batch does.
  void weight(double own) { session_->weight(own); }
  /// Leaves the mean gradient over all members' samples in the parameters; `step` does it where nobody has.
  void average_gradients() { session_->average_gradients(); }
  /// What the next step reports: the mean loss over this member's samples, and their share that is right. Optional.
  void report(double loss, std::optional<double> correct = std::nullopt) { session_->report(loss, correct); }
  /// The step of an optimiser that is not joined<>, in place of its own.
  void step() { session_->step(); }

  /// The model was evaluated; on one member.
  void evaluated(double train_loss, double test_loss, double test_accuracy) {
    session_->check(dynamix_evaluated(session_->run(), train_loss, test_loss, test_accuracy));
    session_->restart_clock();
  }
  void limit_batch(std::uint32_t samples) { session_->check(dynamix_limit_batch(session_->run(), samples)); }
  dynamix_status status() const { return session_->status(); }
  /// For what deals otherwise than `sampler` (torch_stream.hpp).
  const std::shared_ptr<detail::session>& session() const { return session_; }

  /// The state behind the last completed step, for a checkpoint; the same on all members.
  std::vector<std::uint64_t> state() const {
    std::vector<std::uint64_t> words(dynamix_state_words(session_->run()));
    session_->check(dynamix_save(session_->run(), words.data(), words.size()));
    return words;
  }
  /// Before the first epoch, on all members.
  void restore(const std::vector<std::uint64_t>& words) {
    session_->check(dynamix_restore(session_->run(), words.data(), words.size()));
  }

  /// Training is over, on all members, which wait for each other. A run that is destroyed without this has finished if
  /// that is at an epoch's end and no exception is on its way, and has failed otherwise. Throws where another member
  /// has ended before it came here: this one's agent then waits for the group's next start.
  void finish(const std::string& reason = "epochs completed") { session_->finish(reason); }

private:
  std::shared_ptr<detail::session> session_;
};

/// An optimiser that has joined: its step averages the gradients of all members first, and is made at the rate of the
/// batch's rule. Schedulers and archives take it for the optimiser that it was made of.
template <class Optimizer>
class joined : public Optimizer {
  static_assert(!std::is_base_of_v<torch::optim::LBFGS, Optimizer>, "LBFGS evaluates a batch several times per step");

public:
  joined(std::vector<torch::Tensor> parameters, Optimizer&& of, join_options options, process_group group)
      : Optimizer(std::move(of)),
        run_(std::make_shared<detail::session>(
            std::move(parameters), *this, [this] { Optimizer::step(); }, std::move(options), std::move(group))) {}
  joined(const joined&) = delete;
  joined& operator=(const joined&) = delete;

  dynamix::run& run() { return run_; }

  /// With a closure, the loss that it returns is reported.
  torch::Tensor step(typename Optimizer::LossClosure closure = nullptr) override {
    torch::Tensor loss;
    if (closure) {
      const torch::AutoGradMode gradients(true);
      loss = closure();
      run_.report(loss.template item<double>());
    }
    run_.step();
    return loss;
  }

private:
  dynamix::run run_;
};

/// Joins the training of `group`'s members, whose parameters become those of member 0, and returns the optimiser, which
/// has joined. AdaScale takes optimisers other than SGD for Adam's kind.
template <class Optimizer>
joined<std::enable_if_t<std::is_base_of_v<torch::optim::Optimizer, Optimizer>, Optimizer>>
join(std::vector<torch::Tensor> parameters, Optimizer&& optimizer, join_options options, process_group group = {}) {
  return {std::move(parameters), std::move(optimizer), std::move(options), std::move(group)};
}

/// The same for an optimiser that is made elsewhere, and must outlive the run and its samplers: call the run's `step`
/// in place of the optimiser's.
inline run join(std::vector<torch::Tensor> parameters, torch::optim::Optimizer& optimizer, join_options options,
                process_group group = {}) {
  return run(std::make_shared<detail::session>(
      std::move(parameters), optimizer, [&optimizer] { optimizer.step(); }, std::move(options), std::move(group)));
}

} // namespace dynamix
