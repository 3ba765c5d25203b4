#include "storage/atomic_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sys/resource.h>

namespace dynamix::storage {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class atomic_file : public testing::Test {
protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "atomic_file_XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::ptrdiff_t file_count() const {
    return std::distance(fs::directory_iterator(directory_), fs::directory_iterator());
  }
  std::string contents(const std::string& name) const {
    std::string text;
    EXPECT_EQ(read_file(path(name), 1 << 20, text), "");
    return text;
  }

  fs::path directory_;
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

TEST_F(atomic_file, writes_a_new_file_and_reads_it_back) {
  const std::string text("with a\0zero", 11);
  EXPECT_EQ(write_file_atomically(path("new"), text), "");
  EXPECT_EQ(contents("new"), text);
}

TEST_F(atomic_file, replaces_an_old_file_and_leaves_nothing_beside_it) {
  ASSERT_EQ(write_file_atomically(path("file"), std::string(10000, 'a')), "");
  ASSERT_EQ(write_file_atomically(path("file"), std::string("b")), "");
  EXPECT_EQ(contents("file"), "b");
  EXPECT_EQ(file_count(), 1);
}

TEST_F(atomic_file, can_be_read_by_others_than_its_owner) {
  ASSERT_EQ(write_file_atomically(path("file"), std::string("x")), "");
  const auto expected = fs::perms::owner_read | fs::perms::owner_write | fs::perms::group_read | fs::perms::others_read;
  EXPECT_EQ(fs::status(path("file")).permissions(), expected);
}

TEST_F(atomic_file, leaves_the_old_file_untouched_when_the_disk_is_full) {
  ASSERT_EQ(write_file_atomically(path("file"), std::string("old")), "");
  {
    const full_disk disk(4096);
    const auto error = write_file_atomically(path("file"), std::string(100000, 'n'));
    EXPECT_THAT(error, HasSubstr("cannot write " + path("file") + ": File too large"));
  }
  EXPECT_EQ(contents("file"), "old");
  EXPECT_EQ(file_count(), 1) << "the temporary file stayed";
}

TEST_F(atomic_file, leaves_nothing_when_a_new_file_does_not_fit) {
  {
    const full_disk disk(4096);
    EXPECT_NE(write_file_atomically(path("file"), std::string(100000, 'n')), "");
  }
  EXPECT_EQ(file_count(), 0);
}

TEST_F(atomic_file, says_which_directory_is_missing) {
  EXPECT_EQ(write_file_atomically(path("absent/file"), std::string("x")),
            "cannot write " + path("absent/file") + ": No such file or directory");
}

TEST_F(atomic_file, does_not_replace_a_directory) {
  fs::create_directory(path("directory"));
  EXPECT_THAT(write_file_atomically(path("directory"), std::string("x")), HasSubstr("cannot write"));
  EXPECT_EQ(file_count(), 1);
}

TEST_F(atomic_file, reads_at_most_the_limit) {
  ASSERT_EQ(write_file_atomically(path("file"), std::string(5000, 'x')), "");
  std::string text;
  EXPECT_EQ(read_file(path("file"), 5000, text), "");
  EXPECT_EQ(text.size(), 5000U);
  EXPECT_EQ(read_file(path("file"), 4999, text), "cannot read " + path("file") + ": it is larger than 4999 bytes");
}

TEST_F(atomic_file, reads_an_empty_file) {
  ASSERT_EQ(write_file_atomically(path("file"), std::string()), "");
  std::string text = "before";
  EXPECT_EQ(read_file(path("file"), 0, text), "");
  EXPECT_EQ(text, "");
}

TEST_F(atomic_file, reads_a_file_that_does_not_know_its_size) {
  std::string text;
  EXPECT_EQ(read_file("/proc/self/status", 1 << 20, text), "");
  EXPECT_THAT(text, HasSubstr("VmRSS"));
}

TEST_F(atomic_file, says_what_cannot_be_read) {
  std::string text;
  EXPECT_EQ(read_file(path("absent"), 10, text), "cannot read " + path("absent") + ": No such file or directory");
  EXPECT_EQ(read_file(directory_.string(), 10, text), "cannot read " + directory_.string() + ": Is a directory");
}

} // namespace
} // namespace dynamix::storage
