#include "ledger/segments.hpp"

#include "ledger/line_reader.hpp"
#include "storage/atomic_file.hpp"
#include "storage/beneath.hpp"

#include <spdlog/fmt/fmt.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/stat.h>
#include <unistd.h>

namespace dynamix::ledger {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t packing_bytes = 256U << 10;
constexpr int gzip_format = 15 + 16; ///< the largest window, and a gzip header
constexpr const char* packed_suffix = ".gz";
constexpr const char* text_suffix = ".jsonl";
constexpr std::size_t trailer_bytes = 4;    ///< of gzip: the text's size, the lowest byte first
constexpr std::size_t unfinished_bytes = 7; ///< of ".XXXXXX", which storage::write_file_atomically adds meanwhile
constexpr std::chrono::hours unfinished_at_most{1}; ///< what is older has nobody who writes it

std::string stem_of(const std::string& ledger) {
  return fs::path(ledger).stem().string() + "-";
}

/// What a compressed file of so many bytes says of its text, which has `segment_bytes_max` at most.
std::uint64_t text_bytes_of(const std::string& packed, std::uint64_t file_bytes) {
  const int file = storage::open_to_read(packed, true);
  std::array<unsigned char, trailer_bytes> trailer{};
  const bool whole = file >= 0 && file_bytes >= trailer_bytes &&
                     ::pread(file, trailer.data(), trailer_bytes, static_cast<off_t>(file_bytes - trailer_bytes)) ==
                         static_cast<ssize_t>(trailer_bytes);
  if (file >= 0)
    ::close(file);
  std::uint64_t size = 0;
  for (std::size_t i = 0; whole && i < trailer_bytes; ++i)
    size |= std::uint64_t{trailer[i]} << (8 * i);
  return size;
}

/// False for a file that is none.
bool parse_name(const std::string& name, const std::string& stem, segment& found) {
  found.packed = name.ends_with(packed_suffix);
  const auto end = name.size() - (found.packed ? std::strlen(packed_suffix) : 0);
  const std::string_view plain(name.data(), end);
  if (!plain.starts_with(stem) || !plain.ends_with(text_suffix))
    return false;
  const auto* first = plain.data() + stem.size();
  const auto* last = plain.data() + plain.size() - std::strlen(text_suffix);
  const auto [stop, failed] = std::from_chars(first, last, found.begin);
  return first < last && stop == last && failed == std::errc();
}

/// What a process that was killed while it compressed a segment has left behind.
std::vector<std::string> remains_of(const std::string& ledger) {
  std::vector<std::string> found;
  const auto directory = fs::path(ledger).parent_path();
  std::error_code error;
  for (fs::directory_iterator entry(directory.empty() ? "." : directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const auto name = entry->path().filename().string();
    const auto finished = name.substr(0, name.size() - std::min(name.size(), unfinished_bytes));
    std::error_code gone;
    const auto written = entry->last_write_time(gone);
    segment of;
    if (!gone && name[finished.size()] == '.' && parse_name(finished, stem_of(ledger), of) && of.packed &&
        written < fs::file_time_type::clock::now() - unfinished_at_most)
      found.push_back(entry->path().string());
  }
  return found;
}

/// Returns an empty string or why the file is still there. Another writer may have removed it.
std::string remove_file(const std::string& path) {
  return ::unlink(path.c_str()) == 0 || errno == ENOENT
             ? ""
             : fmt::format("cannot remove {}: {}", path, std::strerror(errno));
}

/// All files that are segments by their names, by place, the compressed form of one first. Links and pipes are none.
std::vector<segment> files_of(const std::string& ledger) {
  std::vector<segment> found;
  struct stat own {};
  const bool exists = ::stat(ledger.c_str(), &own) == 0;
  const auto stem = stem_of(ledger);
  std::error_code error;
  const auto directory = fs::path(ledger).parent_path();
  for (fs::directory_iterator entry(directory.empty() ? "." : directory, error), end; !error && entry != end;
       entry.increment(error)) {
    segment one{.path = entry->path().string()};
    struct stat file {};
    if (!parse_name(entry->path().filename().string(), stem, one) || ::lstat(one.path.c_str(), &file) != 0 ||
        !(S_ISREG(file.st_mode) || S_ISDIR(file.st_mode)) ||
        (exists && file.st_ino == own.st_ino && file.st_dev == own.st_dev))
      continue;
    one.file_bytes = static_cast<std::uint64_t>(file.st_size);
    one.text_bytes = one.packed ? text_bytes_of(one.path, one.file_bytes) : one.file_bytes;
    found.push_back(std::move(one));
  }
  std::ranges::sort(found, [](const segment& left, const segment& right) {
    return left.begin != right.begin ? left.begin < right.begin : left.packed && !right.packed;
  });
  return found;
}

/// Compresses a stream's text into `packed`. Returns an empty string or what went wrong.
std::string pack(std::istream& text, std::vector<std::uint8_t>& packed) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, gzip_format, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return "zlib cannot start";
  std::vector<char> in(packing_bytes);
  std::vector<std::uint8_t> out(packing_bytes);
  int status = Z_OK;
  while (status == Z_OK) {
    text.read(in.data(), static_cast<std::streamsize>(in.size()));
    stream.next_in = reinterpret_cast<Bytef*>(in.data());
    stream.avail_in = static_cast<uInt>(text.gcount());
    do {
      stream.next_out = out.data();
      stream.avail_out = static_cast<uInt>(out.size());
      status = deflate(&stream, text ? Z_NO_FLUSH : Z_FINISH);
      packed.insert(packed.end(), out.begin(), out.end() - stream.avail_out);
    } while (status == Z_OK && stream.avail_out == 0);
  }
  deflateEnd(&stream);
  return status == Z_STREAM_END && text.eof() ? "" : "it cannot be read whole";
}

std::string pack_file(const segment& one) {
  std::ifstream text(one.path, std::ios::binary);
  if (!text && errno == ENOENT) // another writer has done it
    return {};
  std::vector<std::uint8_t> packed;
  auto problem = text ? pack(text, packed) : std::string(std::strerror(errno));
  if (!problem.empty())
    return fmt::format("cannot compress {}: {}", one.path, problem);
  return storage::write_file_atomically(one.path + packed_suffix, packed);
}

/// Leaves its first row; false where there is no more to leave out.
bool cut(const segment& first, std::string& problem) {
  std::string row;
  line_reader reader(first.path);
  if (!reader.next(row) || row.size() + 1 >= first.text_bytes)
    return false;
  std::istringstream text(row + "\n");
  std::vector<std::uint8_t> packed;
  if (problem = pack(text, packed); problem.empty())
    problem = storage::write_file_atomically(first.path, packed);
  return problem.empty();
}

} // namespace

std::uint64_t segment_bytes_of(std::uint64_t keep_bytes) {
  return std::clamp<std::uint64_t>(keep_bytes / 16, 64U << 10, 64U << 20);
}

std::string segment_path(const std::string& ledger, std::uint64_t begin) {
  return (fs::path(ledger).parent_path() / fmt::format("{}{:020}{}", stem_of(ledger), begin, text_suffix)).string();
}

std::vector<segment> segments_of(const std::string& ledger) {
  auto found = files_of(ledger);
  const auto same = [](const segment& left, const segment& right) { return left.begin == right.begin; };
  found.erase(std::unique(found.begin(), found.end(), same), found.end());
  return found;
}

std::uint64_t newest_part_begin(const std::vector<segment>& segments) {
  return segments.empty() ? 0 : segments.back().begin + std::max<std::uint64_t>(segments.back().text_bytes, 1);
}

std::string pack_segments(const std::string& ledger, std::uint64_t keep_bytes) {
  std::string first_problem;
  const auto note = [&](const std::string& problem) {
    if (first_problem.empty())
      first_problem = problem;
  };
  const auto files = files_of(ledger);
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i].packed)
      continue;
    const bool done = i > 0 && files[i - 1].begin == files[i].begin;
    if (auto problem = done ? "" : pack_file(files[i]); !problem.empty())
      note(problem);
    else
      note(remove_file(files[i].path));
  }
  for (const auto& path : remains_of(ledger))
    note(remove_file(path));
  auto kept = segments_of(ledger);
  std::uint64_t bytes = 0;
  for (const auto& one : kept)
    bytes += one.file_bytes;
  const auto room = keep_bytes - std::min(keep_bytes, 3 * segment_bytes_of(keep_bytes));
  for (const auto& one : kept) {
    if (bytes <= room || &one == &kept.back())
      break;
    std::string problem;
    if (one.begin != 0)
      problem = remove_file(one.path);
    const bool smaller = one.begin == 0 ? one.packed && cut(one, problem) : problem.empty();
    note(problem);
    bytes -= smaller ? one.file_bytes : 0;
  }
  return first_problem;
}

} // namespace dynamix::ledger
