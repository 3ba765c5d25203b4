#include "node/launch/preemption_watch.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <string>

namespace dynamix::node {
namespace {

TEST(PreemptionNotice, SaysInItsFirstNumberHowLongTheHostStays) {
  EXPECT_EQ(seconds_of_notice("120\n"), 120);
  EXPECT_EQ(seconds_of_notice("{\"action\": \"terminate\", \"seconds\": 30.5}"), 30.5);
  EXPECT_EQ(seconds_of_notice("terminate"), 0) << "it does not say";
  EXPECT_EQ(seconds_of_notice(""), 0);
  EXPECT_EQ(seconds_of_notice("99999999999999999999"), 86400);
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

} // namespace
} // namespace dynamix::node
