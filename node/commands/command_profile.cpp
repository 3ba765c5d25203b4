#include "cluster/text_table.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/launch/live_output.hpp"
#include "node/reports/commit.hpp"
#include "node/reports/text.hpp"
#include "node/training/loaded_trainer.hpp"
#include "simulator/device_profile.hpp"
#include "storage/atomic_file.hpp"

#include <nlohmann/json.hpp>

#include <ctime>
#include <filesystem>
#include <fmt/chrono.h>
#include <fstream>
#include <memory>
#include <ostream>
#include <thread>

namespace dynamix::node {
namespace {

struct profile_arguments {
  std::string cluster;
  std::string model;
  std::string threads;
  std::vector<std::string> set;
  std::vector<std::uint32_t> batches = {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024};
  double seconds = 1;
  std::string out;
  bool json = false;
};

/// A training section needs a whole file around it to be checked.
constexpr const char* default_file = R"([cluster]
name = "profile"
[[host]]
name = "here"
port = 7400
roles = ["worker", "arbitrator"]
)";

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

/// The value of the first line "KEY : VALUE" of a file of /proc; empty without one.
std::string first_value(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos)
      continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

/// What this machine's processor, or its first NVIDIA device, calls itself; "unknown processor" where nothing says.
std::string machine_name(bool cuda) {
  std::string name;
  std::error_code none;
  if (cuda)
    for (const auto& device : std::filesystem::directory_iterator("/proc/driver/nvidia/gpus", none))
      if (name.empty())
        name = first_value(device.path() / "information", "Model");
  if (!cuda)
    name = first_value("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown processor" : name;
}

simulator::device_profile profile_of(const cluster::cluster_file& file,
                                     const trainer::step_time_measurement& measured) {
  const auto& training = file.training;
  const std::string model(cluster::to_string(cluster::model_kind(training.model)));
  simulator::device_profile profile{.name = model + (measured.cuda ? "-cuda" : "-cpu"),
                                    .batch_highest = measured.batch_highest,
                                    .evaluation_seconds = measured.evaluation_seconds};
  profile.source = fmt::format("{} on {}, measured on {} by dynamix-node {} ({}) on {}, {} cores, of which {} used",
                               model, cluster::to_string(training.dataset), today(), DYNAMIX_VERSION, commit(),
                               machine_name(measured.cuda), std::thread::hardware_concurrency(), training.threads);
  for (const auto& step : measured.steps)
    profile.points.push_back({static_cast<double>(step.batch), step.seconds});
  return profile;
}

std::string table_of(const trainer::step_time_measurement& measured) {
  std::vector<std::vector<std::string>> rows = {{"batch", "ms per step", "samples/s", "steps measured"}};
  for (const auto& step : measured.steps)
    rows.push_back({std::to_string(step.batch), fixed(1000 * step.seconds, 3), fixed(step.batch / step.seconds, 0),
                    std::to_string(step.steps)});
  return cluster::text_table(rows);
}

std::string json_of(const trainer::step_time_measurement& measured) {
  auto rows = nlohmann::ordered_json::array();
  for (const auto& step : measured.steps)
    rows.push_back({{"batch", step.batch},
                    {"milliseconds", 1000 * step.seconds},
                    {"samples_per_second", step.batch / step.seconds},
                    {"steps", step.steps}});
  return rows.dump(2) + "\n";
}

/// The file to measure under, or nothing after its errors have been written.
std::optional<cluster::cluster_file> file_for(const profile_arguments& arguments, std::ostream& err) {
  const auto changes = changes_of(arguments.set, {{"--model", "training.model", arguments.model},
                                                  {"--threads", "training.threads", arguments.threads}});
  if (!arguments.cluster.empty())
    return load_cluster_file(arguments.cluster, err, changes);
  auto file = cluster::parse_cluster_text(default_file, "").file;
  if (!change_cluster_file(file, changes, err))
    return std::nullopt;
  return file;
}

int measure_profile(const profile_arguments& arguments, command_context& context) {
  auto file = file_for(arguments, context.err);
  if (!file)
    return exit_refused;
  cluster::make_paths_absolute(*file);
  const auto& loaded = own_trainer();
  if (loaded.module == nullptr)
    return refuse(context.err, loaded.problem);
  trainer::steady_clock time;
  trainer::step_time_measurement measured;
  {
    live_output live(arguments.json ? context.err : context.out, output_style::detect());
    measured = loaded.module->measure_step_times({.training = file->training,
                                                  .seed = file->seed,
                                                  .batches = arguments.batches,
                                                  .seconds_per_batch = arguments.seconds},
                                                 time, [&](const std::string& line) { live.progress(line); });
  }
  if (!measured.problem.empty())
    return fail(context.err, measured.problem);
  context.out << (arguments.json ? json_of(measured)
                                 : table_of(measured) + "an evaluation takes " +
                                       fixed(1e6 * measured.evaluation_seconds, 1) + " us per sample\n");
  if (measured.batch_highest > 0)
    context.err << "beyond batch " << measured.batch_highest << " the memory ends\n";
  if (arguments.out.empty())
    return exit_done;
  const auto problem = storage::write_output(arguments.out, to_toml(profile_of(*file, measured)));
  if (!problem.empty())
    return fail(context.err, problem);
  if (!arguments.json)
    context.out << "profile: " << arguments.out << "\n";
  return exit_done;
}

} // namespace

void add_profile(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<profile_arguments>();
  auto* command =
      app.add_subcommand("profile", "Measure this machine's step time at each batch size, as a device profile");
  command->add_option("--cluster", arguments->cluster, "Cluster file whose training section is measured");
  command->add_option("--model", arguments->model, "Overrides the file's training.model: NAME or script:FILE");
  command->add_option("--threads", arguments->threads, "Overrides the file's training.threads");
  add_set(*command, arguments->set);
  command->add_option("--batches", arguments->batches, "Batch sizes, separated by commas (default: 1 to 1024)")
      ->delimiter(',')
      ->check(CLI::Range(1, 1'048'576));
  command->add_option("--seconds", arguments->seconds, "Seconds spent on each batch size")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  command->add_option("--out", arguments->out, "Device profile to write");
  command->add_flag("--json", arguments->json, "Print the table as JSON");
  add_work(*command, context, arguments, measure_profile);
}

} // namespace dynamix::node
