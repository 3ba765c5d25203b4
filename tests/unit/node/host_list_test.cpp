#include "node/launch/host_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::node {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names(const host_list& list) {
  std::vector<std::string> found;
  for (const auto& host : list.hosts)
    found.push_back(host.name);
  return list.problem.empty() ? found : std::vector<std::string>{"problem: " + list.problem};
}

TEST(HostList, ReadsNamesAndAddresses) {
  const auto list = parse_host_list(" ada, ben=10.0.0.2,cy=fe80::1,,");
  EXPECT_EQ(list.problem, "");
  EXPECT_THAT(list.hosts,
              ElementsAre(listed_host{"ada", "ada"}, listed_host{"ben", "10.0.0.2"}, listed_host{"cy", "fe80::1"}));
}

TEST(HostList, ReadsNodesAsSlurmWritesThem) {
  EXPECT_THAT(names(parse_host_list("gpu[08-10,2],login")), ElementsAre("gpu08", "gpu09", "gpu10", "gpu2", "login"));
  EXPECT_THAT(parse_host_list("r[1-2]-ib,r1-ib,R1-ib").again, ElementsAre("r1-ib", "R1-ib"));
  EXPECT_THAT(names(parse_host_list("r[1-2]-ib,r1-ib")), ElementsAre("r1-ib", "r2-ib")) << "each host once";
  EXPECT_THAT(names(parse_host_list("tux[1-2]x[1-3]")),
              ElementsAre("tux1x1", "tux1x2", "tux1x3", "tux2x1", "tux2x2", "tux2x3"));
}

TEST(HostList, RefusesWhatNamesNoHosts) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"", "there is no host"},
                                                                  {"=10.0.0.1", "without a name"},
                                                                  {"a[1-2", "has no ]"},
                                                                  {"a1]", "has no ["},
                                                                  {"a[2-1]", "\"2-1\""},
                                                                  {"a[x]", "\"x\""},
                                                                  {"a]1[", "has no ["},
                                                                  {"a b", "\"a b\" is not a name"},
                                                                  {"a[1-99]b[1-99]", "more than 4096"},
                                                                  {"lea@ada", "--ssh \"ssh -l lea\""},
                                                                  {"ada=1.2.3", "\"1.2.3\" is not an address"},
                                                                  {"a[0-4294967295]", "stands for 4294967296 hosts"},
                                                                  {"a[1-x]", "rising range"},
                                                                  {"a[1-4096],b", "more than 4096"},
                                                                  {"a[99999999999]", "neither a number"},
                                                                  {"a:4;b:4", "\"a:4;b:4\" is no host"},
                                                                  {"https://a", "is no host"},
                                                                  {"a:x", "as in \"a:4\""},
                                                                  {"fe80::1%eth0", "has a zone"}};
  for (const auto& [text, words] : cases)
    EXPECT_THAT(parse_host_list(text).problem, HasSubstr(words)) << text;
}

TEST(HostList, ReadsHostfiles) {
  EXPECT_THAT(names(parse_hostfile("# the lab's\nada slots=4\n\nben:2  # slow\r\nada\ncy\tmax_slots=1")),
              ElementsAre("ada", "ben", "cy"));
  EXPECT_THAT(parse_hostfile("a slots=8\nb lots=8 \nc slots= max_slots=2\nd 4 all.q@d <NULL>\n").left_aside,
              ElementsAre("line 2: \"lots=8\"", "line 3: \"slots=\""));
  EXPECT_THAT(parse_hostfile("a b\nc 8 all.q@c UNDEFINED\nd lea@e\n").left_aside,
              ElementsAre("line 1: \"b\"", "line 3: \"lea@e\""))
      << "hosts, of which a line has one";
  for (const auto* line : {"fd00::7 slots=2", "[fd00::7]:4", "[fd00::7]"})
    EXPECT_THAT(parse_hostfile(line).hosts, ElementsAre(listed_host{"fd00--7", "fd00::7"})) << line;
  EXPECT_THAT(names(parse_hostfile("gpu_01\na:2:mlx5_0\nAda\nada\n")), ElementsAre("gpu_01", "a", "Ada"))
      << "capitals mean the same";
  EXPECT_THAT(names(parse_host_list("a:4,b:2")), ElementsAre("a", "b"));
  EXPECT_THAT(parse_hostfile("# none\n").problem, HasSubstr("there is no host"));
  EXPECT_THAT(parse_hostfile("ada\n\nlea@ben\n").problem, HasSubstr("line 3: \"lea@ben\" names a user"));
}

/// As editors of other systems save them.
TEST(HostList, ReadsHostfilesByTheirByteOrderMark) {
  EXPECT_THAT(names(parse_hostfile("\xef\xbb\xbf"
                                   "ada\r\nben\r\n")),
              ElementsAre("ada", "ben"));
  std::string little = "\xff\xfe", big = "\xfe\xff";
  for (const char c : std::string("ada slots=4\r\nben\r\n")) {
    little += {c, '\0'};
    big += {'\0', c};
  }
  EXPECT_THAT(names(parse_hostfile(little)), ElementsAre("ada", "ben"));
  EXPECT_THAT(names(parse_hostfile(big)), ElementsAre("ada", "ben"));
}

} // namespace
} // namespace dynamix::node
