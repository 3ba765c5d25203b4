#include "trainer/session.hpp"

#include "cluster/places.hpp"
#include "exchange/compression.hpp"
#include "exchange/group.hpp"
#include "session/step_settings.hpp"
#include "storage/atomic_file.hpp"
#include "telemetry/cgroup_limits.hpp"
#include "trainer/compute_device.hpp"
#include "trainer/compute_threads.hpp"
#include "trainer/memory_limit.hpp"
#include "trainer/model.hpp"
#include "trainer/script_model.hpp"
#include "trainer/state_transfer.hpp"
#include "trainer/tensor_records.hpp"
#include "trainer/training_loop.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <fmt/core.h>
#include <unistd.h>

namespace dynamix::trainer {

namespace {

/// The script's path as the file means it.
model_options model_of(const cluster::cluster_file& file) {
  auto options = options_of(file.training, file.seed);
  options.script = cluster::resolve_path(file, options.script);
  return options;
}

/// `gpus`: of the host that computes, where it is known.
preflight_problem load_data(const cluster::cluster_file& file, dataset& train, dataset& test,
                            std::span<const std::int32_t> gpus = {}) {
  const auto& options = file.training;
  if (auto problem = check_device(options.device, gpus); !problem.empty())
    return {"training.device", problem};
  if (auto problem = check_model_fits(options); !problem.empty())
    return {"training.model", problem};
  if (options.model == cluster::model_kind::script)
    if (auto problem = check_script(model_of(file)); !problem.empty())
      return {"training.model", problem};
  auto problem = load_dataset(options, dataset_split::train, train);
  if (problem.empty())
    problem = load_dataset(options, dataset_split::test, test);
  return {"training.data_path", problem};
}

std::uint64_t memory_limit_of(const cluster::training& training) {
  return training.memory_mb > 0 ? std::uint64_t{training.memory_mb} << 20U
                                : telemetry::read_limits(telemetry::find_cgroups_of(::getpid())).memory_bytes;
}

loop_options options_for(const session_options& options) {
  const auto& file = *options.file;
  return {.training = file.training,
          .batch = file.batch,
          .highest_by_rank = file.highest_by_rank(),
          .base_workers = cluster::base_workers(file),
          .first_batch = file.first_batch(),
          .window_steps = file.arbitrator.window_steps,
          .balances = dynamix::session::balancing_of(file),
          .seed = file.seed,
          .emulate = options.host->emulate,
          .checkpoint_directory = options.checkpoint_directory,
          .keep_checkpoints = file.run.keep_checkpoints,
          .write_file = options.write_file,
          .device = device_for(file.training.device, options.host->gpus)};
}

/// Returns an empty string, or what makes no sense about a place among `workers` workers.
std::string check_place(const membership& place, std::size_t workers) {
  if (!std::ranges::binary_search(place.members, place.rank) ||
      !std::ranges::binary_search(place.members, place.source))
    return "this worker or the source is not a member of generation " + std::to_string(place.generation);
  if (std::ranges::adjacent_find(place.members, std::ranges::greater_equal{}) != place.members.end() ||
      place.members.back() >= workers)
    return "the members of generation " + std::to_string(place.generation) + " are not ascending ranks of " +
           std::to_string(workers) + " workers";
  return {};
}

} // namespace

preflight_problem preflight(const cluster::cluster_file& file) {
  dataset train;
  dataset test;
  if (auto problem = load_data(file, train, test); !problem.message.empty())
    return problem;
  return {};
}

struct session::body {
  body(session_options given, clock& clock) : options(std::move(given)), time(clock) {
    set_compute_threads(static_cast<int>(options.file->training.threads));
    limit_tensor_memory(memory_limit_of(options.file->training));
    problem = load_data(*options.file, train_data, test_data, options.host->gpus).message;
    auto model_options = model_of(*options.file);
    if (problem.empty() && !model_options.script.empty())
      problem = digest_script(model_options.script, script_digest);
    if (!problem.empty())
      return;
    model_options.images = train_data; // of some data sets only the files know it
    auto model = build_model(model_options);
    auto loop_options = options_for(options);
    model->to(loop_options.device);
    state = std::make_unique<training_state>(std::move(loop_options), std::move(model), train_data, test_data, time);
  }

  /// Files of which the cluster file holds only the path are the same on all members, or nobody trains. Returns an
  /// empty string, or what differs.
  std::string agree_on_files(const membership& place, exchange::group& peers) const {
    if (script_digest == 0 && train_data.digest == 0)
      return {};
    const std::array<std::int64_t, 2> own = {static_cast<std::int64_t>(script_digest),
                                             static_cast<std::int64_t>(train_data.digest)};
    const auto rows = peers.all_gather(own)->wait();
    const bool text = options.file->training.dataset == cluster::dataset_kind::text;
    const std::array<const char*, 2> names = {"model file", text ? "text" : "rating file"};
    for (std::size_t i = 0; i < rows.size(); ++i)
      if (rows[i] != rows[i % own.size()])
        return fmt::format("the {} of rank {} (digest {:016x}) is not that of rank {} (digest {:016x})",
                           names[i % own.size()], place.members[i / own.size()], static_cast<std::uint64_t>(rows[i]),
                           place.members[0], static_cast<std::uint64_t>(rows[i % own.size()]));
    return {};
  }

  /// The source's state may be in memory, in a checkpoint or a fresh model. Returns an empty string, or what is wrong
  /// on every member.
  std::string agree_on_start(const membership& place, exchange::group& peers) {
    std::string unreadable;
    std::vector<std::uint8_t> bytes;
    const bool resumes = !known && !options.resume_from.empty();
    if (place.rank == place.source && resumes) {
      std::string contents;
      unreadable = storage::read_file(options.resume_from, checkpoint_bytes_max, contents);
      if (unreadable.empty())
        bytes.assign(contents.begin(), contents.end());
    } else if (place.rank == place.source) {
      bytes = encode(state->capture());
    }
    auto wrong = take_state_of_source(*state, place, peers, bytes);
    known = wrong.empty();
    if (!unreadable.empty())
      return unreadable;
    if (!known)
      return wrong + (place.rank == place.source && resumes ? " (" + options.resume_from + ")" : "");
    return {};
  }

  generation_end run(const membership& place, exchange::store& rendezvous, decision_slot& decisions, observer& watcher,
                     exchange::interruption& stop) {
    std::unique_ptr<exchange::group> peers;
    if (!train_data.left_out.empty())
      watcher.data_left_out(std::exchange(train_data.left_out, {}));
    try {
      const auto& training = options.file->training;
      exchange::summing_plan plan;
      const auto told = [&watcher](const std::string& what) { watcher.exchange_chosen(what); };
      peers = exchange::compress(exchange::join(place, rendezvous, stop, training.exchange, &plan, told),
                                 training.compression, compression, told);
      if (!plan.link_rates.empty())
        watcher.exchange_planned(plan);
      auto wrong = agree_on_files(place, *peers);
      if (wrong.empty())
        wrong = agree_on_start(place, *peers);
      if (!wrong.empty()) {
        peers->leave(static_cast<std::uint64_t>(ending::failed));
        return {ending::failed, wrong};
      }
      auto end = training_loop(*state, place, *peers, decisions, watcher, stop).run();
      peers->leave(static_cast<std::uint64_t>(end.how));
      if (compression.sums > 0)
        watcher.compressed(compression);
      return end;
    } catch (const exchange::error& error) {
      if (stop.raised())
        return {ending::lost, stop.reason()};
      if (!peers)
        return {ending::lost, error.what()};
      return {ending::lost,
              "lost contact with a worker during step " + std::to_string(state->reached.step) + ": " + error.what()};
    } catch (const c10::Error& error) {
      return {ending::failed,
              "step " + std::to_string(state->reached.step) + " failed: " + error.what_without_backtrace()};
    } catch (const std::exception& error) {
      return {ending::failed, "step " + std::to_string(state->reached.step) + " failed: " + error.what()};
    }
  }

  outcome outcome_of(generation_end end) const {
    outcome result{.how = end.how, .reason = std::move(end.reason)};
    if (!known)
      return result;
    result.steps = state->reached.step;
    result.attempted_steps = state->reached.step + (state->step_in_flight ? 1 : 0);
    result.samples = state->reached.samples;
    result.epochs = state->reached.position.epoch;
    result.wall_seconds = state->elapsed_seconds();
    result.final_accuracy = state->accuracy;
    result.seconds_to_target = state->seconds_to_target;
    result.parameter_checksum = model_checksum(*state->model);
    result.checkpoint = state->checkpoints.newest();
    return result;
  }

  session_options options;
  clock& time;
  dataset train_data;
  dataset test_data;
  std::uint64_t script_digest = 0;       ///< 0: the model is built in
  std::unique_ptr<training_state> state; ///< null when `problem` says why
  std::string problem;
  bool known = false; ///< the state is the run's, not just a fresh model
  exchange::compression_counts compression;
};

namespace {

/// Whatever `action` throws, as the text for a person; otherwise an empty one.
template <typename Action>
std::string problem_of(Action&& action) {
  try {
    action();
    return {};
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    return *error.what() != 0 ? error.what() : "an exception without a text";
  }
}

/// What a host does that only serves: the workers say when it is over, and how.
outcome serve(const cluster::cluster_file& file, const membership& place, exchange::store& rendezvous,
              observer& watcher, exchange::interruption& stop) {
  outcome result{.how = ending::lost};
  std::uint64_t word = 0;
  const auto unexpected = problem_of([&] {
    word = exchange::serve(place, rendezvous, stop, file.training.exchange, [&](const auto& plan) {
      if (!plan.link_rates.empty())
        watcher.exchange_planned(plan);
      watcher.started();
    });
  });
  if (!unexpected.empty()) {
    result.reason = stop.raised() ? stop.reason() : unexpected;
    return result;
  }
  result.how = static_cast<ending>(std::min(word, static_cast<std::uint64_t>(ending::failed)));
  result.reason = result.how == ending::regrouped ? "regrouping"
                  : result.how == ending::failed  ? "the workers cannot train"
                                                  : "the workers have ended training";
  return result;
}

} // namespace

session::session(session_options options, clock& time) {
  if (options.host->only_serves()) {
    served_ = options.file;
    return;
  }
  const auto unexpected = problem_of([&] { body_ = std::make_unique<body>(std::move(options), time); });
  if (!unexpected.empty())
    problem_ = unexpected;
  else
    problem_ = body_->problem;
}

session::~session() = default;

outcome session::train(const membership& place, exchange::store& rendezvous, decision_slot& decisions,
                       observer& watcher, exchange::interruption& stop) {
  outcome result{.how = ending::failed, .reason = problem_};
  if (!problem_.empty())
    return result;
  if (served_ != nullptr)
    return serve(*served_, place, rendezvous, watcher, stop);
  const auto unexpected = problem_of([&] {
    set_compute_threads(static_cast<int>(body_->options.file->training.threads));
    decisions.enter_generation(place.generation);
    body_->state->step_in_flight = false;
    auto wrong = check_place(place, body_->state->options.highest_by_rank.size());
    auto end = wrong.empty() ? body_->run(place, rendezvous, decisions, watcher, stop)
                             : generation_end{ending::failed, std::move(wrong)};
    result = body_->outcome_of(std::move(end));
  });
  if (!unexpected.empty())
    result = {.how = ending::failed, .reason = unexpected};
  return result;
}

std::uint64_t session::steps() const {
  return problem_.empty() && body_ && body_->known ? body_->state->reached.step : 0;
}

saved_checkpoint session::save() {
  saved_checkpoint saved{.path = {}, .problem = problem_};
  if (!problem_.empty())
    return saved;
  if (!body_) {
    saved.problem = "a host that only serves has no state to write";
    return saved;
  }
  auto& files = body_->state->checkpoints;
  if (!body_->known)
    saved.problem = "there is no state to write";
  else if (!files.enabled())
    saved.problem = "there is no directory for checkpoints";
  else
    saved.problem =
        problem_of([&] { saved.path = files.write_for_host(body_->state->capture(), body_->options.host->name); });
  if (saved.path.empty() && saved.problem.empty())
    saved.problem = files.problem();
  return saved;
}

} // namespace dynamix::trainer
