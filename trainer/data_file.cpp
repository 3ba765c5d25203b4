#include "trainer/data_file.hpp"

#include "storage/atomic_file.hpp"
#include "trainer/gunzip.hpp"

#include <array>
#include <filesystem>
#include <fmt/core.h>
#include <system_error>
#include <utility>

namespace dynamix::trainer {
namespace {

using namespace std::string_view_literals;

constexpr std::array marks = {
    std::pair{gzip_mark, "gzip data"sv},
    std::pair{"PK\x03\x04"sv, "a zip archive"sv},
    std::pair{"BZh"sv, "bzip2 data"sv},
    std::pair{"\xfd"
              "7zXZ"sv,
              "xz data"sv},
    std::pair{"\x28\xb5\x2f\xfd"sv, "zstd data"sv},
    std::pair{"7z\xbc\xaf"sv, "a 7-Zip archive"sv},
    std::pair{"\x80\x02"sv, "a Python pickle"sv},
    std::pair{"\x80\x03"sv, "a Python pickle"sv},
    std::pair{"\x80\x04"sv, "a Python pickle"sv},
    std::pair{"\x93NUMPY"sv, "a NumPy array"sv},
    std::pair{"\x89HDF"sv, "an HDF5 file"sv},
    std::pair{"PAR1"sv, "a Parquet file"sv},
    std::pair{"\x89PNG"sv, "a PNG image"sv},
    std::pair{"version https://git-lfs"sv, "a Git LFS pointer in place of the file, which `git lfs pull` fetches"sv},
    std::pair{"<!DOCTYPE"sv, "an HTML page"sv},
    std::pair{"<!doctype"sv, "an HTML page"sv},
    std::pair{"<html"sv, "an HTML page"sv},
    std::pair{"<?xml"sv, "an XML page"sv},
    std::pair{"\xef\xbb\xbf"sv, "text with a byte order mark"sv},
    std::pair{"\xff\xfe"sv, "text in UTF-16"sv},
    std::pair{"\xfe\xff"sv, "text in UTF-16"sv},
};

/// Whether there is one; of a link that leads nowhere, and of a folder that is closed, the reason is `problem`.
bool is_there(const std::string& path, std::string& problem) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::exists(status))
    return true;
  if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
    problem = fmt::format("cannot read {}: {}", path, error.message());
  else if (std::filesystem::is_symlink(path, error))
    problem = fmt::format("cannot read {}: it is a link to {}, which is not there", path,
                          std::filesystem::read_symlink(path, error).string());
  return false;
}

} // namespace

std::string read_data_file(std::string& path, std::size_t limit_bytes, std::string& contents) {
  std::string problem;
  if (!is_there(path, problem)) {
    const auto packed = path + ".gz";
    if (problem.empty() && !is_there(packed, problem) && problem.empty())
      return "there is neither " + path + " nor " + packed;
    if (!problem.empty())
      return problem;
    path = packed;
  }
  if (problem = storage::read_file(path, limit_bytes, contents); !problem.empty())
    return problem;
  // Of what was cut to less than the mark, the name has to tell.
  if (!contents.starts_with(gzip_mark) && !(path.ends_with(".gz") && contents.size() < gzip_mark.size()))
    return {};
  const auto packed = std::exchange(contents, {});
  if (problem = gunzip(packed, limit_bytes, contents); !problem.empty())
    return path + ": " + problem;
  return {};
}

std::string_view kind_of_file(std::string_view contents) {
  for (const auto& [mark, kind] : marks)
    if (contents.starts_with(mark))
      return kind;
  constexpr std::size_t tar_mark_offset = 257;
  return contents.size() > tar_mark_offset && contents.substr(tar_mark_offset).starts_with("ustar") ? "a tar archive"
                                                                                                    : "";
}

std::string visible(std::string_view text, std::size_t bytes_max) {
  std::string shown;
  for (const char each : text.substr(0, bytes_max)) {
    if (each >= ' ' && each <= '~')
      shown.push_back(each);
    else
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(each));
  }
  return shown;
}

} // namespace dynamix::trainer
