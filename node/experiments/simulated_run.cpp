#include "node/experiments/simulated_run.hpp"

#include "cluster/tree_plan.hpp"
#include "node/experiments/simulated_ledger.hpp"
#include "node/training/loaded_trainer.hpp"
#include "simulator/random_stream.hpp"
#include "storage/atomic_file.hpp"

#include <stdexcept>

namespace dynamix::node {

std::string note_of_decisions(const cluster::cluster_file& file) {
  return cluster::plan_tree(file).nodes.size() > 1
             ? "the cluster has a tree of arbitrators; a simulation decides as a single one that sees all workers"
             : "";
}

namespace {

std::string reason_of(const simulator::run_result& result, bool stopped) {
  if (!result.failure.empty())
    return result.failure;
  if (stopped)
    return "stopped";
  return result.seconds_to_target >= 0 ? "target accuracy reached" : "epochs completed";
}

run_summary summarise(const cluster::cluster_file& file, const simulator::simulation& run, const run_recorder& recorder,
                      const ledger::decision_summary& counted, const std::string& reason) {
  const auto result = run.result();
  run_summary summary{.cluster = file.name,
                      .policy = std::string(cluster::to_string(file.arbitrator.policy)),
                      .mode = std::string(cluster::to_string(file.arbitrator.mode)),
                      .seed = file.seed,
                      .succeeded = run.done() && result.failure.empty(),
                      .reason = reason,
                      .wall_seconds = result.seconds,
                      .steps = result.steps,
                      .samples = result.samples,
                      .epochs = static_cast<std::uint64_t>(run.world().epochs()),
                      .final_accuracy = result.final_accuracy,
                      .target_accuracy = file.training.target_accuracy,
                      .seconds_to_target = result.seconds_to_target,
                      .decisions = counted,
                      .generations = run.world().generation(),
                      .workers = recorder.workers()};
  summary.decisions.made = result.decisions;
  summary.decisions.windows = recorder.outcome().windows;
  summary.decisions.interventions = result.interventions;
  summary.policy_version = run.window().policy_version;
  return summary;
}

} // namespace

std::optional<cluster::file_error> load_parameters(const cluster::cluster_file& file,
                                                   std::vector<std::uint8_t>& parameters) {
  constexpr const char* field = "arbitrator.policy_file";
  parameters.clear();
  if (auto refused = refuse_learning(file))
    return refused;
  const auto path = cluster::resolve_path(file, file.arbitrator.policy_file);
  if (path.empty() || !cluster::has_parameters(file.arbitrator.policy))
    return std::nullopt;
  std::string contents;
  if (const auto problem = storage::read_file(path, messages::max_policy_bytes, contents); !problem.empty())
    return cluster::error_at(file, field, problem);
  parameters.assign(contents.begin(), contents.end());
  try {
    policy::make_controller(file, parameters);
  } catch (const std::invalid_argument& misfit) {
    return cluster::error_at(file, field, path + ": " + misfit.what());
  }
  return std::nullopt;
}

simulated_run simulate(const simulation_options& options) {
  const auto& file = options.scenario.file;
  simulator::simulation run(options.scenario, options.parameters, file.seed);
  const auto learner = make_learner(file, options.parameters);
  run_recorder recorder(file);
  ledger::decision_summary counted;
  std::optional<simulated_ledger> ledger;
  if (options.ledger != nullptr)
    ledger.emplace(*options.ledger, file, options.scenario.workload.epoch_samples, options.parameters, options.archive);
  while (!options.stop.stop_requested() && run.advance()) {
    recorder.add(run.window());
    counted.moves += policy::moves_in(run.window());
    recorder.add_accuracy(run.world().now_seconds(), run.world().accuracy());
    if (ledger)
      ledger->add(run);
    if (const auto rollout = run.take_rollout(); learner && !rollout.empty()) {
      const auto version = learner->update(rollout);
      if (const auto refused = run.adopt(version); !refused.empty())
        throw std::logic_error("a simulated policy refused its learner's version: " + refused);
      if (ledger)
        ledger->add(version, run.world().now_seconds());
    }
    options.after_window(run);
  }

  const auto result = run.result();
  simulated_run made{.outcome = recorder.outcome(), .summary = {}, .stopped = !run.done()};
  const auto reason = reason_of(result, made.stopped);
  made.summary = summarise(file, run, recorder, counted, reason);
  if (ledger)
    ledger->finish(run, reason);
  auto& outcome = made.outcome;
  outcome.policy = made.summary.policy;
  outcome.static_batch = file.arbitrator.policy == cluster::policy_kind::static_best ? file.arbitrator.static_batch : 0;
  outcome.seed = file.seed;
  outcome.failure = result.failure;
  outcome.seconds = result.seconds;
  outcome.seconds_to_target = result.seconds_to_target;
  outcome.final_accuracy = result.final_accuracy;
  outcome.samples = result.samples;
  if (learner)
    made.learned = learner->save();
  return made;
}

simulated_run simulate_episodes(simulation_options options, std::uint32_t episodes) {
  auto& seed = options.scenario.file.seed;
  const auto first_seed = seed;
  auto made = simulate(options);
  std::vector<double> rewards = {made.outcome.reward};
  for (std::uint32_t episode = 1; episode < episodes && !made.stopped; ++episode) {
    seed = simulator::random_stream(first_seed, 0, episode).next();
    options.parameters = std::move(made.learned);
    made = simulate(options);
    rewards.push_back(made.outcome.reward);
  }
  made.outcome.seed = made.summary.seed = first_seed;
  if (episodes > 1)
    made.outcome.episode_rewards = std::move(rewards);
  return made;
}

} // namespace dynamix::node
