#include "links/file_signature.hpp"
#include "tests/unit/links/temporary_keys.hpp"

#include <gmock/gmock.h>

#include <chrono>
#include <thread>
#include <vector>

namespace dynamix::links {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A file that host ada of a cluster has written, as host bob reads it.
class FileSignature : public ::testing::Test {
protected:
  FileSignature() {
    for (const auto* host : {"ada", "bob"})
      write_identity(keys_.path(host), authority_, host, now_);
    EXPECT_EQ(signing_writer(keys_.path("ada"), "ada")(path(), content_), "");
  }
  std::string path() const { return keys_.path("checkpoint"); }
  std::string beside() const { return path() + ".sig"; }
  signature_check check() const { return check_signature(path(), content_, keys_.path("bob"), "bob"); }

  const temporary_keys keys_;
  const validity now_ = valid_for_days(std::time(nullptr), 365);
  const credential authority_ = make_authority("pair", now_);
  std::vector<std::uint8_t> content_ = {1, 2, 3};
};

TEST_F(FileSignature, NamesTheHostThatWroteTheFile) {
  EXPECT_EQ(check().problem, "");
  EXPECT_EQ(check().signer, "ada");
  for (const auto& written : {path(), beside()})
    EXPECT_EQ(std::filesystem::status(written).permissions(), std::filesystem::perms(0600)) << written;
}

TEST_F(FileSignature, IsWrongWhereOneBitIsAnother) {
  content_[1] ^= 1;
  EXPECT_THAT(check().problem, AllOf(HasSubstr("host \"ada\""), HasSubstr("changed since"), HasSubstr("removes")));
}

TEST_F(FileSignature, OfAnotherAuthorityIsRefused) {
  write_identity(keys_.path("ada"), make_authority("pair", now_), "ada", now_);
  ASSERT_EQ(signing_writer(keys_.path("ada"), "ada")(path(), content_), "");
  EXPECT_THAT(check().problem, HasSubstr("does not accept"));
}

TEST_F(FileSignature, OfACertificateThatHasExpiredSinceStillCounts) {
  constexpr int seconds = 2;
  const auto begin = std::time(nullptr);
  write_identity(keys_.path("ada"), authority_, "ada", {.from_seconds = begin - 1, .until_seconds = begin + seconds});
  ASSERT_EQ(signing_writer(keys_.path("ada"), "ada")(path(), content_), "");
  std::this_thread::sleep_for(std::chrono::seconds(seconds + 2));
  identity ignored;
  ASSERT_THAT(read_identity(keys_.path("ada"), "ada", std::time(nullptr), ignored), HasSubstr("expired"));
  EXPECT_EQ(check().problem, "");
  EXPECT_EQ(check().signer, "ada");
}

TEST_F(FileSignature, ThatIsMissingOrUnreadableIsTold) {
  for (const auto* text : {"", "dynamix-signature-1\n", "dynamix-signature-1\n00\n", "dynamix-signature-1\nxyz\n\n"}) {
    ASSERT_EQ(write_private_file(beside(), text), "");
    EXPECT_THAT(check().problem, HasSubstr("is not a signature")) << text;
  }
  std::filesystem::remove(beside());
  EXPECT_EQ(check().problem, "");
  EXPECT_EQ(check().signer, "");
}

TEST_F(FileSignature, OfAFileThatCouldNotBeSignedIsNotTheOneBefore) {
  std::filesystem::remove(keys_.path("ada") + "/" + key_file);
  content_ = {4};
  EXPECT_THAT(signing_writer(keys_.path("ada"), "ada")(path(), content_), HasSubstr("was written, but not signed"));
  EXPECT_EQ(check().problem, "");
  EXPECT_EQ(check().signer, "");
}

TEST_F(FileSignature, StaysWhereTheFileCannotBeWritten) {
  std::filesystem::remove(path());
  std::filesystem::create_directory(path()); // which no file can replace
  EXPECT_NE(signing_writer(keys_.path("ada"), "ada")(path(), content_), "");
  EXPECT_TRUE(std::filesystem::exists(beside()));
}

TEST(SecretFile, EndsBeforeItsLineEnds) {
  const temporary_keys directory;
  ASSERT_EQ(write_private_file(directory.path("secret"), "known to few\r\n\n"), "");
  std::string secret;
  EXPECT_EQ(read_secret_file(directory.path("secret"), secret), "");
  EXPECT_EQ(secret, "known to few");
}

} // namespace
} // namespace dynamix::links
