#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <iterator>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace dynamix::storage {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(UnfinishedFile, IsToldByItsName) {
  EXPECT_EQ(name_of_unfinished("a.json.aB3xYz"), "a.json");
  for (const auto* other : {"a.json", "a.aB3xY", "a.aB3xYz0", "a.may-25", ".aB3xYz", ""})
    EXPECT_EQ(name_of_unfinished(other), "") << other;
}

class AtomicFile : public testing::Test {
protected:
  std::string path(const std::string& name) const { return directory_.file(name); }
  std::ptrdiff_t file_count() const {
    return std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator());
  }
  std::string contents(const std::string& name) const {
    std::string text;
    EXPECT_EQ(read_file(path(name), 1 << 20, text), "");
    return text;
  }

  const temporary_directory directory_;
};

/// A disk that is full after `bytes`, for as long as this lives: the kernel then fails writes with EFBIG.
class full_disk {
public:
  explicit full_disk(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &old_limit_);
    const rlimit limit = {bytes, old_limit_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~full_disk() {
    ::setrlimit(RLIMIT_FSIZE, &old_limit_);
    std::signal(SIGXFSZ, old_handler_);
  }

private:
  rlimit old_limit_{};
  sighandler_t old_handler_ = SIG_DFL;
};

TEST_F(AtomicFile, WritesANewFileAndReadsItBack) {
  const std::string text("with a\0zero", 11);
  EXPECT_EQ(write_file_atomically(path("new"), text), "");
  EXPECT_EQ(contents("new"), text);
}

TEST_F(AtomicFile, ReplacesAnOldFileAndLeavesNothingBesideIt) {
  ASSERT_EQ(write_file_atomically(path("file"), std::string(10000, 'a')), "");
  ASSERT_EQ(write_file_atomically(path("file"), std::string("b")), "");
  EXPECT_EQ(contents("file"), "b");
  EXPECT_EQ(file_count(), 1);
}

TEST_F(AtomicFile, CanBeReadByOthersThanItsOwner) {
  ASSERT_EQ(write_file_atomically(path("file"), std::string("x")), "");
  const auto expected = fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read | fs::perms::others_read;
  EXPECT_EQ(fs::status(path("file")).permissions(), expected);
}

TEST_F(AtomicFile, LeavesTheOldFileUntouchedWhenTheDiskIsFull) {
  ASSERT_EQ(write_file_atomically(path("file"), std::string("old")), "");
  {
    const full_disk disk(4096);
    const auto error = write_file_atomically(path("file"), std::string(100000, 'n'));
    EXPECT_THAT(error, HasSubstr("cannot write " + path("file") + ": File too large"));
  }
  EXPECT_EQ(contents("file"), "old");
  EXPECT_EQ(file_count(), 1) << "the temporary file stayed";
}

TEST_F(AtomicFile, LeavesNothingWhenANewFileDoesNotFit) {
  {
    const full_disk disk(4096);
    EXPECT_NE(write_file_atomically(path("file"), std::string(100000, 'n')), "");
  }
  EXPECT_EQ(file_count(), 0);
}

TEST_F(AtomicFile, SaysWhichDirectoryIsMissing) {
  EXPECT_EQ(write_file_atomically(path("absent/file"), std::string("x")),
            "cannot write " + path("absent/file") + ": No such file or directory");
}

TEST_F(AtomicFile, DoesNotReplaceADirectory) {
  fs::create_directory(path("directory"));
  EXPECT_THAT(write_file_atomically(path("directory"), std::string("x")), HasSubstr("cannot write"));
  EXPECT_EQ(file_count(), 1);
}

TEST_F(AtomicFile, LeavesWhatAPersonNamedAsItIs) {
  ASSERT_EQ(write_output(path("new"), "n"), "");
  EXPECT_EQ(contents("new"), "n");
  fs::create_symlink(path("new"), path("link"));
  ASSERT_EQ(write_output(path("link"), "through"), "");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_EQ(contents("new"), "through");
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_EQ(write_output(path("pipe"), "piped"), "");
  std::string got(16, '.');
  got.resize(static_cast<std::size_t>(std::max<ssize_t>(::read(reader, got.data(), got.size()), 0)));
  ::close(reader);
  EXPECT_EQ(got, "piped");
  EXPECT_TRUE(fs::is_fifo(path("pipe")));
  EXPECT_THAT(write_output("/dev/full", "x"), HasSubstr("cannot write /dev/full: No space left on device"));
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST_F(AtomicFile, ReadsAtMostTheLimit) {
  ASSERT_EQ(write_file_atomically(path("file"), std::string(5000, 'x')), "");
  std::string text;
  EXPECT_EQ(read_file(path("file"), 5000, text), "");
  EXPECT_EQ(text.size(), 5000U);
  EXPECT_EQ(read_file(path("file"), 4999, text), "cannot read " + path("file") + ": it is larger than 4999 bytes");
}

TEST_F(AtomicFile, ReadsAnEmptyFile) {
  ASSERT_EQ(write_file_atomically(path("file"), std::string()), "");
  std::string text = "before";
  EXPECT_EQ(read_file(path("file"), 0, text), "");
  EXPECT_EQ(text, "");
}

TEST_F(AtomicFile, ReadsAFileThatDoesNotKnowItsSize) {
  std::string text;
  EXPECT_EQ(read_file("/proc/self/status", 1 << 20, text), "");
  EXPECT_THAT(text, HasSubstr("VmRSS"));
}

TEST_F(AtomicFile, SaysWhatCannotBeRead) {
  std::string text;
  EXPECT_EQ(read_file(path("absent"), 10, text), "cannot read " + path("absent") + ": No such file or directory");
  EXPECT_EQ(read_file(directory_.path(), 10, text), "cannot read " + directory_.path() + ": Is a directory");
}

} // namespace
} // namespace dynamix::storage
