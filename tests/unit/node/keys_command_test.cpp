#include "cluster/cluster_file.hpp"
#include "dashboard/dashboard.hpp"
#include "ledger/codec.hpp"
#include "links/file_signature.hpp"
#include "links/free_port.hpp"
#include "links/identity.hpp"
#include "links/private_file.hpp"
#include "node/launch/shipped_files.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/links/link_pair.hpp"
#include "tests/unit/node/command_answer.hpp"
#include "tests/unit/node/sample_run.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <httplib.h>
#include <thread>

namespace dynamix::node {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

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
  EXPECT_THAT(stranger.err, HasSubstr("not a host of"));
  EXPECT_EQ(keys_command("issue").code, exit_refused);
  EXPECT_EQ(ask({"keys"}).code, exit_refused);
}

TEST_F(KeysCommand, FindsThemWhereTheFileOrTheOptionSays) {
  EXPECT_EQ(keys_command("init", {"--keys", directory_.path() + "/other/"}).code, exit_done);
  EXPECT_EQ(keys_command("show", {"--set", "security.keys=other"}).code, exit_done);
  EXPECT_EQ(keys_command("show").code, exit_failed) << "there are none beside the file";
}

TEST_F(KeysCommand, MakesWhatAPolicyThatTheFileNamesIsCheckedBy) {
  ASSERT_EQ(keys_command("init").code, exit_done);
  auto policy = directory_.path() + "/policy.dynamix";
  const auto start = [&] { // refused before it opens a port: there is no directory for the run
    return ask({"run", "--cluster", file(), "--keys", keys(), "--name", "ada", "--without-worker", "--out",
                file() + "/run", "--set", "arbitrator.policy=ppo", "--set", "arbitrator.policy_file=" + policy});
  };
  const std::string text = "parameters";
  const auto write = links::signing_writer(links::host_directory(keys(), "ben"), "ben");
  ASSERT_EQ(write(policy, {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}), "");
  const auto trusted = start();
  EXPECT_EQ(trusted.code, exit_failed) << trusted.err;
  EXPECT_THAT(trusted.err, Not(AnyOf(HasSubstr("changed since"), HasSubstr("signed by nobody"))));

  ASSERT_EQ(storage::write_file_atomically(policy, "others"), "");
  const auto changed = start();
  EXPECT_EQ(changed.code, exit_refused);
  EXPECT_THAT(changed.err, AllOf(HasSubstr(policy), HasSubstr("changed since")));

  std::filesystem::remove(policy + ".sig");
  const auto unsigned_one = start();
  EXPECT_EQ(unsigned_one.code, exit_failed);
  EXPECT_THAT(unsigned_one.err, HasSubstr("warning: " + policy + " is signed by nobody"));

  policy = find_shipped("policies/ppo.dynamix");
  ASSERT_NE(policy, "");
  const auto shipped = start();
  EXPECT_EQ(shipped.code, exit_failed);
  EXPECT_THAT(shipped.err, Not(HasSubstr("signed by nobody"))) << "it is as good as the program";
}

TEST_F(KeysCommand, MakesWhatDoctorAndCheckLookAt) {
  const auto doctor = [&] { return ask({"doctor", "--cluster", file()}).out; };
  EXPECT_THAT(doctor(), ContainsRegex("keys +no +" + file() + " names none"));
  ASSERT_EQ(storage::write_file_atomically(file(), cluster::to_toml(pair_file("[security]\nkeys = \"keys\"\n"))), "");
  EXPECT_THAT(doctor(), ContainsRegex("keys +no .*dynamix-node keys init makes the directory"));
  ASSERT_EQ(keys_command("init").code, exit_done);
  EXPECT_THAT(doctor(), ContainsRegex("keys +yes +" + keys()));
  EXPECT_EQ(ask({"check", "--cluster", file()}).err, "");
  ASSERT_EQ(keys_command("issue", {"--host", "ben", "--days", "20"}).code, exit_done);
  EXPECT_THAT(doctor(), ContainsRegex("keys +no +the certificate of host ben expires in "));
  EXPECT_THAT(ask({"check", "--cluster", file()}).err, HasSubstr("the certificate of host ben expires in "));
}

TEST_F(KeysCommand, AreNotAskedForByCheckWhichWarnsOfATokenInTheClear) {
  const auto check = [&](const std::string& listen, const std::string& tls) {
    return ask({"check", "--cluster", file(), "--set", "security.keys=keys", "--set", "dashboard.listen=" + listen,
                "--set", "dashboard.token_file=token", "--set", "dashboard.tls=" + tls})
        .err;
  };
  const std::string warning = "goes in plain HTTP: whoever reads the network reads its token";
  EXPECT_THAT(check("10.0.0.1:8080", "off"), HasSubstr("the page at 10.0.0.1:8080 " + warning));
  EXPECT_THAT(check("10.0.0.1:8080", "host"), Not(HasSubstr(warning)));
  EXPECT_THAT(check("127.0.0.1:8080", "off"), Not(HasSubstr(warning)));
}

TEST_F(KeysCommand, MakesWhatTopReadsAnEncryptedPageBy) {
  ASSERT_EQ(links::make_keys(keys(), {.cluster = "page", .hosts = {"localhost"}, .now_seconds = std::time(nullptr)}),
            "");
  const auto own = links::host_directory(keys(), "localhost");
  const auto port = std::to_string(links::take_free_port());
  auto file = pair_file();
  file.dashboard = {.listen = "127.0.0.1:" + port,
                    .token_file = directory_.path() + "/token",
                    .tls = cluster::page_tls::file,
                    .certificate_file = own + "/host.crt",
                    .key_file = own + "/host.key"};
  ASSERT_EQ(links::write_private_file(file.dashboard.token_file, "0123456789abcdef0123\n"), "");
  std::ofstream(directory_.path() + "/windows.jsonl")
      << ledger::to_json_line({.at_seconds = 0, .entry = start_row()}) << "\n";
  const auto page = dashboard::start(file, "", directory_.path() + "/windows.jsonl");
  const auto top = [&](const std::string& name, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"top", "--url", "https://" + name + ":" + port};
    words.insert(words.end(), more.begin(), more.end());
    return ask(words);
  };
  const std::vector<std::string> known = {"--ca", own + "/ca.crt", "--token-file", file.dashboard.token_file};
  EXPECT_TRUE(wait_until([&] { return top("localhost", known).code == exit_done; })) << top("localhost", known).err;
  EXPECT_THAT(top("localhost", known).out, HasSubstr("pair"));
  EXPECT_THAT(top("localhost", {"--ca", own + "/ca.crt"}).err, HasSubstr("asks for its token"));
  EXPECT_THAT(top("localhost", {}).err, HasSubstr("does not prove its name; --ca says"));
  EXPECT_THAT(top("127.0.0.1", known).err, HasSubstr("does not prove its name"));
}

TEST(TopCommand, ReadsNoMoreOfAnAnswerThanAPageHas) {
  httplib::Server endless;
  const std::string block(1U << 16, ' ');
  std::size_t sent = 0;
  endless.Get("/api/state", [&](const httplib::Request&, httplib::Response& answer) {
    answer.set_chunked_content_provider("application/json", [&](std::size_t, httplib::DataSink& sink) {
      sent += block.size();
      return sent < (1U << 30) && sink.write(block.data(), block.size());
    });
  });
  const auto port = endless.bind_to_any_port("127.0.0.1");
  std::thread serving([&] { endless.listen_after_bind(); });
  const auto said = ask({"top", "--url", "http://127.0.0.1:" + std::to_string(port)});
  endless.stop();
  serving.join();
  EXPECT_EQ(said.code, exit_refused);
  EXPECT_THAT(said.err, HasSubstr("answers with more than 32 MiB, or for more than 10 s"));
  EXPECT_LT(sent, 256U << 20);
}

} // namespace
} // namespace dynamix::node
