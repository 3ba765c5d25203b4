#include "tests/unit/links/temporary_keys.hpp"

#include <gmock/gmock.h>

#include <map>

namespace dynamix::links {
namespace {

using namespace testing;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t noon = 1'800'000'000;

class KeyDirectory : public ::testing::Test {
protected:
  void SetUp() override { ASSERT_EQ(make_keys(keys_.path(), request_of({"ada", "ben"}, noon)), ""); }

  identity read(const std::string& host) {
    identity found;
    EXPECT_EQ(read_identity(host_directory(keys_.path(), host), host, noon, found), "") << host;
    return found;
  }
  /// Whether a host with `own` files would accept the certificate of `other`.
  static bool accepts(const identity& own, const identity& other, const temporary_keys& scratch) {
    const auto mixed = scratch.path("mixed");
    EXPECT_EQ(make_private_directory(mixed), "");
    EXPECT_EQ(write_private_file(mixed + "/" + key_file, other.own.key), "");
    EXPECT_EQ(write_private_file(mixed + "/" + certificate_file, other.own.certificate), "");
    EXPECT_EQ(write_private_file(mixed + "/" + authorities_file, own.authorities), "");
    identity ignored;
    return read_identity(mixed, other.host, noon, ignored).empty();
  }

  rotation_step rotate() {
    rotation_step made{};
    EXPECT_EQ(rotate_keys(keys_.path(), request_of({"ada", "ben"}, noon), made), "");
    return made;
  }

  temporary_keys keys_;
};

TEST_F(KeyDirectory, IsReadableByItsOwnerAlone) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(keys_.path())) {
    const auto mode = static_cast<unsigned>(entry.status().permissions());
    EXPECT_EQ(mode, entry.is_directory() ? 0700U : 0600U) << entry.path();
    files += entry.is_directory() ? 0 : 1;
  }
  EXPECT_EQ(files, 9U) << "three of each host, two of the authority, and what to do with them";
  EXPECT_EQ(static_cast<unsigned>(std::filesystem::status(keys_.path()).permissions()), 0700U);
}

TEST_F(KeyDirectory, SaysWhatToCopyWhere) {
  const auto text = text_of_file(keys_.path() + "/README.txt");
  EXPECT_THAT(text, HasSubstr("Copy this directory to host NAME"));
  EXPECT_THAT(text, HasSubstr("keys = \"keys\""));
}

TEST_F(KeyDirectory, GivesEachHostItsOwnKeyAndNothingOfTheAuthoritys) {
  EXPECT_NE(read("ada").own.key, read("ben").own.key);
  for (const auto& entry : std::filesystem::recursive_directory_iterator(keys_.path() + "/hosts"))
    EXPECT_NE(entry.path().filename(), "ca.key");
}

TEST_F(KeyDirectory, IsNotMadeOverAnother) {
  const auto before = read("ada").own.certificate;
  EXPECT_THAT(make_keys(keys_.path(), request_of({"ada"}, noon)), HasSubstr("exists and is not empty"));
  EXPECT_EQ(read("ada").own.certificate, before);
}

TEST_F(KeyDirectory, IssuesForANewHostAndAnew) {
  ASSERT_EQ(issue_keys(keys_.path(), "cy", request_of({}, noon)), "");
  EXPECT_TRUE(accepts(read("ada"), read("cy"), keys_));
  const auto before = read("ada");
  ASSERT_EQ(issue_keys(keys_.path(), "ada", request_of({}, noon)), "");
  EXPECT_NE(read("ada").own.key, before.own.key);
}

TEST_F(KeyDirectory, ListsAuthoritiesAndHosts) {
  std::vector<listed_certificate> found;
  ASSERT_EQ(list_keys(keys_.path(), found), "");
  std::vector<std::string> paths;
  for (const auto& each : found)
    paths.push_back(each.path);
  EXPECT_THAT(paths, ElementsAre("authority/ca.crt", "hosts/ada/host.crt", "hosts/ben/host.crt"));
  EXPECT_TRUE(found.at(0).facts.is_authority);
  EXPECT_EQ(found.at(2).facts.name, "ben");
  EXPECT_THAT(list_keys(keys_.path("nowhere"), found), HasSubstr("keys init"));
}

TEST_F(KeyDirectory, RotatesSoThatAnyTwoNeighbouringStepsUnderstandEachOther) {
  std::map<int, std::map<std::string, identity>> seen;
  const auto look = [&](int step) {
    for (const auto* host : {"ada", "ben"})
      seen[step][host] = read(host);
  };
  look(0);
  EXPECT_EQ(rotate(), rotation_step::introduced);
  look(1);
  EXPECT_EQ(rotate(), rotation_step::switched);
  look(2);
  EXPECT_EQ(rotate(), rotation_step::finished);
  look(3);
  for (int step = 0; step < 3; ++step) {
    EXPECT_TRUE(accepts(seen[step]["ada"], seen[step + 1]["ben"], keys_)) << step;
    EXPECT_TRUE(accepts(seen[step + 1]["ada"], seen[step]["ben"], keys_)) << step;
  }
  EXPECT_FALSE(accepts(seen[3]["ada"], seen[0]["ben"], keys_)) << "what the first authority signed is worthless";
  EXPECT_FALSE(accepts(seen[0]["ada"], seen[3]["ben"], keys_));
  EXPECT_EQ(rotate(), rotation_step::introduced) << "the next rotation";
}

TEST_F(KeyDirectory, FinishesAStepThatWasInterrupted) {
  rotate();
  const auto next = keys_.path("keys/authority/next.");
  std::map<std::string, std::string> kept;
  for (const auto* suffix : {"crt", "key"})
    ASSERT_EQ(read_private_file(next + suffix, kept[suffix]), "");
  ASSERT_EQ(rotate(), rotation_step::switched);
  for (const auto& [suffix, text] : kept) // as if it had not come to its end
    ASSERT_EQ(write_private_file(next + suffix, text), "");
  EXPECT_EQ(rotate(), rotation_step::switched);
  EXPECT_TRUE(accepts(read("ada"), read("ben"), keys_));
  EXPECT_EQ(rotate(), rotation_step::finished);
  EXPECT_TRUE(accepts(read("ada"), read("ben"), keys_));
}

TEST_F(KeyDirectory, KeepsNoAuthoritysKeyForAPassingRun) {
  const auto passing = keys_.path("passing");
  for (int life = 0; life < 2; ++life) {
    ASSERT_EQ(make_passing_keys(passing, request_of({"ada", "ben"}, noon)), "");
    identity found;
    EXPECT_EQ(read_identity(host_directory(passing, "ben"), "ben", noon, found), "");
  }
  EXPECT_FALSE(std::filesystem::exists(passing + "/authority"));
}

} // namespace
} // namespace dynamix::links
