#include "tests/unit/links/temporary_keys.hpp"

#include <gmock/gmock.h>

namespace dynamix::links {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::int64_t noon = 1'800'000'000;

/// Host ada's files, right as of `noon`.
class Identity : public ::testing::Test {
protected:
  Identity() : authority_(make_authority("pair", valid_for_days(noon, 3650))) {
    write_identity(directory(), authority_, "ada", valid_for_days(noon, 365));
  }
  std::string directory() const { return keys_.path("ada"); }
  std::string at(const char* file) const { return directory() + "/" + file; }
  std::string read(std::int64_t now_seconds = noon, const std::string& host = "ada") {
    return read_identity(directory(), host, now_seconds, identity_);
  }

  temporary_keys keys_;
  credential authority_;
  identity identity_;
};

TEST_F(Identity, IsReadFromItsThreeFiles) {
  EXPECT_EQ(read(), "");
  EXPECT_EQ(identity_.host, "ada");
  EXPECT_EQ(identity_.authorities, authority_.certificate);
  EXPECT_FALSE(identity_.own.key.empty());
}

TEST_F(Identity, IsValidFromADayBeforeItWasIssued) {
  EXPECT_EQ(read(noon - day_seconds), "");
  EXPECT_EQ(read(noon + 365 * day_seconds), "");
}

TEST_F(Identity, NamesAWrongClockWhereItIsNotYetValid) {
  EXPECT_THAT(read(noon - day_seconds - 1), HasSubstr("this clock or the issuer's is wrong"));
  write_identity(directory(), authority_, "ada", valid_for_days(noon + 10 * day_seconds, 365));
  EXPECT_THAT(read(),
              AllOf(HasSubstr("host.crt is not valid before"), HasSubstr("this clock or the issuer's is wrong")));
}

TEST_F(Identity, IsRefusedWhenItHasExpired) {
  EXPECT_THAT(read(noon + 365 * day_seconds + 1),
              AllOf(HasSubstr("host.crt expired on 2028-01-15"), HasSubstr("keys issue --host ada")));
  EXPECT_THAT(read(noon + 3650 * day_seconds + 1), HasSubstr("ca.crt expired on"));
}

TEST_F(Identity, IsRefusedWhereOthersMayReadIt) {
  for (const auto* file : {key_file, certificate_file, authorities_file}) {
    std::filesystem::permissions(at(file), std::filesystem::perms(0640));
    EXPECT_THAT(read(), AllOf(HasSubstr(at(file)), HasSubstr("mode 0640"), HasSubstr("chmod 600"))) << file;
    std::filesystem::permissions(at(file), std::filesystem::perms(0600));
  }
}

TEST_F(Identity, IsRefusedWhereAFileIsMissingOrHoldsNothing) {
  for (const auto* file : {key_file, certificate_file, authorities_file}) {
    write_identity(directory(), authority_, "ada", valid_for_days(noon, 365));
    ASSERT_EQ(write_private_file(at(file), "nothing\n"), "");
    EXPECT_THAT(read(), HasSubstr(at(file))) << file;
    std::filesystem::remove(at(file));
    EXPECT_THAT(read(), AllOf(HasSubstr(at(file)), HasSubstr("No such file"), HasSubstr("keys issue"))) << file;
  }
}

TEST_F(Identity, IsRefusedOfAnotherHost) {
  EXPECT_THAT(read(noon, "ben"), AllOf(HasSubstr("of host \"ada\""), HasSubstr("this is host \"ben\"")));
}

TEST_F(Identity, IsRefusedOfAnotherAuthority) {
  const auto other = make_authority("pair", valid_for_days(noon, 3650)); // of the same name
  ASSERT_EQ(write_private_file(at(authorities_file), other.certificate), "");
  EXPECT_THAT(read(), HasSubstr("was issued by no authority of"));
}

TEST_F(Identity, IsRefusedWithTheKeyOfAnother) {
  credential other;
  ASSERT_EQ(issue_certificate(authority_, "ada", valid_for_days(noon, 365), other), "");
  ASSERT_EQ(write_private_file(at(key_file), other.key), "");
  EXPECT_THAT(read(), HasSubstr("host.key does not belong to the certificate"));
}

TEST_F(Identity, DoesNotTakeAHostForAnAuthority) {
  credential below;
  EXPECT_THAT(issue_certificate(identity_.own, "eve", valid_for_days(noon, 1), below), HasSubstr("no authority"));
  ASSERT_EQ(read(), "");
  EXPECT_THAT(issue_certificate(identity_.own, "eve", valid_for_days(noon, 1), below), HasSubstr("no authority"));
  ASSERT_EQ(write_private_file(at(authorities_file), identity_.own.certificate), "");
  EXPECT_THAT(read(), HasSubstr("not an authority's"));
}

TEST_F(Identity, WarnsThirtyDaysBeforeItsEnd) {
  ASSERT_EQ(read(), "");
  const auto facts = read_certificates(identity_.own.certificate).at(0);
  EXPECT_EQ(facts.name, "ada");
  EXPECT_EQ(facts.fingerprint.size(), 64U);
  EXPECT_EQ(renewal_warning(facts, noon + 335 * day_seconds - 1), "");
  EXPECT_THAT(renewal_warning(facts, noon + 335 * day_seconds),
              AllOf(HasSubstr("host ada expires in 30 days"), HasSubstr("keys issue --host ada")));
  EXPECT_THAT(renewal_warning(facts, noon + 366 * day_seconds), HasSubstr("expired on"));
}

} // namespace
} // namespace dynamix::links
