#include "actors/host/describe_run.hpp"

#include "actors/arbitrator/deciding_rows.hpp"
#include "policy/controller.hpp"
#include "telemetry/trace_file.hpp"
#include "trainer/dataset.hpp"

#include <spdlog/fmt/chrono.h>

#include <ctime>

namespace dynamix::actors {
namespace {

/// As many as the whole training split has where this host has no data; 0: only the workers know.
std::uint64_t epoch_samples(const cluster::training& training) {
  if (training.trainer == cluster::trainer_kind::client)
    return 0;
  if (const auto here = trainer::count_training_samples(training); here > 0)
    return here;
  switch (training.dataset) {
  case cluster::dataset_kind::fashion_mnist:
  case cluster::dataset_kind::fashion_mnist_32:
    return 60'000;
  case cluster::dataset_kind::text:
  case cluster::dataset_kind::movielens:
    return 0;
  default:
    return 50'000;
  }
}

std::string gradients_of(const host_options& options) {
  const auto& file = *options.file;
  if (file.training.trainer == cluster::trainer_kind::client || file.members().size() < 2 || !options.stand_ins.empty())
    return ""; // a swarm's workers only report
  return options.keys.empty() ? "without keys" : std::string(cluster::to_string(file.security.data));
}

} // namespace

ledger::start describe_run(const host_options& options, const std::vector<std::uint8_t>& parameters,
                           double origin_seconds) {
  const auto& file = *options.file;
  auto start = describe_file(file);
  start.policy = policy::make_controller(file, parameters)->name();
  start.dataset_samples = epoch_samples(file.training);
  start.started_at = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  start.version = options.version;
  start.origin_seconds = origin_seconds;
  start.clock = dynamix::telemetry::clock_identity();
  start.gradients = gradients_of(options);
  return start;
}

} // namespace dynamix::actors
