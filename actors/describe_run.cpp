#include "actors/describe_run.hpp"

#include "policy/controller.hpp"
#include "policy/state.hpp"
#include "telemetry/trace_file.hpp"

#include <spdlog/fmt/chrono.h>

#include <ctime>

namespace dynamix::actors {
namespace {

std::uint64_t epoch_samples(cluster::dataset_kind kind) {
  return kind == cluster::dataset_kind::fashion_mnist ? 60'000 : 50'000;
}

} // namespace

ledger_start describe_run(const host_options& options, const std::vector<std::uint8_t>& parameters,
                          double origin_seconds) {
  const auto& file = options.file;
  ledger_start start{.cluster = file.name,
                     .policy = policy::make_controller(file, parameters)->name(),
                     .mode = file.arbitrator.mode == cluster::policy_mode::train ? "train" : "infer",
                     .seed = file.seed,
                     .window_steps = file.arbitrator.window_steps,
                     .dataset_samples = epoch_samples(file.training.dataset),
                     .epochs = file.training.epochs,
                     .target_accuracy = file.training.target_accuracy,
                     .workers = {},
                     .state_fields = {},
                     .actions = file.arbitrator.actions,
                     .scales = file.arbitrator.scales,
                     .started_at = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr))),
                     .version = options.version,
                     .origin_seconds = origin_seconds,
                     .clock = dynamix::telemetry::clock_identity()};
  for (const auto* worker : file.workers())
    start.workers.push_back(worker->name);
  for (const auto& field : policy::state_fields())
    start.state_fields.emplace_back(field.name);
  return start;
}

} // namespace dynamix::actors
