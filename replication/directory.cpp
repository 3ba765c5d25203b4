#include "replication/directory.hpp"

#include "storage/atomic_file.hpp"

#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <filesystem>
#include <fmt/core.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace dynamix::replication {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t marker_bytes_max = 64;
constexpr int aside_max = 1000;
constexpr ::off_t room_bytes = 3 * (8 << 20);
constexpr std::string_view catching_up = "catching-up\n";
constexpr std::string_view promised = "promised ";

std::string marker_of(const std::string& path) {
  return path + "/probation";
}

using storage::failure;

bool read_promise(const std::string& text, std::uint64_t& term) {
  if (!text.starts_with(promised))
    return false;
  const auto* end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + promised.size(), end, term);
  return parsed.ec == std::errc() && parsed.ptr + 1 == end && *parsed.ptr == '\n' && term > 0;
}

/// Says in `problem` where nobody can tell.
bool is_there(const std::string& path, std::string& problem) {
  std::error_code code;
  const bool found = fs::exists(path, code);
  if (code)
    problem = failure("read", path, code.value());
  return found;
}

/// What libraft wrote in a life that never became a voter.
std::string clear(const std::string& path) {
  std::error_code code;
  for (fs::directory_iterator entry(path, code), end; !code && entry != end; entry.increment(code)) {
    if (entry->path() != marker_of(path))
      fs::remove_all(entry->path(), code);
    if (code)
      break;
  }
  return code ? failure("clear", path, code.value()) : "";
}

directory_state begin_probation(const std::string& path, directory_state state) {
  state.empty = true;
  state.probation = true;
  state.error = storage::write_file_atomically(marker_of(path), std::string(catching_up));
  return state;
}

} // namespace

directory_state prepare_directory(const std::string& path, bool alone) {
  directory_state state;
  std::error_code code;
  fs::create_directories(path, code);
  if (code) {
    state.error = failure("make", path, code.value());
    return state;
  }
  const bool metadata = is_there(path + "/metadata1", state.error) || is_there(path + "/metadata2", state.error);
  const bool marked = is_there(marker_of(path), state.error);
  if (!state.error.empty())
    return state;
  state.empty = !metadata;
  if (marked) {
    std::string text;
    state.error = storage::read_file(marker_of(path), marker_bytes_max, text);
    if (!state.error.empty())
      return state;
    if (metadata && read_promise(text, state.promised_term))
      return state;
    if (text != catching_up && !read_promise(text, state.promised_term)) {
      state.damage = marker_of(path) + " holds neither a promise nor none";
      return state;
    }
    state.promised_term = 0;
    state.error = clear(path);
    if (!state.error.empty())
      return state;
    return begin_probation(path, std::move(state));
  }
  if (metadata || alone)
    return state;
  const bool bare = fs::is_empty(path, code);
  if (code) {
    state.error = failure("read", path, code.value());
    return state;
  }
  if (!bare) {
    state.damage = path + " holds files, but not those that say who was voted for";
    return state;
  }
  return begin_probation(path, std::move(state));
}

std::string promise_term(const std::string& path, std::uint64_t term) {
  return storage::write_file_atomically(marker_of(path), fmt::format("{}{}\n", promised, term));
}

std::string forget_promise(const std::string& path) {
  if (::unlink(marker_of(path).c_str()) != 0 && errno != ENOENT)
    return failure("remove", marker_of(path), errno);
  const int directory = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    return failure("open", path, errno);
  const bool synced = ::fsync(directory) == 0 || errno == EINVAL;
  const int code = errno;
  ::close(directory);
  return synced ? "" : failure("sync", path, code);
}

std::string move_aside(const std::string& path, std::string& moved_to) {
  for (int number = 1; number <= aside_max; ++number) {
    moved_to = fmt::format("{}.damaged-{}", path, number);
    std::error_code code;
    if (fs::exists(moved_to, code))
      continue;
    fs::rename(path, moved_to, code);
    return code ? failure("move", path + " to " + moved_to, code.value()) : "";
  }
  return fmt::format("cannot move {} aside: there are {} such directories already", path, aside_max);
}

std::string check_room(const std::string& path) {
  const auto probe = path + "/room-probe";
  const int file = ::open(probe.c_str(), O_CREAT | O_RDWR | O_TRUNC | O_CLOEXEC, 0600);
  if (file < 0)
    return failure("write in", path, errno);
  const int code = ::posix_fallocate(file, 0, room_bytes);
  ::close(file);
  ::unlink(probe.c_str());
  return code == 0 ? "" : failure(fmt::format("allocate {} MiB in", room_bytes >> 20), path, code);
}

std::string check_access(const std::string& path) {
  std::error_code code;
  for (fs::directory_iterator entry(path, code), end; !code && entry != end; entry.increment(code)) {
    if (!entry->is_regular_file(code))
      continue;
    const int file = ::open(entry->path().c_str(), O_RDWR | O_CLOEXEC);
    if (file < 0)
      return failure("open", entry->path(), errno);
    ::close(file);
  }
  return code ? failure("read", path, code.value()) : "";
}

} // namespace dynamix::replication
