#include "replication/directory.hpp"
#include "tests/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace dynamix::replication {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DirectoryTest : public testing::Test {
protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(path + "/" + name) << text; }

private:
  const temporary_directory root_;

protected:
  const std::string path = root_.file("voter");
};

TEST_F(DirectoryTest, PutsAVoterWithoutMemoryOnProbationUntilItHasPromised) {
  auto state = prepare_directory(path, false);
  EXPECT_EQ(state.error + state.damage, "");
  EXPECT_TRUE(state.empty);
  EXPECT_TRUE(state.probation);
  write("metadata1", "x");
  write("0000000000000001-0000000000000001", "x");
  state = prepare_directory(path, false); // it ended before it was a voter
  EXPECT_TRUE(state.empty);
  EXPECT_TRUE(state.probation);
  EXPECT_FALSE(fs::exists(path + "/metadata1"));
  write("metadata1", "x");
  EXPECT_EQ(promise_term(path, 17), "");
  state = prepare_directory(path, false);
  EXPECT_FALSE(state.probation);
  EXPECT_FALSE(state.empty);
  EXPECT_EQ(state.promised_term, 17U);
  EXPECT_EQ(forget_promise(path), "");
  state = prepare_directory(path, false);
  EXPECT_FALSE(state.probation);
  EXPECT_EQ(state.promised_term, 0U);
}

TEST_F(DirectoryTest, DoesNotTrustAPromiseWithoutTheLogThatItWasMadeFor) {
  prepare_directory(path, false);
  promise_term(path, 17);
  const auto state = prepare_directory(path, false);
  EXPECT_TRUE(state.probation);
  EXPECT_TRUE(state.empty);
  EXPECT_EQ(state.promised_term, 0U);
}

TEST_F(DirectoryTest, LetsAVoterThatIsAloneBeginAtOnce) {
  const auto state = prepare_directory(path, true);
  EXPECT_TRUE(state.empty);
  EXPECT_FALSE(state.probation);
}

TEST_F(DirectoryTest, CallsALogWithoutMetadataAndABrokenMarkerDamaged) {
  fs::create_directories(path);
  write("0000000000000001-0000000000000009", "x");
  EXPECT_THAT(prepare_directory(path, false).damage, HasSubstr("who was voted for"));
  write("metadata1", "x");
  write("probation", "promised 1x\n");
  EXPECT_THAT(prepare_directory(path, false).damage, HasSubstr("probation"));
}

TEST_F(DirectoryTest, MovesAsideAndDeletesNothing) {
  for (int number = 1; number <= 3; ++number) {
    prepare_directory(path, true);
    write("metadata1", std::to_string(number));
    std::string moved_to;
    EXPECT_EQ(move_aside(path, moved_to), "");
    EXPECT_EQ(moved_to, path + ".damaged-" + std::to_string(number));
    EXPECT_FALSE(fs::exists(path));
    EXPECT_TRUE(fs::exists(moved_to + "/metadata1"));
  }
}

TEST_F(DirectoryTest, SaysWhatTheFileSystemSays) {
  fs::create_directories(fs::path(path).parent_path());
  std::ofstream(path) << "a file";
  EXPECT_NE(prepare_directory(path, false).error, "");
  EXPECT_THAT(check_room(path), HasSubstr("cannot write in"));
}

TEST_F(DirectoryTest, SaysWhichFileCannotBeOpened) {
  fs::create_directories(path);
  std::ofstream(path + "/0000000000000001-0000000000000002") << "entries";
  EXPECT_EQ(check_access(path), "");
  fs::permissions(path + "/0000000000000001-0000000000000002", fs::perms::none);
  const bool is_root = ::geteuid() == 0; // who may open everything
  fs::permissions(path, fs::perms::all);
  fs::permissions(fs::path(path).parent_path(), fs::perms::all);
  ASSERT_EQ(is_root ? ::seteuid(65534) : 0, 0);
  const auto said = check_access(path);
  ASSERT_EQ(is_root ? ::seteuid(0) : 0, 0);
  EXPECT_EQ(said, "cannot open " + path + "/0000000000000001-0000000000000002: Permission denied");
}

TEST_F(DirectoryTest, SaysWhichFileCannotBeLookedAt) {
  fs::create_directories(path);
  fs::create_symlink("metadata1", path + "/metadata1"); // leads nowhere but to itself
  EXPECT_THAT(prepare_directory(path, false).error, HasSubstr("cannot read " + path + "/metadata1"));
}

} // namespace
} // namespace dynamix::replication
