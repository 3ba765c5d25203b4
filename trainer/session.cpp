#include "trainer/session.hpp"

#include "cluster/decision_steps.hpp"
#include "storage/atomic_file.hpp"
#include "trainer/checkpoint_files.hpp"
#include "trainer/compute_device.hpp"
#include "trainer/compute_threads.hpp"
#include "trainer/exchange.hpp"
#include "trainer/model.hpp"
#include "trainer/training_loop.hpp"

#include <torch/torch.h>

namespace dynamix::trainer {

namespace {

preflight_problem load_data(const cluster::training& options, dataset& train, dataset& test) {
  if (auto problem = check_device(options.device); !problem.empty())
    return {"training.device", problem};
  if (auto problem = check_model_fits(options); !problem.empty())
    return {"training.model", problem};
  auto problem = load_dataset(options.dataset, options.data_path, dataset_split::train, train);
  if (problem.empty())
    problem = load_dataset(options.dataset, options.data_path, dataset_split::test, test);
  return {"training.data_path", problem};
}

loop_options options_for(const session_options& options) {
  const auto& file = *options.file;
  return {.training = file.training,
          .batch = file.batch,
          .window_steps = file.arbitrator.window_steps,
          .settle_steps = cluster::settle_steps(file.arbitrator.window_steps),
          .seed = file.seed,
          .emulate = options.host->emulate,
          .checkpoint_directory = options.checkpoint_directory,
          .device = device_for(file.training.device)};
}

/// All workers start from rank 0's state, be it a checkpoint or a fresh model: the same bytes, read the same way.
/// Returns an empty string, or what is wrong on every rank.
std::string agree_on_start(const std::string& resume_from, exchange& peers, training_loop& loop) {
  std::string problem;
  std::vector<std::uint8_t> bytes;
  if (peers.rank() == 0 && resume_from.empty()) {
    bytes = encode(loop.capture());
  } else if (peers.rank() == 0) {
    std::string contents;
    problem = storage::read_file(resume_from, checkpoint_bytes_max, contents);
    if (problem.empty())
      bytes.assign(contents.begin(), contents.end());
  }
  broadcast_bytes(peers, bytes);
  if (!problem.empty())
    return problem;
  if (bytes.empty())
    return "rank 0 cannot read the checkpoint to resume from";
  checkpoint state;
  problem = decode(bytes, state);
  if (problem.empty())
    problem = loop.restore(state);
  if (!problem.empty())
    return (resume_from.empty() ? "rank 0's checkpoint" : resume_from) + " cannot be resumed from: " + problem;
  return {};
}

outcome failed(const std::string& reason) {
  outcome result;
  result.reason = reason;
  return result;
}

/// The parameters are those of the last completed step: the optimiser runs only after the whole reduction.
outcome give_up(const training_loop& loop, const session_options& options, const std::string& why, observer& observer) {
  auto result = loop.progress();
  result.reason = why;
  checkpoint_files files(options.checkpoint_directory);
  if (!files.enabled()) {
    result.reason += "; no checkpoint, since there is no directory for them";
    return result;
  }
  const auto path = files.write_for_host(loop.capture(), options.host->name);
  if (path.empty()) {
    result.reason += "; " + files.problem();
    return result;
  }
  result.checkpoint = path;
  result.reason += "; checkpoint " + path + " written";
  observer.checkpoint_written(path, result.steps);
  return result;
}

outcome run_session(const session_options& options, const membership& place, store& store, clock& clock,
                    decision_slot& decisions, observer& observer) {
  const auto& training = options.file->training;
  set_compute_threads(static_cast<int>(training.threads));
  dataset train_data;
  dataset test_data;
  if (const auto problem = load_data(training, train_data, test_data).message; !problem.empty())
    return failed(problem);
  auto model = build_model(options_of(training, options.file->seed));
  auto loop_options = options_for(options);
  model->to(loop_options.device);

  auto peers = join_exchange(place, store, clock);
  training_loop loop(std::move(loop_options), model, train_data, test_data, *peers, clock, decisions, observer);
  std::string why;
  try {
    if (auto problem = agree_on_start(options.resume_from, *peers, loop); !problem.empty()) {
      peers->leave();
      return failed(problem);
    }
    auto result = loop.run();
    peers->leave();
    return result;
  } catch (const exchange_error& error) {
    why = "lost contact with a worker during step " + std::to_string(loop.step()) + ": " + error.what();
  } catch (const std::exception& error) {
    why = "step " + std::to_string(loop.step()) + " failed: " + error.what();
  }
  // Closing the connections first tells the peers that still wait for this worker.
  peers.reset();
  return give_up(loop, options, why, observer);
}

} // namespace

preflight_problem preflight(const cluster::training& options) {
  dataset train;
  dataset test;
  return load_data(options, train, test);
}

outcome train(const session_options& options, const membership& place, store& store, clock& clock,
              decision_slot& decisions, observer& observer) {
  try {
    return run_session(options, place, store, clock, decisions, observer);
  } catch (const c10::Error& error) {
    return failed(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

} // namespace dynamix::trainer
