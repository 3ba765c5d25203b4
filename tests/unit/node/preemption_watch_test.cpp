#include "node/launch/preemption_watch.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/wait_until.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fmt/core.h>
#include <functional>
#include <future>
#include <string>

namespace dynamix::node {
namespace {

TEST(PreemptionNotice, SaysAtItsBeginningOrOnALineHowLongTheHostStays) {
  EXPECT_EQ(seconds_of_notice("120\n"), 120);
  EXPECT_EQ(seconds_of_notice("30.5s"), 30.5);
  EXPECT_EQ(seconds_of_notice("25 seconds are left"), 25);
  EXPECT_EQ(seconds_of_notice("terminate\n 40 \n"), 40);
  EXPECT_EQ(seconds_of_notice("in 40 s\n"), 0) << "it may be any number";
  EXPECT_EQ(seconds_of_notice("terminate"), 0) << "it does not say";
  EXPECT_EQ(seconds_of_notice(""), 0);
  EXPECT_EQ(seconds_of_notice("99999999999999999999"), 86400);
  EXPECT_EQ(seconds_of_notice("-5"), 0);
}

/// AWS: `spot/instance-action` and, in its older form, `spot/termination-time`.
TEST(PreemptionNotice, SaysNoSecondsInADate) {
  EXPECT_EQ(seconds_of_notice("{\"action\": \"terminate\", \"time\": \"2026-11-28T08:22:00Z\"}"), 0);
  EXPECT_EQ(seconds_of_notice("{\n\"action\": \"stop\",\n\"time\": \"2026-11-28T08:22:00Z\"\n}\n"), 0);
  EXPECT_EQ(seconds_of_notice("2026-11-28T08:22:00Z\n"), 0);
}

class PreemptionWatch : public ::testing::Test {
protected:
  preemption_notice await(
      const std::string& source, const std::function<void()>& give = [] {}) {
    std::promise<preemption_notice> told;
    const preemption_watch watch(source, directory.path() + "/said",
                                 [&](const auto& notice) { told.set_value(notice); });
    give();
    return told.get_future().get();
  }
  const temporary_directory directory;
};

TEST_F(PreemptionWatch, TellsOfAFileOnceItIsThere) {
  const auto path = directory.path() + "/notice";
  const auto notice = await(path, [&] { ASSERT_EQ(storage::write_file_atomically(path, "25 s"), ""); });
  EXPECT_EQ(notice.seconds, 25);
  EXPECT_EQ(notice.source, path);
}

TEST_F(PreemptionWatch, TellsOfACommandThatEndsWell) {
  EXPECT_EQ(await("command:echo 40").seconds, 40);
}

TEST_F(PreemptionWatch, EndsAtOnceWhileACommandRuns) {
  const preemption_watch watch("command:sleep 1000", directory.path() + "/said",
                               [](const auto&) { ADD_FAILURE() << "nobody gave a notice"; });
}

TEST_F(PreemptionWatch, LeavesNoProcessOfACommandBehind) {
  const auto file = directory.path() + "/id";
  {
    const preemption_watch watch(
        fmt::format("command:sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000' | cat", file),
        directory.path() + "/said", [](const auto&) { ADD_FAILURE() << "nobody gave a notice"; });
    ASSERT_TRUE(wait_until([&] { return std::filesystem::exists(file); }));
  }
  std::string id;
  ASSERT_EQ(storage::read_file(file, 100, id), "");
  const auto lives = [&] {
    std::string state;
    storage::read_file(fmt::format("/proc/{}/stat", std::stoi(id)), 4096, state);
    return !state.empty() && state.find(") Z ") == std::string::npos;
  };
  EXPECT_TRUE(wait_until([&] { return !lives(); }));
  if (lives())
    ::kill(std::stoi(id), SIGKILL);
  EXPECT_FALSE(std::filesystem::exists(directory.path() + "/said"));
}

} // namespace
} // namespace dynamix::node
