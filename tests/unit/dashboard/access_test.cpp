#include "dashboard/access.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::dashboard {
namespace {

const std::string token = "0123456789abcdef0123";

TEST(Access, TakesTheTokenOrItsSession) {
  EXPECT_TRUE(is_authorised("Bearer " + token, "", token));
  EXPECT_TRUE(is_authorised("", "other=1; dynamix_session=" + session_of(token), token));
  EXPECT_FALSE(is_authorised("", "", token));
  EXPECT_FALSE(is_authorised("Bearer ", "", token));
  EXPECT_FALSE(is_authorised("Bearer " + token + "0", "", token));
  EXPECT_FALSE(is_authorised("Bearer " + token.substr(1), "", token));
  EXPECT_FALSE(is_authorised("Basic " + token, "", token));
  EXPECT_FALSE(is_authorised("", "dynamix_session=" + token, token)) << "the cookie is not the token";
  EXPECT_FALSE(is_authorised("", "xdynamix_session=" + session_of(token), token));
  EXPECT_FALSE(is_authorised("", "dynamix_session=", token));
}

TEST(Access, OnlyLoopbackNamesReachALoopbackListener) {
  for (const char* good : {"localhost", "localhost:8080", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:8080", "127.9.8.7",
                           "[::1]", "[::1]:8080"})
    EXPECT_TRUE(names_loopback(good)) << good;
  for (const char* bad : {"", "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example",
                          "128.0.0.1", "[::2]:8080", "[::1", "[::1]x", "0.0.0.0"})
    EXPECT_FALSE(names_loopback(bad)) << bad;
}

TEST(Access, ATokenIsOneLongLine) {
  const temporary_directory directory;
  const auto said = [&](const std::string& contents) {
    const auto path = directory.path() + "/token";
    EXPECT_EQ(
        storage::write_private_file(path, {reinterpret_cast<const std::uint8_t*>(contents.data()), contents.size()}),
        "");
    std::string read;
    const auto problem = read_token(path, read);
    return problem.empty() ? "token " + read : problem;
  };
  EXPECT_EQ(said(token + "\n"), "token " + token);
  EXPECT_THAT(said("short\n"), ::testing::HasSubstr("16 to 1024"));
  EXPECT_THAT(said(""), ::testing::HasSubstr("holds 0 characters"));
  EXPECT_THAT(said("two words are not a token"), ::testing::HasSubstr("without blanks"));
  EXPECT_THAT(said(std::string(5000, 'x')), ::testing::HasSubstr("token"));
  std::string read;
  EXPECT_THAT(read_token(directory.path() + "/none", read), ::testing::HasSubstr("No such file"));
}

TEST(Access, ATokenThatOthersMayReadIsRefused) {
  const temporary_directory directory;
  const auto path = directory.path() + "/token";
  ASSERT_EQ(storage::write_file_atomically(path, token), "");
  std::string read;
  EXPECT_THAT(read_token(path, read), ::testing::HasSubstr("chmod 600"));
}

} // namespace
} // namespace dynamix::dashboard
