#include "replication/frame_check.hpp"

#include "replication/libraft.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <set>
#include <string_view>

namespace dynamix::replication {
namespace {

constexpr std::uint64_t preamble_bytes = 16;
constexpr std::uint64_t word_bytes = 8;
constexpr std::uint64_t entry_bytes = 16;                ///< term; kind in one byte, three unused, length in four
constexpr std::uint64_t append_bytes = 5 * word_bytes;   ///< of its header, up to the number of entries
constexpr std::uint64_t snapshot_bytes = 5 * word_bytes; ///< up to the length of the configuration
constexpr std::uint64_t servers_max = 64;

template <class T>
T number_at(std::span<const char> bytes, std::uint64_t at) {
  T value = 0;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// As much of a header of `size` bytes as libraft reads of every message of this kind; 0: there is none.
std::uint64_t header_bytes_min(std::uint64_t kind, std::uint64_t size) {
  switch (message_kind{kind}) {
  case message_kind::append_entries:
    return append_bytes;
  case message_kind::request_vote:
    return 5 * word_bytes;
  case message_kind::install_snapshot:
    return snapshot_bytes + word_bytes;
  case message_kind::append_entries_result: // libraft 0.22 takes whatever follows three words for a fourth one
    return size == 3 * word_bytes ? size : 4 * word_bytes;
  case message_kind::request_vote_result:
  case message_kind::timeout_now:
    return 3 * word_bytes;
  default:
    return 0;
  }
}

/// Entries follow each other in the payload, each at a multiple of eight. Headers have a word more at their end.
std::string check_entries(std::span<const char> header, std::uint64_t& payload) {
  const auto count = number_at<std::uint64_t>(header, append_bytes - word_bytes);
  if (count > (header.size() - append_bytes) / entry_bytes)
    return fmt::format("a header of {} bytes for {} entries", header.size(), count);
  for (std::uint64_t at = append_bytes; at < append_bytes + count * entry_bytes; at += entry_bytes) {
    const auto kind = number_at<std::uint8_t>(header, at + word_bytes);
    const auto size = number_at<std::uint32_t>(header, at + entry_bytes - sizeof(std::uint32_t));
    if (kind != RAFT_COMMAND && kind != RAFT_BARRIER && kind != RAFT_CHANGE)
      return fmt::format("an entry of kind {}", kind);
    if (size == 0 || size % word_bytes != 0)
      return fmt::format("an entry of {} bytes", size);
    payload += size;
  }
  return "";
}

/// One byte of format, the number of servers, and of each its number, its address up to a zero, and its role.
std::string check_configuration(std::span<const char> bytes) {
  constexpr std::uint64_t first = 1 + word_bytes;
  if (bytes.size() < first || bytes[0] != 1)
    return "a configuration in no format that there is";
  const auto count = number_at<std::uint64_t>(bytes, 1);
  if (count == 0 || count > servers_max)
    return fmt::format("a configuration of {} voters", count);
  std::set<std::uint64_t> ids;
  std::set<std::string_view> addresses;
  std::uint64_t at = first;
  for (std::uint64_t server = 0; server < count; ++server) {
    const auto address = std::min<std::uint64_t>(at + word_bytes, bytes.size());
    const auto rest = bytes.subspan(address);
    const auto end = std::ranges::find(rest, '\0');
    at = address + static_cast<std::uint64_t>(end - rest.begin()) + 2;
    if (end == rest.end() || at > bytes.size())
      return "a configuration that is cut off";
    const std::string_view name(rest.data(), static_cast<std::size_t>(end - rest.begin()));
    const auto id = number_at<std::uint64_t>(bytes, address - word_bytes);
    if (id == 0 || !ids.insert(id).second || !addresses.insert(name).second) // 0.22 frees the others twice
      return fmt::format("a configuration with voter {} or its address twice, or with a voter 0", id);
    if (const auto role = number_at<std::uint8_t>(bytes, at - 1); role > RAFT_SPARE)
      return fmt::format("a voter of role {}", role);
  }
  return "";
}

std::string check_snapshot(std::span<const char> header, std::uint64_t& payload) {
  const auto size = number_at<std::uint64_t>(header, snapshot_bytes - word_bytes);
  if (size > header.size() - snapshot_bytes - word_bytes)
    return fmt::format("a header of {} bytes for a configuration of {}", header.size(), size);
  payload = number_at<std::uint64_t>(header, snapshot_bytes + size);
  if (payload == 0)
    return "an empty snapshot";
  return check_configuration(header.subspan(snapshot_bytes, size));
}

} // namespace

std::string frame_check::take_header() {
  std::string problem;
  if (kind_ == static_cast<std::uint64_t>(message_kind::append_entries))
    problem = check_entries(held_, payload_left_);
  else if (kind_ == static_cast<std::uint64_t>(message_kind::install_snapshot))
    problem = check_snapshot(held_, payload_left_);
  if (problem.empty() && payload_left_ > frame_payload_bytes_max)
    problem = fmt::format("{} bytes after a header", payload_left_);
  kind_ = 0;
  wanted_ = preamble_bytes;
  return problem;
}

std::string frame_check::feed(std::span<const char> bytes) {
  while (!bytes.empty()) {
    if (payload_left_ > 0) {
      const auto passed = std::min<std::uint64_t>(payload_left_, bytes.size());
      payload_left_ -= passed;
      bytes = bytes.subspan(passed);
      continue;
    }
    const auto part = bytes.first(std::min<std::uint64_t>(wanted_ - held_.size(), bytes.size()));
    held_.insert(held_.end(), part.begin(), part.end());
    bytes = bytes.subspan(part.size());
    if (held_.size() < wanted_)
      break;
    std::string problem;
    if (kind_ == 0) {
      kind_ = number_at<std::uint64_t>(held_, 0);
      wanted_ = number_at<std::uint64_t>(held_, word_bytes);
      const auto least = header_bytes_min(kind_, wanted_);
      if (least == 0)
        problem = fmt::format("a message of kind {}", kind_);
      else if (wanted_ < least || wanted_ > frame_header_bytes_max)
        problem = fmt::format("a header of {} bytes for a message of kind {}", wanted_, kind_);
    } else {
      problem = take_header();
    }
    held_.clear();
    if (!problem.empty())
      return "it is not a voter's message: " + problem;
  }
  return "";
}

} // namespace dynamix::replication
