#include "ledger/text.hpp"
#include "node/commands/command.hpp"
#include "node/launch/prune.hpp"

#include <nlohmann/json.hpp>

#include <fmt/core.h>
#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

struct prune_arguments {
  std::string directory = "runs";
  std::uint32_t keep_runs = 0;
  std::uint32_t keep_days = 0;
  bool yes = false;
  bool json = false;
};

std::string size_text(std::uint64_t bytes) {
  return fmt::format("{} kB", ledger::grouped((bytes + 999) / 1000));
}

std::string to_json(const prune_plan& plan, bool removed) {
  nlohmann::ordered_json json{{"removed", removed}, {"removals", nlohmann::ordered_json::array()}};
  for (const auto& each : plan.removals)
    json["removals"].push_back({{"path", each.path}, {"bytes", each.bytes}, {"reason", each.reason}});
  json["in_use"] = plan.in_use;
  json["kept_bytes"] = plan.kept_bytes;
  return json.dump(2) + "\n";
}

void print(const prune_plan& plan, bool remove, std::ostream& out) {
  std::uint64_t bytes = 0;
  for (const auto& each : plan.removals) {
    out << fmt::format("{:>14}  {}  ({})\n", size_text(each.bytes), each.path, each.reason);
    bytes += each.bytes;
  }
  for (const auto& path : plan.in_use)
    out << fmt::format("{} was written to within the last hour and is left alone\n", path);
  if (plan.removals.empty())
    out << fmt::format("Nothing is there to remove; {} stay\n", size_text(plan.kept_bytes));
  else
    out << fmt::format("{} {} in {}; {} stay{}\n", remove ? "Removing" : "Would remove", size_text(bytes),
                       plan.removals.size() == 1 ? "one place" : fmt::format("{} places", plan.removals.size()),
                       size_text(plan.kept_bytes), remove ? "" : ". Nothing was removed: --yes does it");
}

int prune_runs(const prune_arguments& arguments, command_context& context) {
  std::string problem;
  const auto plan = plan_pruning(
      arguments.directory, {.keep_runs = arguments.keep_runs, .keep_for = std::chrono::hours(24) * arguments.keep_days},
      std::chrono::file_clock::now(), problem);
  if (!problem.empty())
    return refuse(context.err, problem);
  if (!arguments.json)
    print(plan, arguments.yes, context.out);
  const auto problems = arguments.yes ? prune(plan) : std::vector<std::string>();
  for (const auto& each : problems)
    context.err << "dynamix-node: error: " << each << "\n";
  if (arguments.json)
    context.out << to_json(plan, arguments.yes && problems.empty());
  return problems.empty() ? exit_done : exit_failed;
}

} // namespace

void add_prune(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<prune_arguments>();
  auto* command = app.add_subcommand("prune", "Say which files of old runs are not needed, and remove them with --yes");
  command->add_option("directory", arguments->directory, "A run directory, or one that holds some")
      ->capture_default_str();
  command
      ->add_option("--keep-runs", arguments->keep_runs, "Remove whole runs except so many, the newest (0: remove none)")
      ->capture_default_str();
  command
      ->add_option("--keep-days", arguments->keep_days,
                   "Remove whole runs that were last written to so many days ago or earlier (0: remove none)")
      ->check(CLI::Range(0, 36500))
      ->capture_default_str();
  command->add_flag("--yes", arguments->yes, "Remove, do not only say");
  command->add_flag("--json", arguments->json, "Print JSON");
  add_work(*command, context, arguments, prune_runs);
}

} // namespace dynamix::node
