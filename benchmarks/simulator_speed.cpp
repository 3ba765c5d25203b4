/// How many windows per second the simulator runs on one core: whole runs of a scenario, one after the other, each with
/// another seed.

#include "cluster/field_changes.hpp"
#include "simulator/simulation.hpp"

#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

using namespace dynamix;
using steady = std::chrono::steady_clock;

/// Says what is wrong with it, and ends.
simulator::scenario load(const std::string& path, const std::string& policy) {
  auto parsed = cluster::read_cluster_file(path);
  simulator::scenario what;
  auto errors = parsed.errors;
  if (errors.empty())
    errors = simulator::load_scenario(parsed.file, what);
  if (const auto wrong = cluster::set_field(what.file, "arbitrator.policy", policy); errors.empty() && !wrong.empty())
    errors.push_back({path, 0, 0, wrong});
  for (const auto& error : errors)
    std::fprintf(stderr, "%s\n", to_string(error).c_str());
  if (!errors.empty())
    std::exit(1);
  return what;
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app("Windows a second of the simulator, on one core.");
  std::string path;
  std::string policy = "goodput";
  double seconds = 5;
  app.add_option("--cluster", path, "Scenario to simulate")->required();
  app.add_option("--policy", policy, "Policy that decides");
  app.add_option("--seconds", seconds, "How long to measure");
  CLI11_PARSE(app, argc, argv);

  const auto what = load(path, policy);
  std::uint64_t windows = 0;
  const auto begin = steady::now();
  std::chrono::duration<double> elapsed{};
  for (std::uint64_t seed = 1; elapsed.count() < seconds; ++seed) {
    simulator::simulation run(what, std::vector<std::uint8_t>{}, seed);
    while (run.advance() && elapsed.count() < seconds)
      elapsed = steady::now() - begin;
    windows += run.result().windows;
  }
  std::printf("simulator_speed %s workers %zu windows_per_second %.0f\n", policy.c_str(), what.profiles.size(),
              static_cast<double>(windows) / elapsed.count());
  return 0;
}
