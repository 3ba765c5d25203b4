#include "tests/unit/tidy/source_tree.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <sstream>

namespace dynamix::tidy {

namespace {

constexpr std::array<std::string_view, 13> extensions = {".cpp",   ".hpp",  ".h",  ".c",   ".capnp", ".py", ".sh",
                                                         ".cmake", ".toml", ".md", ".txt", ".json",  ".yml"};

bool is_word(char character) {
  return std::isalnum(static_cast<unsigned char>(character)) || character == '_';
}

/// Where a literal that opens at `begin` ends (behind its closing quote); `text.size()` if it never does.
std::size_t end_of_literal(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  if (quote == '"' && begin > 0 && text[begin - 1] == 'R') {
    const std::size_t parenthesis = text.find('(', begin);
    if (parenthesis == text.npos)
      return text.size();
    const std::string closing = ")" + std::string(text.substr(begin + 1, parenthesis - begin - 1)) + "\"";
    const std::size_t end = text.find(closing, parenthesis);
    return end == text.npos ? text.size() : end + closing.size();
  }
  for (std::size_t at = begin + 1; at < text.size(); ++at) {
    if (text[at] == '\\')
      ++at;
    else if (text[at] == quote || text[at] == '\n')
      return at + 1;
  }
  return text.size();
}

/// Where the comment or literal that opens at `begin` ends; `begin` if none opens there.
std::size_t end_of_blank(std::string_view text, std::size_t begin) {
  const std::string_view rest = text.substr(begin);
  if (rest.starts_with("//"))
    return std::min(text.find('\n', begin), text.size());
  if (rest.starts_with("/*")) {
    const std::size_t end = text.find("*/", begin + 2);
    return end == text.npos ? text.size() : end + 2;
  }
  // A quote behind a digit separates digits: 1'000.
  const bool separates = text[begin] == '\'' && begin > 0 && is_word(text[begin - 1]);
  if (text[begin] == '"' || (text[begin] == '\'' && !separates))
    return end_of_literal(text, begin);
  return begin;
}

std::vector<include_line> find_includes(std::string_view text, std::string_view code) {
  std::vector<include_line> found;
  std::size_t begin = 0;
  for (std::size_t line = 1; begin < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::size_t hash = code.find_first_not_of(" \t", begin);
    const std::string_view rest = hash < end ? text.substr(hash, end - hash) : std::string_view();
    if (rest.starts_with('#') && rest.find("include") == rest.find_first_not_of(" \t", 1)) {
      const std::size_t open = rest.find_first_of("\"<");
      const std::size_t close = open == rest.npos ? rest.npos : rest.find_first_of("\">", open + 1);
      if (close != rest.npos)
        found.push_back({line, std::string(rest.substr(open + 1, close - open - 1)), rest[open] == '"'});
    }
    begin = end + 1;
  }
  return found;
}

bool is_text(const std::filesystem::path& path) {
  return path.filename() == "Makefile" || path.filename() == "run" ||
         std::find(extensions.begin(), extensions.end(), path.extension().string()) != extensions.end();
}

bool is_ignored(const std::filesystem::path& directory) {
  const std::string name = directory.filename().string();
  return name.starts_with('.') || name == "build" || name == "runs" || name == "__pycache__";
}

source_file read_source(const std::filesystem::path& root, const std::filesystem::path& path) {
  source_file file;
  file.path = path.lexically_relative(root).generic_string();
  std::ostringstream contents;
  contents << std::ifstream(path, std::ios::binary).rdbuf();
  file.text = contents.str();
  file.lines = static_cast<std::size_t>(std::count(file.text.begin(), file.text.end(), '\n'));
  if (!file.text.empty() && file.text.back() != '\n')
    ++file.lines;
  if (file.is_cpp()) {
    file.code = blank_comments_and_literals(file.text);
    file.includes = find_includes(file.text, file.code);
  }
  return file;
}

} // namespace

std::string source_file::room() const {
  const std::size_t slash = path.find('/');
  return slash == path.npos ? std::string() : path.substr(0, slash);
}

const source_file* source_tree::find(std::string_view path) const {
  const auto at = std::lower_bound(files.begin(), files.end(), path,
                                   [](const auto& file, auto wanted) { return file.path < wanted; });
  return at != files.end() && at->path == path ? &*at : nullptr;
}

source_tree read_tree(const std::filesystem::path& root) {
  source_tree tree;
  for (auto entry = std::filesystem::recursive_directory_iterator(root); entry != std::filesystem::end(entry);
       ++entry) {
    if (entry->is_directory() && is_ignored(entry->path()))
      entry.disable_recursion_pending();
    else if (entry->is_regular_file() && is_text(entry->path()))
      tree.files.push_back(read_source(root, entry->path()));
    else if (entry->is_regular_file())
      tree.data.push_back(entry->path().lexically_relative(root).generic_string());
  }
  std::sort(tree.data.begin(), tree.data.end());
  std::sort(tree.files.begin(), tree.files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  return tree;
}

std::string blank_comments_and_literals(std::string_view text) {
  std::string code(text);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = end_of_blank(text, at);
    for (std::size_t blank = at; blank < end; ++blank)
      if (code[blank] != '\n')
        code[blank] = ' ';
    at = std::max(end, at + 1);
  }
  return code;
}

std::size_t line_of(std::string_view text, std::size_t offset) {
  return 1 +
         static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(offset), '\n'));
}

} // namespace dynamix::tidy
