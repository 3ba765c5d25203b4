/// Hosts that the cluster file does not name come and go in mid-training.

#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <map>
#include <set>

namespace dynamix::cluster_test {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class OpenCluster : public trial {
protected:
  /// The worker w0, whose steps are slow, and places for others; far more epochs than anybody waits for.
  void write_open_file(std::uint32_t workers_max, const std::string& more = "") {
    write_file({.slowdowns = {5},
                .epochs = 1000,
                .more = more,
                .training = "evaluate_every_epochs = 1000\ncheckpoint_every_epochs = 1000\n",
                .arbitrator = "policy = \"static\"\n",
                .cluster = patient_cluster + "membership = \"open\"\nworkers_min = 1\nworkers_max = " +
                           std::to_string(workers_max) + "\n"});
  }
  nlohmann::json summary() const { return nlohmann::json::parse(contents_of(run().summary())); }

  /// Waits until the newest generation is of so many workers and has reported a window of all; returns its members.
  std::vector<std::string> members_when(std::size_t count) const {
    std::vector<std::string> members;
    EXPECT_TRUE(wait_until([&] {
      const auto formed = generations();
      const auto reported = windows();
      if (formed.empty() || formed.back().members.size() != count || reported.empty() ||
          reported.back().generation != formed.back().generation || reported.back().workers.size() != count)
        return false;
      members = formed.back().members;
      return true;
    })) << count
        << " workers";
    return members;
  }
};

TEST_F(OpenCluster, GrowsAndShrinksFromOneToEightWithEverySampleDealtOnceAnEpoch) {
  write_open_file(8);
  auto arbitrator = start_host("hub");
  auto listed = start_host("w0");
  members_when(1);
  std::map<std::string, program> guests;
  const auto start_guest = [&](int number) {
    const auto name = "guest" + std::to_string(number);
    guests.emplace(name, start_host(name));
  };
  std::map<std::uint64_t, std::set<std::uint64_t>> parameters; // of those who left, by the step that they left behind
  const auto expect_left = [&](const std::string& name) {
    EXPECT_EQ(guests.at(name).wait().code, 0) << guests.at(name).said();
    const auto said = farewell_of(name);
    EXPECT_THAT(said.reason, HasSubstr("left: its host was asked to end, after step"));
    parameters[said.steps].insert(said.parameter_checksum);
    guests.erase(name);
  };

  for (const int until : {2, 4, 8}) {
    for (int number = until / 2; number < until; ++number)
      start_guest(number);
    EXPECT_EQ(members_when(static_cast<std::size_t>(until)).front(), "w0");
  }
  const auto all = members_when(8);
  EXPECT_EQ(all[1], "guest1") << "the first place is the first guest's";
  for (const std::size_t until : {4U, 2U, 1U}) {
    const auto members = members_when(2 * until);
    for (std::size_t rank = until; rank < members.size(); ++rank)
      guests.at(members[rank]).signal(SIGTERM);
    for (std::size_t rank = until; rank < members.size(); ++rank)
      expect_left(members[rank]);
    EXPECT_EQ(members_when(until),
              std::vector<std::string>(members.begin(), members.begin() + static_cast<int>(until)));
  }

  // One that returns has its rank again.
  guests.emplace("guest1", start_host("guest1", "--resume"));
  EXPECT_EQ(members_when(2), (std::vector<std::string>{"w0", "guest1"}));
  EXPECT_EQ(windows().back().workers.back().report.rank, 1U);
  arbitrator.signal(SIGTERM); // the only one: training ends
  EXPECT_EQ(arbitrator.wait().code, 130) << arbitrator.said();
  EXPECT_EQ(listed.wait().code, 3) << "before its end\n" << listed.said();
  EXPECT_EQ(guests.at("guest1").wait().code, 3) << guests.at("guest1").said();

  const auto last = farewell_of("w0");
  EXPECT_EQ(last.steps, farewell_of("guest1").steps);
  EXPECT_EQ(last.parameter_checksum, farewell_of("guest1").parameter_checksum);
  for (const auto& [step, checksums] : parameters)
    EXPECT_THAT(checksums, SizeIs(1)) << "of those who left behind step " << step;
  for (const auto& formed : generations())
    EXPECT_EQ(formed.steps_lost, 0U) << "generation " << formed.generation << ": " << formed.reason;
  EXPECT_EQ(summary()["samples_dropped"], 0);
  EXPECT_EQ(summary()["samples_repeated"], 0);
  EXPECT_EQ(summary()["decisions"]["lost"], 0);
  EXPECT_EQ(summary()["workers"], 8);
  for (const auto* key : {"epochs", "generations", "samples", "steps"}) // for benchmarks/results
    RecordProperty(key, summary()[key].dump());
  EXPECT_EQ(summary()["per_worker"][1]["host"], "guest1");
}

TEST_F(OpenCluster, WithKeysTakesWhoeverHasACertificateAndTellsOneTooManyToWait) {
  write_open_file(2, "[security]\nkeys = \"keys\"\n");
  ASSERT_EQ(end_of({"keys", "init", "--cluster", file()}).code, 0);
  for (const auto* host : {"guest", "other", "late"})
    ASSERT_EQ(end_of({"keys", "issue", "--cluster", file(), "--host", host}).code, 0);
  auto arbitrator = start_host("hub");
  auto listed = start_host("w0");
  auto guest = start_host("guest");
  EXPECT_EQ(members_when(2), (std::vector<std::string>{"w0", "guest"})) << guest.said();
  auto other = start_host("other");
  EXPECT_TRUE(wait_until([&] { return other.says("waits_for_place"); })) << other.said();
  EXPECT_THAT(other.said(), HasSubstr("all 1 places of the cluster are taken (cluster.workers_max is 2)"));
  other.signal(SIGTERM);
  EXPECT_EQ(other.wait().code, 0) << other.said();

  // A new arbitrator knows whose the places are.
  arbitrator.signal(SIGKILL);
  arbitrator.wait();
  auto successor = start_host("hub", "--resume");
  EXPECT_TRUE(wait_until([&] { return guest.says("arbitrator_is_back"); })) << guest.said();
  EXPECT_EQ(members_when(2), (std::vector<std::string>{"w0", "guest"})) << guest.said();
  auto late = start_host("late");
  EXPECT_TRUE(wait_until([&] { return late.says("waits_for_place"); })) << late.said();
  successor.signal(SIGTERM);
  EXPECT_EQ(successor.wait().code, 130) << successor.said();
  for (auto* one : {&listed, &guest})
    EXPECT_EQ(one->wait().code, 3) << "before its end\n" << one->said();
  EXPECT_EQ(late.wait().code, 0) << late.said();
  EXPECT_THAT(late.said(), HasSubstr("host_ended reason=\"training is over"));
  EXPECT_EQ(farewell_of("w0").parameter_checksum, farewell_of("guest").parameter_checksum);
}

TEST_F(OpenCluster, IsNoneWhereTheFileDoesNotSaySo) {
  write_file({.slowdowns = {1}});
  const auto refused = start_host("guest").wait();
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("--name is guest, which is not a host of"));
  EXPECT_THAT(refused.output, HasSubstr("cluster.membership = \"open\""));
}

} // namespace
} // namespace dynamix::cluster_test
