/// One rank of a step benchmark. Prints one line: the seconds of each chunk of steps, as a JSON array.

#include "benchmarks/step_plan.hpp"

#include <CLI/CLI.hpp>

#include <cstdio>
#include <exception>
#include <string>

int main(int argc, char** argv) {
  dynamix::benchmarks::step_plan plan;
  std::string loop;
  CLI::App app("One rank of a step benchmark");
  app.add_option("--loop", loop, "what trains")->required()->check(CLI::IsMember({"flat", "overlapped"}));
  app.add_option("--rank", plan.rank)->required();
  app.add_option("--world", plan.world)->required()->check(CLI::Range(1, 64));
  app.add_option("--port", plan.port, "of rank 0's store")->required();
  app.add_option("--batch", plan.batch)->check(CLI::Range(1, 4096));
  app.add_option("--warm-up", plan.warm_up, "chunks that are not counted");
  app.add_option("--chunks", plan.chunks)->check(CLI::Range(1, 100000));
  app.add_option("--chunk-steps", plan.chunk_steps)->check(CLI::Range(1, 10000));
  app.add_option("--bucket-kib", plan.bucket_kib, "of gradients exchanged at once")->check(CLI::Range(16, 262144));
  app.add_option("--data", plan.data, "folder of Fashion-MNIST");
  CLI11_PARSE(app, argc, argv);
  try {
    const auto seconds = dynamix::benchmarks::run_plain_loop(plan, loop == "overlapped");
    std::string line;
    for (const double each : seconds)
      line += (line.empty() ? "[" : ", ") + std::to_string(each);
    if (plan.rank == 0)
      std::printf("%s]\n", line.c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_rank: %s\n", error.what());
    return 1;
  }
  return 0;
}
