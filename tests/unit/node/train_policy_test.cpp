#include "node/commands/command_line.hpp"
#include "node/reports/commit.hpp"
#include "policy/controller.hpp"
#include "simulator/device_profile.hpp"
#include "simulator/workload.hpp"
#include "storage/atomic_file.hpp"
#include "storage/tensor_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/command_answer.hpp"
#include "tests/unit/node/sample_run.hpp"
#include "tests/unit/trainer/tiny_images.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::HasSubstr;

/// A directory with a small scenario and all that it names.
class TrainPolicy : public ::testing::Test {
protected:
  TrainPolicy() {
    simulator::device_profile profile{.name = "made up", .source = "made up"};
    profile.points = {{.batch = 8, .seconds = 0.002}, {.batch = 512, .seconds = 0.03}};
    write("profile", to_toml(profile));
    write("workload", to_toml(simulator::workload{.name = "made up", .source = "made up", .epoch_samples = 20'000}));
    std::filesystem::create_directory(path("scenarios"));
    auto file = pair_file();
    file.simulation.profile = path("profile");
    file.simulation.workload = path("workload");
    file.batch = {.initial = 32, .lowest = 8, .highest = 512};
    write("scenarios/pair.toml", to_toml(file));
  }
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  void write(const std::string& name, const std::string& text) const {
    ASSERT_EQ(storage::write_file_atomically(path(name), text), "");
  }
  answer train(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {
        "train-policy",   "--scenarios", path("scenarios"), "--out", path("best"),       "--horizon", "4",
        "--environments", "2",           "--jobs",          "1",     "--evaluate-every", "2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ask(arguments);
  }
  storage::tensor_file read(const std::string& name) const {
    std::string contents;
    EXPECT_EQ(storage::read_file(path(name), 1U << 24U, contents), "");
    storage::tensor_file file;
    const std::vector<std::uint8_t> bytes(contents.begin(), contents.end());
    EXPECT_EQ(storage::decode(bytes, file), "");
    return file;
  }

  temporary_directory directory_;
};

TEST_F(TrainPolicy, LeavesAPolicyThatSaysWhereItComesFromAndGoesOnLater) {
  const auto first = train({"--updates", "3", "--seed", "5"});
  ASSERT_EQ(first.code, exit_done) << first.err;
  EXPECT_THAT(first.out, HasSubstr("ppo: 1 scenario, 2 environments, 1 thread, seed 5"));
  EXPECT_THAT(first.out, HasSubstr("geometric mean"));
  EXPECT_THAT(first.out, HasSubstr("report: " + path("best.html")));
  auto policy = read("best");
  EXPECT_THAT(policy.metadata["command"], HasSubstr("dynamix-node train-policy --scenarios " + path("scenarios")));
  EXPECT_THAT(policy.metadata["command"], HasSubstr("--updates 3 --seed 5"));
  EXPECT_EQ(policy.metadata["seed"], "5");
  EXPECT_EQ(policy.metadata["commit"], commit());
  EXPECT_EQ(policy.metadata["scenarios"], "pair");
  EXPECT_EQ(policy.metadata["kind"], "ppo");

  EXPECT_THAT(train({"--updates", "3", "--seed", "5"}).err, HasSubstr(path("best") + " exists"));
  EXPECT_THAT(train({"--resume", "--updates", "5", "--seed", "6"}).err, HasSubstr("was begun with 5"));
  const auto second = train({"--resume", "--updates", "5", "--seed", "5"});
  ASSERT_EQ(second.code, exit_done) << second.err;
  EXPECT_THAT(second.out, HasSubstr("from update 3 (the environments begin new episodes)"));
  auto training = read("best.training");
  EXPECT_THAT(training.metadata["command"], HasSubstr(" && dynamix-node train-policy "));
  EXPECT_EQ(training.metadata["version"], "5");
  std::string curve;
  ASSERT_EQ(storage::read_file(path("best.csv"), 1U << 20U, curve), "");
  EXPECT_EQ(std::count(curve.begin(), curve.end(), '\n'), 1 + 1 + 5) << "the heading, the fresh policy, the updates";
}

TEST_F(TrainPolicy, TakesBackThePolicyThatItHasWritten) {
  ASSERT_EQ(train({"--updates", "1"}).code, exit_done);
  auto file = cluster::read_cluster_file(path("scenarios/pair.toml")).file;
  file.arbitrator.policy_file = path("best");
  std::string contents;
  ASSERT_EQ(storage::read_file(path("best"), 1U << 24U, contents), "");
  EXPECT_NO_THROW(policy::make_controller(file, {contents.begin(), contents.end()}));
}

TEST_F(TrainPolicy, RefusesWhatCannotBeTrained) {
  std::filesystem::create_directory(path("nothing"));
  write("scenarios/broken.toml", "[cluster]\nname = 3\n");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"train-policy", "--out", "x"}, "--scenarios is required"},
      {{"train-policy", "--scenarios", "x"}, "--out is required"},
      {{"train-policy", "--scenarios", path("nothing"), "--out", path("p")}, "holds no cluster file"},
      {{"train-policy", "--scenarios", path("absent"), "--out", path("p")}, "absent"},
      {{"train-policy", "--scenarios", path("scenarios"), "--out", path("p")}, "broken.toml:2:"}};
  for (const auto& [arguments, words] : cases) {
    const auto refused = ask(arguments);
    EXPECT_EQ(refused.code, exit_refused) << words;
    EXPECT_THAT(refused.err, HasSubstr(words));
  }
  std::filesystem::remove(path("scenarios/broken.toml"));
  EXPECT_THAT(train({"--policy", "goodput"}).err, HasSubstr("goodput learns nothing; choose ppo"));
  EXPECT_THAT(train({"--policy", "pop"}).err, HasSubstr("\"pop\""));
  EXPECT_THAT(train({"--set", "ppo.horizon"}).err, HasSubstr("SECTION.FIELD=VALUE"));
  EXPECT_THAT(train({"--set", "ppo.colour=3"}).err, HasSubstr("ppo.colour"));
  EXPECT_THAT(train({"--updates", "0"}).err, HasSubstr("--updates"));
  EXPECT_THAT(train({"--resume"}).err, HasSubstr("nothing to resume from"));
}

class Profile : public ::testing::Test {
protected:
  Profile() { trainer::write_images(data_, "train", 30); }

  temporary_directory data_;
};

TEST_F(Profile, WritesATableThatTheSimulatorReads) {
  auto file = pair_file();
  file.training.data_path = data_.path();
  ASSERT_EQ(storage::write_file_atomically(data_.file("cluster.toml"), to_toml(file)), "");
  const auto done = ask({"profile", "--cluster", data_.file("cluster.toml"), "--batches", "4,1,16", "--seconds", "0.01",
                         "--out", data_.file("here.toml"), "--json"});
  ASSERT_EQ(done.code, exit_done) << done.err;
  const auto rows = nlohmann::json::parse(done.out);
  ASSERT_EQ(rows.size(), 3U);
  for (const auto& row : rows) {
    EXPECT_GT(row.at("milliseconds"), 0);
    EXPECT_GT(row.at("samples_per_second"), 0);
  }

  simulator::device_profile read;
  for (const auto& error : simulator::read_device_profile(data_.file("here.toml"), read))
    ADD_FAILURE() << cluster::to_string(error);
  EXPECT_EQ(read.name, "lenet-cpu");
  EXPECT_THAT(read.source, HasSubstr("fashion-mnist"));
  EXPECT_THAT(read.source, HasSubstr(commit()));
  ASSERT_EQ(read.points.size(), 3U);
  EXPECT_LE(read.curve.seconds(1), read.curve.seconds(4));
  EXPECT_LE(read.curve.seconds(4), read.curve.seconds(16));
}

TEST_F(Profile, RefusesWrongArguments) {
  EXPECT_THAT(ask({"profile", "--model", "resnet"}).err, HasSubstr("--model: "));
  EXPECT_THAT(ask({"profile", "--threads", "0"}).err, HasSubstr("--threads: "));
  EXPECT_THAT(ask({"profile", "--batches", "8,0"}).err, HasSubstr("--batches"));
  EXPECT_EQ(ask({"profile", "--cluster", data_.file("absent")}).code, exit_refused);
  auto file = pair_file();
  file.training.data_path = data_.file("absent");
  ASSERT_EQ(storage::write_file_atomically(data_.file("cluster.toml"), to_toml(file)), "");
  const auto failed = ask({"profile", "--cluster", data_.file("cluster.toml"), "--batches", "1"});
  EXPECT_EQ(failed.code, exit_failed);
  EXPECT_THAT(failed.err, HasSubstr("absent"));
}

} // namespace
} // namespace dynamix::node
