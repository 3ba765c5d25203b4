#pragma once

/// The repository's text, as the rules in rules.hpp read it.

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::tidy {

struct include_line {
  std::size_t line = 0;
  std::string path;    ///< between the quotes or the angle brackets
  bool quoted = false; ///< "..." and not <...>
};

struct source_file {
  std::string path; ///< from the repository's root, with slashes
  std::string text; ///< as it is
  std::string code; ///< of C++: the same length and lines, with comments and literals blanked; else empty
  std::vector<include_line> includes; ///< of C++ and C
  std::size_t lines = 0;

  bool is_header() const { return path.ends_with(".hpp") || path.ends_with(".h"); }
  bool is_cpp() const { return path.ends_with(".cpp") || is_header(); }
  /// The top directory; empty for a file in the root.
  std::string room() const;
};

struct source_tree {
  std::vector<source_file> files; ///< text, ordered by path
  std::vector<std::string> data;  ///< paths of all other files, ordered
  const source_file* find(std::string_view path) const;
};

/// Reads every text file below `root` that a person writes: C++, schemas, scripts, CMake, TOML, documents. Passes over
/// the directories that Git ignores (build, runs) and hidden ones.
source_tree read_tree(const std::filesystem::path& root);

/// `text` with every comment, string literal and character literal replaced by blanks; line breaks stay.
std::string blank_comments_and_literals(std::string_view text);

/// The line, from 1, in which `offset` lies.
std::size_t line_of(std::string_view text, std::size_t offset);

} // namespace dynamix::tidy
