#include "node/commands/command.hpp"
#include "node/launch/run_directory.hpp"
#include "simulator/generator.hpp"
#include "storage/atomic_file.hpp"

#include <filesystem>
#include <fmt/core.h>
#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

struct generate_arguments {
  std::string out;
  std::string purpose = "test";
  std::uint64_t first = 0;
  std::uint64_t count = 60;
  std::string policy_file;
  std::uint32_t workers = 0; ///< 0: as drawn
  double slowness = simulator::slowness_max;
};

int generate(const generate_arguments& arguments, command_context& context) {
  if (!run_directory(arguments.out).empty())
    return refuse(context.err, arguments.out + " exists and is not empty; choose another --out");
  const auto fits = [&](std::uint64_t seed) { return simulator::pin_workers(seed, arguments.workers).has_value(); };
  if (arguments.workers > 0 && !fits(0) && !fits(1) && !fits(2))
    return refuse(context.err,
                  fmt::format("--workers: {} is not in 2 to 8, 16 to 64 or 128 to 512", arguments.workers));
  const auto policy_file =
      arguments.policy_file.empty() ? "" : std::filesystem::absolute(arguments.policy_file).string();
  const auto purpose =
      arguments.purpose == "test" ? simulator::generated_for::test : simulator::generated_for::training;
  std::uint64_t seed = arguments.first;
  for (std::uint64_t written = 0; written < arguments.count; ++seed) {
    simulator::generator_limits limits{.slowness = arguments.slowness};
    if (arguments.workers > 0 && !(limits.pinned = simulator::pin_workers(seed, arguments.workers)))
      continue; // of a group that never has as many
    const auto made = simulator::generate_scenario(purpose, seed, policy_file, limits);
    ++written;
    for (const auto& file : made.files) {
      const auto path = std::filesystem::path(arguments.out) / file.path;
      std::filesystem::create_directories(path.parent_path());
      if (const auto problem = storage::write_file_atomically(path.string(), file.text); !problem.empty())
        return fail(context.err, problem);
    }
  }
  context.out << fmt::format("{} scenarios in {}; run them with: dynamix-node compare --simulate --cluster {}\n",
                             arguments.count, arguments.out, arguments.out);
  return exit_done;
}

} // namespace

void add_generate_scenarios(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<generate_arguments>();
  auto* command = app.add_subcommand("generate-scenarios", "Write clusters and workloads drawn at random");
  command->add_option("--out", arguments->out, "New or empty directory for the files")->required();
  command->add_option("--purpose", arguments->purpose, "test or training: unrelated scenarios for the same seeds")
      ->check(CLI::IsMember({"test", "training"}))
      ->capture_default_str();
  command->add_option("--first-seed", arguments->first, "Seed of the first scenario")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  command->add_option("--count", arguments->count, "Scenarios, each with the next seed; any 12 cover all groups")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command->add_option("--workers", arguments->workers,
                      "Workers of each scenario: 2 to 8, 16 to 64 or 128 to 512; seeds of other groups are left out");
  command
      ->add_option("--slowness", arguments->slowness,
                   "How many times the fastest kind of device's step the slowest one's may take; 1: all are equal")
      ->check(CLI::Range(1.0, simulator::slowness_max))
      ->capture_default_str();
  command->add_option("--policy-file", arguments->policy_file, "Named by the files as arbitrator.policy_file");
  add_work(*command, context, arguments, generate);
}

} // namespace dynamix::node
