#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/experiments/compared_policies.hpp"
#include "node/experiments/experiment.hpp"
#include "node/launch/run_directory.hpp"
#include "node/launch/shipped_files.hpp"
#include "node/launch/stop_signals.hpp"
#include "node/reports/text.hpp"
#include "storage/atomic_file.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

namespace fs = std::filesystem;

struct experiment_arguments {
  std::string name; ///< of a shipped one, or a path; empty: list them
  std::string scale = "cpu";
  std::string data;
  std::string data_path;
  std::uint32_t seeds = 0; ///< 0: as each part says
  std::string out;
  compare_arguments shared; ///< --jobs, --set, --insecure, --quiet
};

/// Those that come with the program, by name.
std::vector<fs::path> shipped_experiments() {
  std::vector<fs::path> found;
  const auto directory = find_shipped("experiments");
  if (directory.empty())
    return found;
  for (const auto& entry : fs::directory_iterator(directory))
    if (fs::exists(entry.path() / "experiment.toml"))
      found.push_back(entry.path() / "experiment.toml");
  std::ranges::sort(found);
  return found;
}

std::string name_of(const fs::path& file) {
  return fs::absolute(file).parent_path().filename().string();
}

int list_experiments(command_context& context) {
  for (const auto& path : shipped_experiments()) {
    const auto read = read_experiment(path);
    for (const auto& error : read.errors)
      refuse_at(context.err, error);
    context.out << fmt::format("{:24}{:>7}  {}\n", name_of(path),
                               read.of.minutes == 0 ? "unknown" : fmt::format("{} min", read.of.minutes),
                               read.of.title);
  }
  return exit_done;
}

/// The file that a name or path means; empty after the error has been written.
std::string find_experiment(const std::string& name, std::ostream& err) {
  if (fs::is_regular_file(name))
    return name;
  if (fs::is_regular_file(fs::path(name) / "experiment.toml"))
    return (fs::path(name) / "experiment.toml").string();
  if (const auto shipped = find_shipped("experiments/" + name + "/experiment.toml"); !shipped.empty())
    return shipped;
  std::vector<std::string> names;
  for (const auto& path : shipped_experiments())
    names.push_back(name_of(path));
  const std::vector<std::string_view> views(names.begin(), names.end());
  refuse(err, fmt::format("\"{}\" is not an experiment and no file; {}`dynamix-node experiment` lists them", name,
                          settings::suggestion(name, views)));
  return "";
}

/// What `compare` would be asked for.
compare_arguments arguments_of(const experiment& of, const experiment_part& part, const experiment_arguments& given) {
  compare_arguments made = given.shared;
  made.policies = part.policies;
  made.seeds = given.seeds == 0 ? part.seeds : given.seeds;
  made.simulate = part.simulate;
  made.episodes = part.episodes;
  made.out = given.out + "/" + part.name;
  made.set = part.set;
  for (const auto& cluster : part.clusters)
    made.clusters.push_back((fs::path(of.path).parent_path() / cluster).lexically_normal().string());
  if (!part.simulate) {
    if (given.scale == "gpu")
      made.set.insert(made.set.end(), of.gpu.begin(), of.gpu.end());
    if (!given.data.empty())
      made.set.push_back("training.dataset=" + given.data);
    if (!given.data_path.empty())
      made.set.push_back("training.data_path=" + given.data_path);
  }
  made.set.insert(made.set.end(), given.shared.set.begin(), given.shared.set.end());
  return made;
}

int finish(const experiment& of, const std::vector<part_tables>& tables, const std::string& out, live_output& live,
           command_context& context) {
  require_written(storage::write_file_atomically(out + "/experiment.md", to_markdown(of, tables, context.command)));
  const auto page = to_page(of, tables, context.command);
  if (!page.empty())
    require_written(storage::write_file_atomically(out + "/report.html", page));
  live.print("\n" + to_text(of, tables) + "\ntables: " + out + "/experiment.md" +
             (page.empty() ? "" : "\nreport: " + out + "/report.html"));
  return exit_done;
}

int run_experiment(const experiment_arguments& given, command_context& context) {
  auto arguments = given;
  if (arguments.name.empty())
    return list_experiments(context);
  const auto path = find_experiment(arguments.name, context.err);
  if (path.empty())
    return exit_refused;
  if (arguments.data.starts_with("cifar") && arguments.data_path.empty())
    return refuse(context.err, "--data " + arguments.data + " needs --data-path, the directory of its binary files");
  const auto read = read_experiment(path);
  for (const auto& error : read.errors)
    refuse_at(context.err, error);
  if (!read.errors.empty())
    return exit_refused;
  if (arguments.out.empty())
    arguments.out = "runs/experiment-" + name_of(path);

  const stop_signals signals; // before any other thread
  std::vector<compare_arguments> asked;
  std::vector<comparison_inputs> inputs; // of all parts, so that nothing is begun where one is wrong
  for (const auto& part : read.of.parts) {
    asked.push_back(arguments_of(read.of, part, arguments));
    if (const int code = read_inputs(asked.back(), inputs.emplace_back(), context.err); code != exit_done) {
      if (inputs.back().path_missing && !read.of.needs.empty())
        context.err << "dynamix-node: this experiment needs " << read.of.needs << "\n";
      return code;
    }
  }
  live_output live(context.out, output_style::detect());
  live.print(read.of.title);
  std::vector<part_tables> tables;
  std::size_t failed = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    live.print(fmt::format("part {}/{}: {}", i + 1, inputs.size(), inputs[i].title()));
    auto made = compare_policies(asked[i], inputs[i], live, signals.token());
    if (!made.problem.empty())
      return refuse(context.err, made.problem);
    if (made.stopped) {
      context.err << "dynamix-node: stopped; the same command goes on:\n    " << context.command << "\n";
      return exit_failed;
    }
    write_comparison(inputs[i], made.tables, context.command);
    for (const auto& table : made.tables)
      live.print("\n" + to_text(table));
    failed += made.failed;
    tables.push_back({read.of.parts[i].name, std::move(made.tables)});
  }
  const int code = finish(read.of, tables, arguments.out, live, context);
  if (failed == 0)
    return code;
  context.err << "dynamix-node: error: " << failed
              << " runs failed and count as never reaching the target. The same command repeats them:\n    "
              << context.command << "\n";
  return exit_failed;
}

} // namespace

void add_experiment(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<experiment_arguments>();
  auto* command = app.add_subcommand("experiment", "Repeat an experiment and hold its claim against what is found");
  command->add_option(
      "name", arguments->name,
      "One that comes with the program, or a file or directory of your own; without it they are listed");
  command->add_option("--scale", arguments->scale, "cpu, or gpu: full width on CUDA")
      ->check(CLI::IsMember({"cpu", "gpu"}))
      ->capture_default_str();
  command->add_option("--data", arguments->data, "Data set of the parts that train, as training.dataset");
  command->add_option("--data-path", arguments->data_path, "Where its files are, as training.data_path");
  command->add_option("--seeds", arguments->seeds, "Runs of each policy (default: as the experiment says)")
      ->check(CLI::Range(1, 1000));
  command->add_option("--out", arguments->out,
                      "Directory of tables, page and every run; finished runs in it are kept (default: "
                      "runs/experiment-NAME, so that the same command goes on after a stop)");
  add_comparison_options(*command, arguments->shared);
  add_work(*command, context, arguments, run_experiment);
}

} // namespace dynamix::node
