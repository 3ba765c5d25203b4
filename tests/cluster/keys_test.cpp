/// Hosts with keys: what `dynamix-node keys` makes is what they train with, and strangers are cut.

#include "tests/cluster/trial.hpp"
#include "tests/unit/links/raw_client.hpp"
#include "trainer/checkpoint.hpp"

#include <filesystem>

namespace dynamix::cluster_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Keys : public trial {
protected:
  std::string keys() const { return directory_.path() + "/keys"; }

  /// A long run whose file names keys, which are made.
  void write_file_with_keys() {
    write_file({.epochs = 1000, .more = "[security]\nkeys = \"keys\"\n", .cluster = patient_cluster});
    const auto made = end_of({"keys", "init", "--cluster", file()});
    ASSERT_EQ(made.code, 0) << made.output;
  }
};

TEST_F(Keys, LetHostsTrainThatProveTheirNamesAndNobodyElse) {
  write_file_with_keys();
  std::vector<program> started;
  for (const auto* host : {"hub", "w0", "w1"})
    started.push_back(start_host(host));
  ASSERT_TRUE(wait_for_windows(1)) << "they train";

  const links::testing::raw_socket stranger(port(0));
  stranger.send("GET / HTTP/1.1\r\n\r\n");
  std::string received;
  EXPECT_TRUE(stranger.wait_for_end(received));
  EXPECT_EQ(received, "");
  EXPECT_TRUE(wait_until([&] { return started.front().says("it does not speak TLS"); })) << started.front().said();

  const auto before = windows().size();
  EXPECT_TRUE(wait_for_windows(before + 1)) << "nobody else has noticed";
  started.front().signal(SIGTERM); // the only arbitrator's host: training ends, before its end
  for (auto& each : started)
    EXPECT_EQ(each.wait().code, &each == &started.front() ? 130 : 3) << each.said();
}

TEST_F(Keys, AreRefusedWhereOthersMayReadThemOrTheyAreAnothers) {
  write_file_with_keys();
  const auto key = keys() + "/hosts/w0/host.key";
  std::filesystem::permissions(key, std::filesystem::perms(0644));
  auto refused = start_host("w0").wait();
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, AllOf(HasSubstr(file() + ":"), HasSubstr(key), HasSubstr("chmod 600")));

  std::filesystem::permissions(key, std::filesystem::perms(0600));
  std::filesystem::rename(keys() + "/hosts/w0", keys() + "/hosts/kept");
  std::filesystem::rename(keys() + "/hosts/w1", keys() + "/hosts/w0");
  refused = start_host("w0").wait();
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, HasSubstr("is the certificate of host \"w1\", and this is host \"w0\""));
}

TEST_F(Keys, SignCheckpointsSoThatAResumeRefusesOneThatWasChanged) {
  write_file_with_keys();
  auto local = start({"local", "--cluster", file(), "--out", run().path()});
  ASSERT_TRUE(wait_for_windows(2)) << local.said();
  local.signal(SIGINT);
  local.wait();
  auto newest = trainer::newest_checkpoint(run().checkpoints());
  ASSERT_NE(newest.path, "") << local.said();
  ASSERT_TRUE(std::filesystem::exists(newest.path + ".sig"));
  EXPECT_EQ(std::filesystem::status(newest.path).permissions(), std::filesystem::perms(0600));

  newest.state.best_accuracy = 0.99;
  ASSERT_EQ(trainer::write_checkpoint(newest.path, newest.state), "");
  const auto refused = end_of({"run", "--cluster", file(), "--name", "w0", "--resume", run().path()});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.output, AllOf(HasSubstr(newest.path), HasSubstr("changed since")));
}

TEST_F(Keys, AreMadeForALocalRunAndGoneWhenItIsOver) {
  write_file({.epochs = 1000, .cluster = patient_cluster});
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(1));
  const auto own = run().path() + "/keys";
  EXPECT_EQ(std::filesystem::status(own).permissions(), std::filesystem::perms(0700));
  EXPECT_FALSE(std::filesystem::exists(own + "/authority"));
  const links::testing::raw_socket stranger(port(0));
  stranger.send("plain");
  std::string received;
  EXPECT_TRUE(stranger.wait_for_end(received));
  EXPECT_EQ(received, "");
  local.signal(SIGINT);
  EXPECT_EQ(local.wait().code, 1) << local.said();
  EXPECT_THAT(local.said(), HasSubstr("encrypted, between hosts that have proved who they are"));
  EXPECT_FALSE(std::filesystem::exists(own));
}

TEST_F(Keys, AreLeftOutOfALocalRunThatIsToldSo) {
  write_file({.epochs = 1000, .cluster = patient_cluster});
  auto local = start({"local", "--cluster", file(), "--out", run().path(), "--insecure"});
  ASSERT_TRUE(wait_for_windows(1));
  EXPECT_FALSE(std::filesystem::exists(run().path() + "/keys"));
  const links::testing::raw_socket stranger(port(0));
  EXPECT_TRUE(stranger.wait_for_bytes()) << "CAF talks to whoever connects";
  local.signal(SIGINT);
  EXPECT_EQ(local.wait().code, 1) << local.said();
  EXPECT_THAT(local.said(), HasSubstr("in the clear, between hosts without keys"));
}

} // namespace
} // namespace dynamix::cluster_test
