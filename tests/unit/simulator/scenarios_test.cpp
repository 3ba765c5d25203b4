#include "examples.hpp"
#include "simulator/simulation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

namespace dynamix::simulator {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::filesystem::path deployments = std::filesystem::path(DYNAMIX_SOURCE_DIRECTORY) / "deployments";

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(deployments / folder))
    paths.push_back(entry.path().string());
  std::ranges::sort(paths);
  return paths;
}

scenario loaded(const std::string& path) {
  const auto parsed = cluster::read_cluster_file(path);
  for (const auto& error : parsed.errors)
    ADD_FAILURE() << to_string(error);
  scenario what;
  for (const auto& error : load_scenario(parsed.file, what))
    ADD_FAILURE() << to_string(error);
  return what;
}

class Shipped : public ::testing::TestWithParam<std::string> {};

TEST_P(Shipped, RunsThirtyWindows) {
  const auto what = loaded(GetParam());
  EXPECT_EQ(what.file.name, std::filesystem::path(GetParam()).stem());
  EXPECT_GT(what.file.training.target_accuracy, 0);
  EXPECT_TRUE(std::isfinite(what.workload.progress_for(what.file.training.target_accuracy)));
  for (const auto policy : {cluster::policy_kind::static_batch, cluster::policy_kind::lb_bsp}) {
    auto with = what;
    with.file.arbitrator.policy = policy;
    simulation run(with, std::vector<std::uint8_t>{}, 1);
    for (int window = 0; window < 30; ++window)
      ASSERT_TRUE(run.advance()) << run.result().failure;
    EXPECT_EQ(run.result().failure, "");
  }
}

TEST_P(Shipped, BeginsWithWhatItShows) {
  std::ifstream stream(GetParam());
  std::string line;
  std::getline(stream, line);
  EXPECT_TRUE(line.starts_with("# ")) << line;
}

std::string stem_of(const ::testing::TestParamInfo<std::string>& info) {
  auto name = std::filesystem::path(info.param).stem().string();
  std::ranges::replace(name, '-', '_');
  return name;
}
INSTANTIATE_TEST_SUITE_P(Train, Shipped, ::testing::ValuesIn(files_in("scenarios/train")), stem_of);
INSTANTIATE_TEST_SUITE_P(Test, Shipped, ::testing::ValuesIn(files_in("scenarios/test")), stem_of);
INSTANTIATE_TEST_SUITE_P(Scale, Shipped, ::testing::ValuesIn(files_in("scenarios/scale")), stem_of);

TEST(Scenarios, LeaveTransferToBeShown) {
  EXPECT_GE(files_in("scenarios/train").size(), 8U);
  EXPECT_GE(files_in("scenarios/test").size(), 8U);
  for (const auto& path : files_in("scenarios/train")) {
    const auto what = loaded(path);
    EXPECT_GE(what.profiles.size(), 4U) << path;
    EXPECT_LE(what.profiles.size(), 16U) << path;
    EXPECT_EQ(what.file.training.optimizer, cluster::optimizer_kind::sgd) << path;
    EXPECT_THAT(what.workload.name, ::testing::Not(HasSubstr("transformer"))) << path;
  }
}

TEST(Scenarios, KnowWhatTheirDevicesHold) {
  for (const auto* folder : {"scenarios/train", "scenarios/test", "scenarios/scale"})
    for (const auto& path : files_in(folder)) {
      const auto what = loaded(path);
      const auto highest = what.file.highest_by_rank();
      for (std::size_t i = 0; i < highest.size(); ++i)
        if (const auto fits = what.profiles[i].batch_highest; fits > 0) {
          EXPECT_LE(highest[i], fits) << path << ", worker " << i;
        }
    }
}

TEST(Scenarios, HaveFilesThatReadAsTheyAreWritten) {
  for (const auto& path : files_in("profiles")) {
    device_profile profile;
    EXPECT_THAT(read_device_profile(path, profile), IsEmpty());
    EXPECT_EQ(profile.name, std::filesystem::path(path).stem());
  }
  for (const auto& path : files_in("workloads")) {
    workload model;
    EXPECT_THAT(read_workload(path, model), IsEmpty());
    EXPECT_EQ(model.name, std::filesystem::path(path).stem());
  }
}

std::vector<std::string> errors_of(const std::string& simulation_section, const std::string& host_line) {
  const auto parsed = cluster::parse_cluster_text("[cluster]\nname = \"x\"\n[simulation]\n" + simulation_section +
                                                      "[[host]]\nname = \"ada\"\nport = 1\nroles = [\"worker\", "
                                                      "\"arbitrator\"]\n" +
                                                      host_line,
                                                  (deployments / "x.toml").string());
  EXPECT_THAT(parsed.errors, IsEmpty());
  scenario what;
  std::vector<std::string> messages;
  for (const auto& error : load_scenario(parsed.file, what))
    messages.push_back(to_string(error));
  return messages;
}

TEST(Scenario, SaysWhatItLacks) {
  EXPECT_THAT(errors_of("", ""), ElementsAre(HasSubstr("x.toml:3:1: simulation.workload is empty"),
                                             HasSubstr("x.toml:4:1: host \"ada\" has no device profile")));
  EXPECT_THAT(errors_of("workload = \"workloads/none.toml\"\nprofile = \"profiles/cpu-lenet.toml\"\n", ""),
              ElementsAre(HasSubstr("workloads/none.toml: there is no such file; a workload is a TOML file")));
  EXPECT_THAT(errors_of("workload = \"workloads/cnn.toml\"\nprofile = \"profiles/cpu-lenet.toml\"\n",
                        "profile = \"workloads/cnn.toml\"\n"),
              ElementsAre(HasSubstr("cnn.toml:1:1: there is no section [profile]"),
                          HasSubstr("cnn.toml:3:2: workload is unknown; a device profile has \"profile\"")));
}

TEST(Scenario, IsRefusedWhereGradientsAreLeftOut) {
  EXPECT_THAT(errors_of("workload = \"workloads/cnn.toml\"\nprofile = \"profiles/cpu-lenet.toml\"\n"
                        "[training]\ntop_k = 0.1\ncompression = \"gather\"\n",
                        ""),
              ElementsAre(HasSubstr("training.top_k is 0.1; the simulator does not know")));
}

TEST(Scenario, HasAProfileAndALinkForEachOfAHostsWorkers) {
  const auto parsed = cluster::parse_cluster_text(
      "[cluster]\nname = \"x\"\n[training]\ntrainer = \"client\"\n[simulation]\nworkload = \"workloads/cnn.toml\"\n"
      "profile = \"profiles/cpu-lenet.toml\"\nrandomise = 0.5\n[[host]]\nname = \"ada\"\nport = 1\nworkers = 3\n"
      "bandwidth_mbit = 100\nroles = [\"worker\", \"arbitrator\"]\n",
      (deployments / "x.toml").string());
  ASSERT_THAT(parsed.errors, IsEmpty());
  scenario what;
  ASSERT_THAT(load_scenario(parsed.file, what), IsEmpty());
  EXPECT_EQ(what.profiles.size(), 3U);
  const auto varied = randomise(what, 3);
  EXPECT_NE(varied.file.hosts[0].bandwidth_mbit, 100);
  for (const auto* worker : varied.file.workers())
    EXPECT_EQ(worker->bandwidth_mbit, varied.file.hosts[0].bandwidth_mbit);
}

TEST(Randomise, ChangesNothingWithoutARange) {
  auto what = testing::quiet_scenario(2);
  const auto same = randomise(what, 3);
  EXPECT_EQ(same.file.digest(), what.file.digest());
  EXPECT_EQ(same.workload.phi_start, what.workload.phi_start);
  EXPECT_EQ(same.profiles[1].curve.seconds(64), what.profiles[1].curve.seconds(64));
}

TEST(Randomise, PutsTheClusterIntoOtherSurroundings) {
  auto what = testing::quiet_scenario(2);
  what.file.simulation.randomise = 0.1;
  int without_network = 0;
  int without_system = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const auto varied = randomise(what, seed);
    EXPECT_GE(varied.surroundings.rtt_factor, 0.3);
    EXPECT_LE(varied.surroundings.rtt_factor, 30);
    EXPECT_LE(varied.surroundings.idle_memory_ratio + varied.surroundings.batch_memory_ratio, 1);
    const auto& sources = varied.file.telemetry_sources;
    without_network += std::ranges::count(sources, cluster::telemetry_source::tcp_info) == 0;
    without_system += std::ranges::count(sources, cluster::telemetry_source::procfs) == 0;
  }
  EXPECT_NEAR(without_network, 100, 30);
  EXPECT_NEAR(without_system, 100, 30);
}

TEST(Randomise, VariesWithinTheRangeAndBySeed) {
  auto what = testing::quiet_scenario(3);
  what.file.simulation.randomise = 0.5;
  what.file.simulation.slow_every_seconds = 100;
  testing::worker(what, 1).bandwidth_mbit = 500;
  std::vector<double> speeds;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const auto varied = randomise(what, seed);
    for (const auto& profile : varied.profiles)
      speeds.push_back(profile.curve.seconds(64) / testing::computing_seconds(64));
    for (const double ratio :
         {varied.workload.phi_start / 1000, varied.file.simulation.bandwidth_mbit / 8000,
          varied.file.simulation.slow_every_seconds / 100, varied.file.hosts[2].bandwidth_mbit / 500}) {
      EXPECT_GE(ratio, std::exp(-0.5));
      EXPECT_LE(ratio, std::exp(0.5));
    }
    EXPECT_EQ(varied.file.hosts[1].bandwidth_mbit, 0); // has none of its own
    EXPECT_EQ(varied.file.digest(), randomise(what, seed).file.digest());
  }
  const auto [slowest, fastest] = std::ranges::minmax(speeds);
  EXPECT_NEAR(std::log(slowest), -0.5, 0.05);
  EXPECT_NEAR(std::log(fastest), 0.5, 0.05);
  EXPECT_NE(speeds[0], speeds[1]);
  EXPECT_NE(speeds[0], speeds[3]);
}

} // namespace
} // namespace dynamix::simulator
