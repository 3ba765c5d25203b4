/// What dynamix-node refuses before it trains: the reason is told, and nothing is written over.

#include "storage/atomic_file.hpp"
#include "tests/cluster/trial.hpp"
#include "tests/loopback_address.hpp"

#include <cstdlib>
#include <filesystem>
#include <sys/socket.h>
#include <unistd.h>

namespace dynamix::cluster_test {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

/// Listens on a port of loopback.
class listener {
public:
  explicit listener(std::uint16_t port) : descriptor_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    auto address = loopback_address(port);
    EXPECT_EQ(bind(descriptor_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(descriptor_, 1), 0);
  }
  listener(const listener&) = delete;
  ~listener() { close(descriptor_); }

private:
  int descriptor_;
};

class Refusal : public trial {
protected:
  /// Moves w1 beyond loopback, to an address from TEST-NET-3, which no machine has: nothing can listen there.
  void write_file_beyond_loopback() {
    write_file({});
    replace_in_file("name = \"w1\"", "address = \"203.0.113.1\"\nname = \"w1\"");
  }

  /// `local` ends so, with a message of this kind at a line and column of the cluster file, without a run directory.
  void expect_refusal_by_local(const std::string& message, int code = 2) {
    const auto ended = start_local().wait();
    EXPECT_EQ(ended.code, code) << ended.output;
    EXPECT_THAT(ended.output, ContainsRegex(file() + ":[0-9]+:[0-9]+: .*" + message));
    EXPECT_FALSE(run().exists());
  }

  /// A finished run of one worker, with a checkpoint of each half.
  void train_briefly() {
    write_file({.slowdowns = {1}, .epochs = 0.2, .training = "checkpoint_every_epochs = 0.1\n"});
    const auto ended = start_local().wait();
    ASSERT_EQ(ended.code, 0) << ended.output;
  }

  std::vector<std::string> checkpoints() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(run().checkpoints()))
      if (entry.path().extension() == ".safetensors")
        paths.push_back(entry.path().string());
    std::ranges::sort(paths);
    return paths;
  }

  static void damage(const std::string& path) {
    auto bytes = contents_of(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    ASSERT_EQ(storage::write_file_atomically(path, bytes), "");
  }
};

TEST_F(Refusal, SaysWhatToInstallWhereNothingTrains) {
  write_file({});
  ASSERT_EQ(::setenv("DYNAMIX_TRAINER", "/nowhere/libdynamix-trainer.so", 1), 0);
  expect_refusal_by_local("there is no /nowhere/libdynamix-trainer.so; install the package dynamix-trainer");
  const auto worker = start_host("w0").wait();
  EXPECT_EQ(worker.code, 2);
  EXPECT_THAT(worker.output, HasSubstr("install the package dynamix-trainer"));
  const auto hub = start_host("hub").wait();
  EXPECT_EQ(hub.code, 2) << "its policy learns";
  EXPECT_THAT(hub.output, HasSubstr("arbitrator.mode is \"train\""));
  ::unsetenv("DYNAMIX_TRAINER");
}

TEST_F(Refusal, OfAPortInUse) {
  write_file({});
  const listener other(port(1));
  constexpr int may_be_free_later = 1;
  expect_refusal_by_local("host \"w0\" cannot listen at 127.0.0.1:" + std::to_string(port(1)) +
                              ": another process does",
                          may_be_free_later);
}

TEST_F(Refusal, OfAPortInUseByOneHost) {
  write_file({});
  const listener other(port(0));
  const auto ended = start_host("hub").wait();
  EXPECT_EQ(ended.code, 1);
  EXPECT_THAT(ended.output,
              HasSubstr("cannot listen at 127.0.0.1:" + std::to_string(port(0)) + ": another process does"));
  EXPECT_THAT(ended.output, Not(HasSubstr("actors_still_running"))) << "an actor outlived the shut-down";
}

TEST_F(Refusal, OfAnUnreadableDataSet) {
  write_file({.dataset = directory_.path() + "/nowhere"});
  const std::string message = "there is neither " + directory_.path() + "/nowhere/train-images-idx3-ubyte";
  expect_refusal_by_local(message);
  const auto ended = start_host("w0").wait();
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, HasSubstr(message));
}

TEST_F(Refusal, OfAnAddressBeyondLoopbackYieldsToTheFlag) {
  write_file_beyond_loopback();
  const auto refused = start_host("w1").wait();
  EXPECT_EQ(refused.code, 2) << refused.output;
  EXPECT_THAT(refused.output, HasSubstr("--insecure"));
  EXPECT_THAT(end_of({"check", "--cluster", file()}).output, ContainsRegex("warning: .*203\\.0\\.113\\.1.*--insecure"));
  const auto ended = start({"run", "--cluster", file(), "--name", "w1", "--out", run().path(), "--insecure"}).wait();
  EXPECT_EQ(ended.code, 1) << "the flag was heeded: this is what is wrong next";
  EXPECT_THAT(ended.output, AllOf(HasSubstr("cannot listen at 203.0.113.1"), Not(HasSubstr("--insecure"))));
  replace_in_file("seed = 3", "seed = 3\ninsecure = true");
  EXPECT_THAT(end_of({"check", "--cluster", file()}).output, Not(HasSubstr("warning")));
}

TEST_F(Refusal, OfARunDirectoryInUse) {
  write_file({});
  ASSERT_EQ(run().create(), "");
  ASSERT_EQ(storage::write_file_atomically(run().ledger(), std::string("kept\n")), "");
  const auto before = files_below(run().path());
  const auto ended = start_local().wait();
  EXPECT_EQ(ended.code, 2);
  EXPECT_THAT(ended.output, HasSubstr(run().path() + " exists and is not empty"));
  const auto by_hand = start_host("hub").wait();
  EXPECT_EQ(by_hand.code, 2);
  EXPECT_THAT(by_hand.output, HasSubstr(run().path() + " holds a run of host hub already"));
  EXPECT_EQ(files_below(run().path()), before);
}

TEST_F(Refusal, OfDamagedCheckpoints) {
  train_briefly();
  const auto paths = checkpoints();
  ASSERT_GE(paths.size(), 2U);
  for (const auto& path : paths)
    damage(path);
  const auto before = files_below(run().path());
  const auto ended = end_of({"local", "--resume", run().path()});
  EXPECT_EQ(ended.code, 1) << ended.output;
  for (const auto& path : paths)
    EXPECT_THAT(ended.output, ContainsRegex(path + ".*checksum"));
  const auto by_hand = start_host("w0", "--resume").wait();
  EXPECT_EQ(by_hand.code, 1) << by_hand.output;
  EXPECT_THAT(by_hand.output, ContainsRegex(paths.back() + ".*checksum"));
  EXPECT_EQ(files_below(run().path()), before) << "something was written over";
}

TEST_F(Refusal, OfTheNewestCheckpointFallsBackToTheOneBefore) {
  train_briefly();
  const auto paths = checkpoints();
  ASSERT_GE(paths.size(), 2U);
  damage(paths.back());
  const auto ended = end_of({"local", "--resume", run().path(), "--epochs", "0.3"}); // it has come to its end
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(ended.output, ContainsRegex("warning: .*" + paths.back() + ".*checksum"));
}

} // namespace
} // namespace dynamix::cluster_test
