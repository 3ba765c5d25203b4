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
  EXPECT_THAT(names(parse_host_list("r[1-2]-ib,r1-ib")), ElementsAre("r1-ib", "r2-ib")) << "each host once";
}

TEST(HostList, RefusesWhatNamesNoHosts) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"", "there is no host"},
                                                                  {"=10.0.0.1", "without a name"},
                                                                  {"a[1-2", "has no ]"},
                                                                  {"a1]", "has no ["},
                                                                  {"a[2-1]", "\"2-1\""},
                                                                  {"a[x]", "\"x\""},
                                                                  {"a[1-2]b[1-2]", "more than one"},
                                                                  {"a[0-4294967295]", "rising range"},
                                                                  {"a[1-4096],b", "more than 4096"},
                                                                  {"a[99999999999]", "no number"}};
  for (const auto& [text, words] : cases)
    EXPECT_THAT(parse_host_list(text).problem, HasSubstr(words)) << text;
}

TEST(HostList, ReadsHostfiles) {
  EXPECT_THAT(names(parse_hostfile("# the lab's\nada slots=4\n\nben:2  # slow\r\nada\ncy\tmax_slots=1")),
              ElementsAre("ada", "ben", "cy"));
  EXPECT_THAT(names(parse_hostfile("fd00::7 slots=2")), ElementsAre("fd00::7"))
      << "which `init` then refuses as a name";
  EXPECT_THAT(names(parse_hostfile("\xEF\xBB\xBF"
                                   "ada\r\nben")),
              ElementsAre("ada", "ben"))
      << "a byte order mark";
  EXPECT_EQ(parse_hostfile("[::1]:4\n[fd00::7%eth0] slots=2").hosts,
            (std::vector<listed_host>{{"ip---1", "::1"}, {"ip-fd00--7", "fd00::7%eth0"}}));
  EXPECT_THAT(parse_hostfile("# none\n").problem, HasSubstr("there is no host"));
}

} // namespace
} // namespace dynamix::node
