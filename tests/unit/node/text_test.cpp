#include "node/reports/text.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace dynamix::node {
namespace {

TEST(Text, WritesDurationsAsPeopleReadThem) {
  EXPECT_EQ(duration(0), "0 s");
  EXPECT_EQ(duration(59.4), "59 s");
  EXPECT_EQ(duration(60), "1:00");
  EXPECT_EQ(duration(3599), "59:59");
  EXPECT_EQ(duration(7384), "2:03:04");
  EXPECT_EQ(duration(-1), "-");
  EXPECT_EQ(duration(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(Text, GroupsDigits) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
}

TEST(Text, TellsWhatTheLedgerLacks) {
  EXPECT_EQ(ledger::decisions_made_text(3400, 3400), "3,400 made");
  EXPECT_EQ(ledger::decisions_made_text(1200, 3400), "1,200 made by the ledger, which lacks 2,200 or more");
}

TEST(Text, DrawsValuesOnALogarithmicScale) {
  EXPECT_EQ(sparkline({32, 1024}, 32, 1024, 10), "▁█");
  EXPECT_EQ(sparkline({1, 5000}, 32, 1024, 10), "▁█") << "out of range is cut off";
  EXPECT_EQ(sparkline({64, 64}, 64, 64, 10), "▁▁") << "no range";
  EXPECT_EQ(sparkline({}, 32, 1024, 10), "");
  EXPECT_EQ(sparkline({32, 32, 32, 1024}, 32, 1024, 2), "▁█") << "the first and the last are kept";
  EXPECT_EQ(sparkline({32, 1024}, 32, 1024, 1), "▁");
}

TEST(Text, MakesTheWordsOfOthersPrintable) {
  EXPECT_EQ(printable("a\x1b[31mb\nc"), "a [31mb c");
  EXPECT_EQ(printable("abcdef", 3), "abc");
  EXPECT_EQ(printable("\xc2\x9b"
                      "31m \xc2\xa9"),
            "  31m \xc2\xa9"); // a terminal's control in one character
  EXPECT_EQ(printable("ab\xe2\x82\xac", 4), "ab");
}

TEST(Text, ListsNames) {
  EXPECT_EQ(listed(std::vector<std::string>{}), "");
  EXPECT_EQ(listed(std::vector<std::string>{"ada"}), "ada");
  EXPECT_EQ(listed(std::vector<int>{1, 2, 3}, [](int number) { return std::to_string(number); }), "1, 2, 3");
}

TEST(Text, QuotesWhatAShellWouldTakeApart) {
  EXPECT_EQ(shell_quoted("--set"), "--set");
  EXPECT_EQ(shell_quoted("runs/a_b.toml"), "runs/a_b.toml");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("ppo.scales=[70, 100]"), "'ppo.scales=[70, 100]'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted("/data/l\xc3\xa4ufe"), "'/data/l\xc3\xa4ufe'");
  EXPECT_EQ(shell_quoted("a\\"), "'a'\\\\''") << "a backslash before a quote means something to fish";
}

} // namespace
} // namespace dynamix::node
