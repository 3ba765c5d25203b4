/// Seconds a sample of a training step of one model: model_speed SECONDS BATCH [SECTION.FIELD=VALUE ...]

#include "cluster/field_changes.hpp"
#include "trainer/clock.hpp"
#include "trainer/step_time_measurement.hpp"

#include <cstdio>
#include <cstdlib>

int main(int argc, char** argv) {
  using namespace dynamix;
  if (argc < 3) {
    std::fprintf(stderr, "usage: %s SECONDS BATCH [SECTION.FIELD=VALUE ...]\n", argv[0]);
    return 2;
  }
  auto file = cluster::parse_cluster_text("[cluster]\nname = \"speed\"\n[[host]]\nname = \"here\"\nport = 7401\n"
                                          "roles = [\"worker\", \"arbitrator\"]\n",
                                          "")
                  .file;
  std::vector<cluster::field_change> changes;
  for (int i = 3; i < argc; ++i)
    changes.push_back(cluster::parse_change(argv[i]));
  for (const auto& error : cluster::change_fields(file, changes))
    std::fprintf(stderr, "%s\n", to_string(error).c_str());
  const auto batch = static_cast<std::uint32_t>(std::atoi(argv[2]));
  trainer::steady_clock time;
  const auto measured = trainer::measure_step_times({.training = file.training,
                                                     .seed = file.seed,
                                                     .batches = {batch},
                                                     .seconds_per_batch = std::atof(argv[1]),
                                                     .workers = 1},
                                                    time, [](const std::string&) {});
  if (!measured.problem.empty()) {
    std::fprintf(stderr, "%s\n", measured.problem.c_str());
    return 1;
  }
  std::printf("%.9f\n", measured.steps.at(0).seconds / batch);
  return 0;
}
