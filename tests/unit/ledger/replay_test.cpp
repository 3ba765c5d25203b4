#include "ledger/codec.hpp"
#include "ledger/file.hpp"
#include "ledger/replay.hpp"
#include "node/launch/run_directory.hpp"
#include "policy/parameter_archive.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/command_answer.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <spdlog/fmt/fmt.h>

#include <filesystem>
#include <fstream>

namespace dynamix::node {
namespace {

using namespace ledger;
using namespace testing;
using ::testing::HasSubstr;

/// A simulated run that learns and is guarded, with versions of the policy of its own.
class ReplayTest : public ::testing::Test {
protected:
  static void SetUpTestSuite() {
    directory_ = new temporary_directory;
    const auto said =
        ask({"simulate", "--cluster", shipped("scenarios/train/straggler-8.toml"), "--set", "training.epochs=20",
             "--policy", "ppo", "--mode", "train", "--set", "ppo.horizon=4", "--set", "arbitrator.guard_margin=1",
             "--quiet", "--out", path()}); // the guard would spare an untrained policy its lessons
    ASSERT_EQ(said.code, exit_done) << said.err;
  }
  static void TearDownTestSuite() { delete directory_; }
  static std::string path() { return directory_->path() + "/run"; }

  void SetUp() override { load(path()); }
  void load(const std::string& run) {
    std::string error;
    records_.file = read_run(run_directory(run), error).file;
    ASSERT_EQ(error, "");
    records_.rows = ledger::read_file(run_directory(run).ledger(), error);
    ASSERT_EQ(error, "");
  }
  /// As a program writes it whose policies see another field.
  void rename_a_state_field() {
    for (auto& row : records_.rows)
      if (auto* start = std::get_if<ledger::start>(&row.entry))
        start->state_fields.at(0) = "throughput";
  }
  replay_result replayed() const {
    const policy::parameter_archive archive(run_directory(path()).policies());
    return replay(records_.rows, records_.file,
                  [&](const std::string& digest, auto& parameters) { return archive.read(digest, parameters); });
  }
  /// The window `number` of the ledger.
  ledger::window& window(std::uint64_t number) {
    for (auto& row : records_.rows)
      if (auto* found = std::get_if<ledger::window>(&row.entry); found != nullptr && found->key.window == number)
        return *found;
    throw std::out_of_range("no such window");
  }

  written_run records_;

private:
  static temporary_directory* directory_;
};
temporary_directory* ReplayTest::directory_ = nullptr;

TEST_F(ReplayTest, DecidesTheSameWithTheVersionsThatDecided) {
  std::uint64_t newest = 0;
  for (const auto& row : records_.rows)
    if (const auto* published = std::get_if<ledger::policy_version>(&row.entry))
      newest = std::max(newest, published->version);
  EXPECT_GT(newest, 2U);
  const auto result = replayed();
  EXPECT_TRUE(result.proven()) << to_text(result);
  EXPECT_EQ(result.deviation, 0);
  EXPECT_GT(result.windows, 10U);
  EXPECT_GT(result.decisions, 8 * 10U);
  EXPECT_THAT(to_text(result), HasSubstr("equal to the bit"));
}

TEST_F(ReplayTest, GoesOnWhereAReplicaThatDoesNotDecideIsRestarted) {
  const auto whole = replayed().windows;
  const auto middle = records_.rows.begin() + static_cast<std::ptrdiff_t>(records_.rows.size() / 2);
  records_.rows.insert(middle, records_.rows.front());
  EXPECT_LT(replayed().windows, whole) << "of one arbitrator it is another life, of which nothing is known";
  records_.file.arbitrator.replicas = {"north", "east", "west"};
  for (auto& row : records_.rows)
    if (auto* deciding = std::get_if<ledger::deciding>(&row.entry))
      deciding->cluster_digest = fmt::format("{:016x}", records_.file.digest());
  const auto result = replayed();
  EXPECT_EQ(result.windows, whole);
  EXPECT_TRUE(result.proven()) << to_text(result);
}

TEST_F(ReplayTest, NamesTheFirstDifference) {
  window(5).workers[3].decided_batch += 1;
  window(7).workers[0].action += 1;
  const auto result = replayed();
  ASSERT_TRUE(result.first);
  EXPECT_FALSE(result.proven());
  EXPECT_EQ(result.first->window, 5U);
  EXPECT_EQ(result.first->host, window(5).workers[3].report.host);
  EXPECT_EQ(result.first->field, "decided_batch");
  EXPECT_THAT(to_text(result), HasSubstr("DIFFERENT in window 5 (term 1), worker "));
}

TEST_F(ReplayTest, SeesAMeasurementThatWasChangedAfterwards) {
  window(4).workers[0].report.training.compute_seconds *= 3;
  EXPECT_TRUE(replayed().first);
}

TEST_F(ReplayTest, SeesParametersOtherThanThoseThatDecided) {
  for (auto& row : records_.rows)
    if (auto* published = std::get_if<ledger::policy_version>(&row.entry);
        published != nullptr && published->version > 0)
      published->parameters = "0000000000000000";
  const auto result = replayed();
  EXPECT_FALSE(result.proven());
  EXPECT_GT(result.skipped, 0U);
  EXPECT_THAT(to_text(result), HasSubstr("NOT PROVEN"));
  EXPECT_THAT(result.skipped_why, HasSubstr("0000000000000000.dynamix"));
}

TEST_F(ReplayTest, RefusesAnotherClusterFileAndAnOlderLedger) {
  records_.file.arbitrator.guard_margin = 0.2;
  EXPECT_THAT(replayed().skipped_why, HasSubstr("another cluster file"));
  std::erase_if(records_.rows, [](const auto& row) { return std::holds_alternative<ledger::deciding>(row.entry); });
  EXPECT_THAT(replayed().skipped_why, HasSubstr("an older version wrote it"));
  records_.rows.clear();
  EXPECT_FALSE(replayed().proven());
}

TEST_F(ReplayTest, RefusesAnotherProgramsStateWhereAPolicySawIt) {
  rename_a_state_field();
  EXPECT_THAT(replayed().skipped_why, HasSubstr("in which policies see other fields of a worker"));

  const temporary_directory other;
  const auto run = other.path() + "/run";
  ASSERT_EQ(ask({"simulate", "--cluster", shipped("scenarios/train/straggler-8.toml"), "--set", "training.epochs=2",
                 "--policy", "goodput", "--quiet", "--out", run})
                .code,
            exit_done);
  load(run);
  rename_a_state_field();
  const auto result = replayed();
  EXPECT_TRUE(result.proven()) << to_text(result);
  EXPECT_GT(result.windows, 0U);
}

TEST_F(ReplayTest, IsACommandWithAnExitCode) {
  const auto well = ask({"explain", "--run", path(), "--replay", "--json"});
  EXPECT_EQ(well.code, exit_done) << well.out;
  EXPECT_EQ(nlohmann::json::parse(well.out)["same"], true);
  EXPECT_EQ(ask({"explain", "--run", path(), "--replay", "--window", "3"}).code, exit_refused);

  const temporary_directory other;
  std::filesystem::copy(path(), other.path() + "/run", std::filesystem::copy_options::recursive);
  const run_directory changed(other.path() + "/run");
  window(6).workers[1].decided_batch = 33;
  std::ofstream ledger(changed.ledger());
  for (const auto& row : records_.rows)
    ledger << ledger::to_json_line(row) << "\n";
  ledger.close();
  const auto ill = ask({"explain", "--run", changed.path(), "--replay"});
  EXPECT_EQ(ill.code, exit_failed);
  EXPECT_THAT(ill.out, HasSubstr("DIFFERENT in window 6"));
}

TEST_F(ReplayTest, WorksForPoliciesWithoutParametersToo) {
  for (const std::string policy : {"static", "lb-bsp", "goodput"}) {
    const temporary_directory directory;
    const auto run = directory.path() + "/run";
    ASSERT_EQ(ask({"simulate", "--cluster", shipped("scenarios/train/straggler-8.toml"), "--set", "training.epochs=0.2",
                   "--policy", policy, "--quiet", "--out", run})
                  .code,
              exit_done);
    const auto said = ask({"explain", "--run", run, "--replay"});
    EXPECT_EQ(said.code, exit_done) << policy << ": " << said.out;
  }
}

/// What a replay says of a short simulated run.
std::string replayed(const std::vector<std::string>& settings) {
  const temporary_directory directory;
  const auto run = directory.path() + "/run";
  std::vector<std::string> simulate = {
      "simulate", "--cluster", shipped("scenarios/train/straggler-8.toml"), "--set", "training.epochs=2", "--quiet",
      "--out",    run};
  simulate.insert(simulate.end(), settings.begin(), settings.end());
  EXPECT_EQ(ask(simulate).code, exit_done);
  const auto said = ask({"explain", "--run", run, "--replay"});
  EXPECT_EQ(said.code, exit_done) << said.out;
  return said.out;
}

TEST(Replay, SaysThatNobodyDecidedWhereWorkersChoose) {
  EXPECT_THAT(replayed({"--policy", "stigmergic"}),
              HasSubstr("Nobody decided: the workers chose their batch sizes by their paces"));
}

TEST(Replay, MakesDecisionsAgainWhereWorkersShareBetweenThem) {
  EXPECT_THAT(replayed({"--policy", "ppo"}), HasSubstr("The same: "));
}

TEST(ParameterArchive, KeepsOnceReadsBackAndFindsDamage) {
  const temporary_directory directory;
  policy::parameter_archive archive(directory.path() + "/policies", 10);
  const std::vector<std::uint8_t> six = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(archive.keep({}), "");
  EXPECT_EQ(archive.keep(six), "");
  EXPECT_EQ(archive.keep(six), "");
  const std::vector<std::uint8_t> other = {6, 5, 4, 3, 2};
  EXPECT_THAT(archive.keep(other), HasSubstr("is full"));
  EXPECT_THAT(policy::parameter_archive(directory.path() + "/policies", 10).keep(other), HasSubstr("is full"));
  std::vector<std::uint8_t> read;
  EXPECT_EQ(archive.read(policy::digest_of(six), read), "");
  EXPECT_EQ(read, six);
  EXPECT_NE(archive.read(policy::digest_of(other), read), "");
  std::ofstream(directory.path() + "/policies/" + policy::digest_of(six) + ".dynamix") << "x";
  EXPECT_THAT(archive.read(policy::digest_of(six), read), HasSubstr("is damaged"));
}

} // namespace
} // namespace dynamix::node
