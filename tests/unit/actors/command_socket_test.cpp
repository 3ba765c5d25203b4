// The socket through which a person's commands reach an arbitrator.

#include "actors/host/command_socket.hpp"
#include "tests/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace dynamix::actors {
namespace {

using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::chrono::milliseconds patience{20000};

class CommandSocket : public ::testing::Test {
protected:
  CommandSocket() {
    std::filesystem::create_directories(run);
    socket = command_socket::open(
        path, [](const std::string& line) { return "said " + line; }, problem);
  }
  const temporary_directory directory;
  std::string run = directory.file(std::string(120, 'r'));
  std::string path = command_socket_of(run, "hub");
  std::string problem;
  std::unique_ptr<command_socket> socket;
};

TEST_F(CommandSocket, AnswersLinesAlsoInADirectoryWithALongName) {
  ASSERT_NE(socket, nullptr) << problem;
  for (const auto* line : {"list", "drain ada"})
    EXPECT_EQ(ask_command_socket(path, line, patience, problem), std::string("said ") + line) << problem;
}

TEST_F(CommandSocket, IsForItsUserAlone) {
  struct stat found {};
  ASSERT_EQ(::stat(path.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
}

TEST_F(CommandSocket, HearsNoLongLineAndGoesOnAfterACallerThatSaysNothing) {
  EXPECT_THAT(ask_command_socket(path, std::string(max_command_bytes + 1, 'a'), patience, problem), IsEmpty());
  EXPECT_THAT(problem, Not(IsEmpty()));
  const int silent = connect_to_listener(path);
  ASSERT_GE(silent, 0);
  EXPECT_EQ(ask_command_socket(path, "list", patience, problem), "said list") << problem;
  ::close(silent);
}

TEST_F(CommandSocket, SaysWhereNobodyListens) {
  socket = nullptr;
  EXPECT_THAT(ask_command_socket(path, "list", patience, problem), IsEmpty());
  EXPECT_EQ(problem, "No such file or directory");
}

} // namespace
} // namespace dynamix::actors
