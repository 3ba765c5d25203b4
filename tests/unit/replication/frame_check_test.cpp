#include "replication/frame_check.hpp"
#include "replication/libraft.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <initializer_list>

namespace dynamix::replication {
namespace {

std::string words(std::initializer_list<std::uint64_t> values) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes;
  for (const auto value : values)
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

std::string message(message_kind kind, const std::string& header, const std::string& payload = "") {
  return words({static_cast<std::uint64_t>(kind), header.size()}) + header + payload;
}

std::string entry(std::uint8_t kind, std::uint64_t size) {
  return words({7, kind | size << 32U});
}

std::string append(std::uint64_t count, const std::string& entries, const std::string& payload) {
  return message(message_kind::append_entries, words({7, 1, 6, 1, count}) + entries + words({0}), payload);
}

/// A voter with the address "2".
std::string server(char role = RAFT_VOTER, const std::string& address = {'2', '\0'}, std::uint64_t id = 2) {
  return words({id}) + address + role;
}

std::string snapshot(std::uint64_t count, const std::string& servers, std::uint64_t size = 16) {
  const auto configuration = '\1' + words({count}) + servers;
  return message(message_kind::install_snapshot,
                 words({7, 9, 6, 1, configuration.size()}) + configuration + words({size}), std::string(size, 'x'));
}

/// In parts of `size` bytes.
std::string fed(const std::string& bytes, std::size_t size) {
  frame_check check;
  for (std::size_t at = 0; at < bytes.size(); at += size)
    if (auto problem = check.feed(std::span(bytes).subspan(at, std::min(size, bytes.size() - at))); !problem.empty())
      return problem;
  return "";
}

const auto entries = entry(RAFT_COMMAND, 16) + entry(RAFT_BARRIER, 8) + entry(RAFT_CHANGE, 24);

TEST(FrameCheck, PassesEveryKindOfMessageHoweverItIsCut) {
  const auto all = message(message_kind::request_vote, words({7, 2, 9, 6, 1})) +
                   message(message_kind::request_vote_result, words({7, 1, 0})) +
                   append(3, entries, std::string(48, 'x')) + append(0, "", "") +
                   message(message_kind::append_entries_result, words({7, 0, 9})) +
                   snapshot(2, server() + server(RAFT_STANDBY, {'3', '\0'}, 3)) +
                   message(message_kind::timeout_now, words({7, 9, 6})) + append(3, entries, std::string(48, 'x'));
  for (const std::size_t size : {1UL, 3UL, 16UL, 100UL, all.size()})
    EXPECT_EQ(fed(all, size), "") << size;
}

TEST(FrameCheck, PassesTheLongerAnswersOfNewerReleases) {
  const auto all =
      message(message_kind::append_entries_result, words({7, 0, 9, 1})) + append(3, entries, std::string(48, 'x'));
  for (const std::size_t size : {1UL, all.size()})
    EXPECT_EQ(fed(all, size), "") << size;
}

TEST(FrameCheck, RefusesWhatLibraftWouldTakeOnTrust) {
  const auto vote = words({7, 2, 9, 6, 1});
  const std::initializer_list<std::pair<std::string, std::string>> refused = {
      {message(message_kind{0}, vote), "kind 0"},
      {message(message_kind{7}, vote), "kind 7"},
      {message(message_kind{(1U << 16U) + 3}, vote), "kind 65539"},
      {message(message_kind::request_vote, ""), "a header of 0 bytes"},
      {message(message_kind::request_vote, words({7, 2})), "a header of 16 bytes"},
      {message(message_kind::append_entries_result, words({7, 0, 9}) + "half"), "a header of 28 bytes"},
      {words({3, 1ULL << 60U}), "a header of 1152921504606846976 bytes"},
      {append(1, entry(4, 16), ""), "an entry of kind 4"},
      {append(1, entry(0, 16), ""), "an entry of kind 0"},
      {append(1, entry(RAFT_COMMAND, 0), ""), "an entry of 0 bytes"},
      {append(1, entry(RAFT_COMMAND, 12), ""), "an entry of 12 bytes"},
      {append(2, entry(RAFT_COMMAND, 16), ""), "for 2 entries"},
      {append(1ULL << 60U, entry(RAFT_COMMAND, 16), ""), "for 1152921504606846976 entries"},
      {append(1, entry(RAFT_COMMAND, frame_payload_bytes_max + 8), ""), "bytes after a header"},
      {snapshot(0, ""), "a configuration of 0 voters"},
      {snapshot(65, server()), "a configuration of 65 voters"},
      {snapshot(2, server()), "cut off"},
      {snapshot(1, server(RAFT_VOTER, "22")), "cut off"},
      {snapshot(1, server(9)), "a voter of role 9"},
      {snapshot(2, server() + server(RAFT_VOTER, {'3', '\0'})), "voter 2 or its address twice"},
      {snapshot(2, server() + server(RAFT_VOTER, {'2', '\0'}, 3)), "voter 3 or its address twice"},
      {snapshot(1, server(RAFT_VOTER, {'2', '\0'}, 0)), "a voter 0"},
      {snapshot(1, server(), 0), "an empty snapshot"},
      {message(message_kind::install_snapshot, words({7, 9, 6, 1, 1ULL << 60U, 16})), "for a configuration of"},
      {message(message_kind::install_snapshot, words({7, 9, 6, 1, 0, 16})), "in no format"},
  };
  for (const auto& [bytes, reason] : refused)
    for (const std::size_t size : {1UL, bytes.size()}) {
      const auto problem = fed(bytes, size);
      EXPECT_TRUE(problem.starts_with("it is not a voter's message: ")) << reason << ": " << problem;
      EXPECT_NE(problem.find(reason), std::string::npos) << reason << ": " << problem;
    }
}

} // namespace
} // namespace dynamix::replication
