#include "ledger/codec.hpp"
#include "ledger/file.hpp"
#include "ledger/line_reader.hpp"
#include "ledger/segments.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace dynamix::ledger {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr std::uint64_t keep_bytes = 1U << 20; ///< parts of 64 KiB

/// A row of some 16 KiB: its number, and text that zlib makes little smaller.
row numbered(std::uint64_t number) {
  std::string text = std::to_string(number) + " ";
  auto state = number;
  for (int i = 0; i < 16'000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    text += static_cast<char>('#' + (state >> 33U) % 57); // none that JSON writes as two
  }
  return {.entry = event{event_kind::warning, "host", text}};
}

std::uint64_t number_of(const row& of) {
  return std::stoull(std::get<event>(of.entry).text);
}

std::vector<std::uint64_t> numbers_of(const std::vector<row>& rows) {
  std::vector<std::uint64_t> numbers;
  for (const auto& each : rows)
    numbers.push_back(number_of(each));
  return numbers;
}

std::vector<std::uint64_t> counted(std::uint64_t from, std::uint64_t to) {
  std::vector<std::uint64_t> numbers;
  for (auto number = from; number < to; ++number)
    numbers.push_back(number);
  return numbers;
}

class Segments : public ::testing::Test {
protected:
  std::string path() const { return directory_.path() + "/windows.jsonl"; }
  void append(std::uint64_t from, std::uint64_t to, std::uint64_t keep = keep_bytes) const {
    std::string error;
    const auto file = open_file(path(), error, keep);
    ASSERT_TRUE(file) << error;
    for (auto number = from; number < to; ++number)
      file->append(numbered(number));
  }
  std::vector<std::uint64_t> read() const {
    std::string error;
    const auto rows = read_file(path(), error);
    EXPECT_EQ(error, "");
    return numbers_of(rows);
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& entry : fs::directory_iterator(directory_.path()))
      sum += entry.file_size();
    return sum;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory_.path()))
      found.push_back(entry.path().filename().string());
    return found;
  }

  const temporary_directory directory_;
};

TEST_F(Segments, AreFilesAndNeitherPipesNorLinks) {
  append(0, 3);
  ASSERT_EQ(::mkfifo((directory_.path() + "/windows-5.jsonl").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo((directory_.path() + "/windows-6.jsonl.gz").c_str(), 0600), 0);
  fs::create_symlink(path(), directory_.path() + "/windows-7.jsonl");
  EXPECT_THAT(segments_of(path()), IsEmpty());
  EXPECT_EQ(read(), counted(0, 3));
}

TEST_F(Segments, AreReadThroughLinksUnlessThatIsForbidden) {
  append(0, 3);
  const auto real = fs::canonical(directory_.path()).string();
  const auto reads = [](const std::string& ledger, bool through_links) {
    std::string line;
    return line_reader(ledger, 64U << 20, through_links).next(line);
  };
  EXPECT_TRUE(reads(real + "/windows.jsonl", false));
  fs::create_symlink(real + "/windows.jsonl", real + "/linked.jsonl");
  EXPECT_TRUE(reads(real + "/linked.jsonl", true));
  EXPECT_FALSE(reads(real + "/linked.jsonl", false));
  fs::create_directory_symlink(real, real + "/again");
  EXPECT_TRUE(reads(real + "/again/windows.jsonl", true));
  EXPECT_FALSE(reads(real + "/again/windows.jsonl", false));
  ASSERT_EQ(::mkfifo((real + "/pipe.jsonl").c_str(), 0600), 0);
  EXPECT_FALSE(reads(real + "/pipe.jsonl", true));
}

TEST_F(Segments, AreReadAsOneLedger) {
  append(0, 20);
  const auto segments = segments_of(path());
  ASSERT_GE(segments.size(), 3U);
  EXPECT_EQ(segments.front().begin, 0U);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    EXPECT_TRUE(segments[i].packed) << "the writer has ended";
    EXPECT_EQ(i + 1 < segments.size() ? segments[i + 1].begin : newest_part_begin(segments),
              segments[i].begin + segments[i].text_bytes);
  }
  EXPECT_EQ(read(), counted(0, 20));
  append(20, 30);
  EXPECT_EQ(read(), counted(0, 30));
}

TEST_F(Segments, AreNoneWithoutALimit) {
  append(0, 30, 0);
  EXPECT_THAT(segments_of(path()), IsEmpty());
  EXPECT_EQ(read(), counted(0, 30));
}

TEST_F(Segments, FitIntoTheLimitAndKeepWhatRunItIs) {
  append(0, 200);
  EXPECT_LE(bytes(), keep_bytes);
  const auto numbers = read();
  ASSERT_GE(numbers.size(), 30U);
  EXPECT_EQ(numbers.front(), 0U);
  EXPECT_EQ(numbers.back(), 199U);
  EXPECT_EQ(std::vector(numbers.begin() + 1, numbers.end()), counted(numbers[1], 200)) << "the newest, without a gap";
  EXPECT_GT(numbers[1], 1U);
}

TEST_F(Segments, AreFollowedWhileTheyAreWritten) {
  tail follower(path());
  std::string error;
  const auto file = open_file(path(), error, keep_bytes);
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t number = 0; number < 40; ++number) {
    file->append(numbered(number));
    if (number % 7 == 0)
      for (const auto& each : follower.read())
        numbers.push_back(number_of(each));
  }
  for (const auto& each : follower.read())
    numbers.push_back(number_of(each));
  EXPECT_EQ(numbers, counted(0, 40));
}

TEST_F(Segments, TwoWritersShareThem) {
  std::string error;
  const auto one = open_file(path(), error, keep_bytes);
  const auto other = open_file(path(), error, keep_bytes);
  for (std::uint64_t number = 0; number < 40; ++number)
    (number % 3 == 0 ? one : other)->append(numbered(number));
  EXPECT_EQ(read(), counted(0, 40));
}

TEST_F(Segments, DamageIsToldWithFileAndPlaceAndTheRestIsRead) {
  append(0, 20);
  const auto segments = segments_of(path());
  std::fstream(segments[1].path, std::ios::in | std::ios::out | std::ios::binary)
          .seekp(static_cast<std::streamoff>(segments[1].file_bytes / 2))
      << std::string(64, '\xff');
  std::string error;
  const auto numbers = numbers_of(read_file(path(), error));
  EXPECT_THAT(error, HasSubstr(segments[1].path + " is damaged: after byte "));
  EXPECT_THAT(error, HasSubstr(" of its text it cannot be read: "));
  EXPECT_EQ(numbers.front(), 0U);
  EXPECT_EQ(numbers.back(), 19U);
  EXPECT_LT(numbers.size(), 20U);

  fs::resize_file(segments[1].path, segments[1].file_bytes / 2);
  EXPECT_EQ(numbers_of(read_file(path(), error)).back(), 19U);
  EXPECT_THAT(error, HasSubstr(segments[1].path + " is damaged: after byte ")) << "one that is cut short";
}

TEST_F(Segments, TheNewestIsTriedAgainWhereItCannotBeReadAndThatIsToldOnce) {
  fs::create_directory(path()); // can be opened, and every read of it fails
  line_reader lines(path());
  std::string line;
  EXPECT_FALSE(lines.next(line));
  EXPECT_THAT(lines.take_problem(), HasSubstr("after byte 0 of its text it cannot be read: Is a directory"));
  for (int looks = 0; looks < 3; ++looks) {
    EXPECT_FALSE(lines.next(line));
    EXPECT_EQ(lines.take_problem(), "");
  }
  fs::remove(path());
  append(0, 1, 0);
  EXPECT_TRUE(lines.next(line));
  EXPECT_EQ(lines.take_problem(), path() + " can be read again, at attempt 6");
}

TEST_F(Segments, WithoutTextArePassedOver) {
  for (const std::string suffix : {"", ".gz"}) {
    append(0, 3, 0);
    std::ofstream(segment_path(path(), 0) + suffix);
    EXPECT_EQ(read(), counted(0, 3)) << "an empty file" << suffix;
    fs::remove(segment_path(path(), 0) + suffix);
    fs::remove(path());
  }
  append(0, 3, 0);
  const auto nothing = segment_path(path(), 0) + ".gz";
  std::ofstream(nothing) << std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x03\0\0\0\0\0\0\0\0\0", 20);
  EXPECT_EQ(read(), counted(0, 3)) << "a compressed nothing";
}

TEST_F(Segments, AreNotMadeOfALedgerOfMoreThanGzipCanSay) {
  append(0, 1, 0);
  fs::resize_file(path(), segment_bytes_max); // a hole that takes no room
  append(1, 2);
  EXPECT_THAT(segments_of(path()), IsEmpty());
  EXPECT_GT(fs::file_size(path()), segment_bytes_max);
}

TEST_F(Segments, WhoeverDiedCompressingLeavesNothingForLong) {
  append(0, 8);
  const auto older = segment_path(path(), 0) + ".gz.aB3dE6";
  const auto newer = segment_path(path(), 0) + ".gz.xYz012";
  std::ofstream(older) << "half";
  std::ofstream(newer) << "somebody may be writing it";
  fs::last_write_time(older, fs::file_time_type::clock::now() - std::chrono::hours(2));
  EXPECT_EQ(pack_segments(path(), keep_bytes), "");
  EXPECT_FALSE(fs::exists(older));
  EXPECT_TRUE(fs::exists(newer));
  EXPECT_EQ(read(), counted(0, 8));
}

TEST_F(Segments, WhatCannotBeRemovedIsTold) {
  append(0, 8);
  const auto packed = segments_of(path()).front().path;
  const auto plain = packed.substr(0, packed.size() - 3);
  fs::create_directory(plain); // unlink removes none
  EXPECT_THAT(pack_segments(path(), keep_bytes), HasSubstr("cannot remove " + plain + ": "));
}

TEST_F(Segments, AFullDiskLosesNoRowThatWasWritten) {
  append(0, 3);
  fs::create_directory(path() + ".next"); // no new part can be made
  append(3, 20);
  EXPECT_THAT(segments_of(path()), IsEmpty());
  EXPECT_EQ(read(), counted(0, 20));
  fs::remove(path() + ".next");
  append(20, 30);
  EXPECT_FALSE(segments_of(path()).empty()) << "with room again it goes on";
  EXPECT_EQ(read(), counted(0, 30));
}

/// What a rotation does, one system call after the other, as if it had died behind each.
TEST_F(Segments, ARotationThatDiedAnywhereIsEndedByTheNextWriter) {
  append(0, 3, 0);
  const auto segment = segment_path(path(), 0);
  std::ofstream(path() + ".next");
  EXPECT_EQ(read(), counted(0, 3)) << "an empty next part";
  fs::create_hard_link(path(), segment);
  EXPECT_EQ(read(), counted(0, 3)) << "two names for one part";
  append(3, 8); // and so it is full
  EXPECT_EQ(read(), counted(0, 8));
  EXPECT_EQ(segments_of(path()).size(), 1U);

  const auto packed = segments_of(path()).front().path;
  std::string text;
  ASSERT_EQ(storage::read_file(packed, keep_bytes, text), "");
  std::ofstream(packed + ".tmpabc") << text.substr(0, 100);
  EXPECT_EQ(read(), counted(0, 8)) << "a compressed form that is not whole has another name";
  std::ofstream(segment) << "the same, but not yet removed\n";
  EXPECT_EQ(read(), counted(0, 8)) << "both forms";
  append(8, 9);
  EXPECT_FALSE(fs::exists(segment));
  EXPECT_EQ(read(), counted(0, 9));
}

/// A process that is killed may leave half a row; the next one to be appended is not to be read as its other half.
TEST_F(Segments, ATornRowCostsNoOther) {
  const auto tear_last = [this] { fs::resize_file(path(), fs::file_size(path()) - 100); };
  for (const auto keep : {std::uint64_t{0}, keep_bytes}) {
    for (const auto& name : names())
      fs::remove(directory_.path() + "/" + name);
    append(0, 2, keep);
    tear_last();
    std::string error;
    const auto file = open_file(path(), error, keep);
    ASSERT_TRUE(file) << error;
    file->append(numbered(1));
    EXPECT_EQ(read(), counted(0, 2)) << "torn before the file was opened";
    append(2, 3, keep);
    tear_last();
    for (std::uint64_t number = 2; number < 10; ++number)
      file->append(numbered(number));
    EXPECT_EQ(read(), counted(0, 10)) << "torn by another writer meanwhile";
    EXPECT_EQ(segments_of(path()).empty(), keep == 0);
  }
}

constexpr std::uint64_t nearly_full = 4; ///< rows, of a part that the next one fills

/// A process that appends rows and rotates; each row that it has appended goes into `pipe` as one byte.
[[noreturn]] void append_and_tell(const std::string& path, int pipe) {
  ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
  ::raise(SIGSTOP);
  std::string error;
  const auto file = open_file(path, error, keep_bytes);
  for (auto number = nearly_full; number < nearly_full + 2; ++number) {
    file->append(numbered(number));
    if (::write(pipe, "+", 1) != 1)
      ::_exit(3);
  }
  ::_exit(0);
}

/// Lets all threads of a stopped child go on from system call to system call, and kills it at the `stops`th. True
/// where it ended by itself before, with `status`.
bool run_to_stop(::pid_t child, int stops, int& status) {
  auto thread = child; // the one that is stopped
  for (; stops > 0; --stops) {
    ::ptrace(PTRACE_SYSCALL, thread, nullptr, nullptr);
    do {
      thread = ::waitpid(-1, &status, __WALL);
      if (thread == child && (WIFEXITED(status) || WIFSIGNALED(status)))
        return true;
    } while (thread > 0 && !WIFSTOPPED(status));
  }
  ::kill(child, SIGKILL);
  while (::waitpid(-1, &status, __WALL) > 0) {
  }
  return false;
}

TEST_F(Segments, LoseNothingToAKillAtAnySystemCall) {
  int rounds = 0;
  for (bool ended = false; !ended; rounds += 1) {
    ASSERT_LT(rounds, 1000);
    for (const auto& name : names())
      fs::remove(directory_.path() + "/" + name);
    append(0, nearly_full, 0);
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const auto child = ::fork();
    if (child == 0)
      append_and_tell(path(), pipe[1]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    if (!WIFSTOPPED(status) ||
        ::ptrace(PTRACE_SETOPTIONS, child, nullptr, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) != 0) {
      ::kill(child, SIGKILL);
      GTEST_SKIP() << "this machine lets nobody trace its own children";
    }
    ended = run_to_stop(child, rounds, status);
    if (ended) {
      ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "its status is " << status;
      ASSERT_THAT(segments_of(path()), Not(IsEmpty())) << "it has rotated and compressed";
    }
    ::close(pipe[1]);
    std::string told(100, ' ');
    told.resize(static_cast<std::size_t>(std::max<::ssize_t>(0, ::read(pipe[0], told.data(), told.size()))));
    ::close(pipe[0]);
    const auto numbers = read();
    ASSERT_EQ(numbers, counted(0, numbers.size())) << "killed at system call " << rounds;
    ASSERT_GE(numbers.size(), nearly_full + told.size()) << "killed at system call " << rounds;
    append(numbers.size(), 8);
    ASSERT_EQ(read(), counted(0, 8)) << "and goes on; killed at system call " << rounds;
  }
}

} // namespace
} // namespace dynamix::ledger
