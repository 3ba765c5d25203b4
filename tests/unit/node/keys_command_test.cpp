#include "cluster/cluster_file.hpp"
#include "storage/atomic_file.hpp"
#include "tests/unit/node/command_answer.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

class KeysCommand : public ::testing::Test {
protected:
  KeysCommand() { EXPECT_EQ(storage::write_file_atomically(file(), cluster::to_toml(pair_file(""))), ""); }
  std::string file() const { return directory_.path() + "/cluster.toml"; }
  std::string keys() const { return directory_.path() + "/keys"; }
  answer keys_command(const std::string& name, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> arguments = {"keys", name, "--cluster", file()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return ask(arguments);
  }

  temporary_directory directory_;
};

TEST_F(KeysCommand, MakesRenewsAndShowsKeysBesideTheClusterFile) {
  const auto made = keys_command("init");
  EXPECT_EQ(made.code, exit_done) << made.err;
  EXPECT_THAT(made.out, AllOf(HasSubstr("2 hosts in " + keys()), HasSubstr("Copy " + keys() + "/hosts/NAME")));

  const auto shown = keys_command("show");
  EXPECT_EQ(shown.code, exit_done);
  EXPECT_THAT(shown.out, AllOf(HasSubstr("hosts/ada/host.crt\n    host ada"), HasSubstr("SHA-256 "),
                               HasSubstr("authority/ca.crt")));
  EXPECT_EQ(shown.err, "");

  const auto issued = keys_command("issue", {"--host", "ada", "--days", "20"});
  EXPECT_EQ(issued.code, exit_done) << issued.err;
  EXPECT_THAT(keys_command("show").err, HasSubstr("warning: the certificate of host ada expires in "));

  for (const auto* step : {"Step 1 of 3", "Step 2 of 3", "Step 3 of 3"}) {
    const auto rotated = keys_command("rotate");
    EXPECT_EQ(rotated.code, exit_done) << rotated.err;
    EXPECT_THAT(rotated.out, HasSubstr(step));
  }
}

TEST_F(KeysCommand, RefusesWhatItCannotDo) {
  EXPECT_THAT(keys_command("show").err, HasSubstr("dynamix-node keys init makes the directory"));
  EXPECT_EQ(keys_command("rotate").code, exit_failed);
  EXPECT_EQ(keys_command("init").code, exit_done);
  const auto again = keys_command("init");
  EXPECT_EQ(again.code, exit_failed);
  EXPECT_THAT(again.err, HasSubstr("exists and is not empty"));
  const auto stranger = keys_command("issue", {"--host", "eve"});
  EXPECT_EQ(stranger.code, exit_refused);
  EXPECT_THAT(stranger.err, HasSubstr("no host of"));
  EXPECT_EQ(keys_command("issue").code, exit_refused);
  EXPECT_EQ(ask({"keys"}).code, exit_refused);
}

TEST_F(KeysCommand, FindsThemWhereTheFileOrTheOptionSays) {
  EXPECT_EQ(keys_command("init", {"--keys", directory_.path() + "/other/"}).code, exit_done);
  EXPECT_EQ(keys_command("show", {"--set", "security.keys=other"}).code, exit_done);
  EXPECT_EQ(keys_command("show").code, exit_failed) << "there are none beside the file";
}

} // namespace
} // namespace dynamix::node
