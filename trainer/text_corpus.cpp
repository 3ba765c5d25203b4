#include "trainer/text_corpus.hpp"

#include "storage/atomic_file.hpp"
#include "trainer/gunzip.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <unordered_map>

namespace dynamix::trainer {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t text_bytes_max = 1U << 30;
constexpr std::size_t files_max = 100'000;
constexpr std::size_t stretches = 20;

/// A file's text, unpacked; nothing if it is no text.
std::string append_file(const fs::path& path, std::string& text) {
  const auto room = text_bytes_max - text.size();
  std::string contents;
  if (auto problem = storage::read_file(path.string(), room, contents); !problem.empty())
    return problem;
  if (path.extension() == ".gz") {
    std::string unpacked;
    if (auto problem = gunzip(contents, room, unpacked); !problem.empty())
      return fmt::format("{}: {}", path.string(), problem);
    contents = std::move(unpacked);
  }
  if (contents.find('\0') == std::string::npos)
    text += contents;
  return {};
}

std::string list_files(const std::string& path, std::vector<fs::path>& files) {
  std::error_code error;
  auto each = fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied, error);
  for (; !error && each != fs::recursive_directory_iterator(); each.increment(error)) {
    if (each->path().filename().string().starts_with('.')) {
      each.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (each->is_regular_file(ignored))
      files.push_back(each->path());
    if (files.size() > files_max)
      return fmt::format("{} holds more than {} files", path, files_max);
  }
  if (error)
    return fmt::format("cannot read {}: {}", path, error.message());
  std::ranges::sort(files);
  return {};
}

bool is_of_word(unsigned char byte) {
  return byte >= 128 || byte == '\'' || (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
         (byte >= 'A' && byte <= 'Z');
}

bool is_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r' || byte == '\f' || byte == '\v';
}

std::vector<std::uint16_t> number_words(std::string_view text, std::uint32_t vocabulary_size) {
  const auto words = words_of(text);
  std::unordered_map<std::string_view, std::uint64_t> counts;
  for (const auto word : words)
    ++counts[word];
  std::vector<std::pair<std::string_view, std::uint64_t>> ranked(counts.begin(), counts.end());
  std::ranges::sort(ranked, [](const auto& left, const auto& right) {
    return left.second != right.second ? left.second > right.second : left.first < right.first;
  });
  std::unordered_map<std::string_view, std::uint16_t> numbers;
  for (std::size_t rank = 0; rank < std::min<std::size_t>(ranked.size(), vocabulary_size - 1); ++rank)
    numbers[ranked[rank].first] = static_cast<std::uint16_t>(rank + 1);
  std::vector<std::uint16_t> tokens;
  tokens.reserve(words.size());
  for (const auto word : words) {
    const auto found = numbers.find(word);
    tokens.push_back(found == numbers.end() ? std::uint16_t{0} : found->second);
  }
  return tokens;
}

} // namespace

std::string read_text(const std::string& path, std::string& text) {
  text.clear();
  std::error_code error;
  const auto status = fs::status(path, error);
  if (error || status.type() == fs::file_type::not_found)
    return fmt::format("there is no {}", path);
  std::vector<fs::path> files;
  if (status.type() == fs::file_type::directory) {
    if (auto problem = list_files(path, files); !problem.empty())
      return problem;
  } else {
    files.push_back(path);
  }
  for (const auto& file : files)
    if (auto problem = append_file(file, text); !problem.empty())
      return problem;
  return text.empty() ? fmt::format("there is no text in {}", path) : "";
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at + 1;
    if (is_of_word(static_cast<unsigned char>(text[at])))
      while (end < text.size() && is_of_word(static_cast<unsigned char>(text[end])))
        ++end;
    if (!is_space(text[at]))
      words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::string cut_text(std::string_view text, const text_options& options, bool test, text_samples& samples) {
  samples = {};
  std::vector<std::uint16_t> all;
  if (options.vocabulary == cluster::vocabulary_kind::words)
    all = number_words(text, options.vocabulary_size);
  else
    for (const auto byte : text)
      all.push_back(static_cast<std::uint8_t>(byte));
  const std::size_t stretch = all.size() / stretches;
  for (std::size_t i = 0; i < stretches; ++i) {
    const std::size_t first = i * stretch;
    const std::size_t split = first + stretch - stretch / 10;
    const std::size_t begin = test ? split : first;
    const std::size_t end = test ? first + stretch : split;
    const auto moved = samples.tokens.size();
    samples.tokens.insert(samples.tokens.end(), all.begin() + static_cast<std::ptrdiff_t>(begin),
                          all.begin() + static_cast<std::ptrdiff_t>(end));
    // One token more than the context: the last one is only a label.
    for (std::size_t at = 0; at + options.context < end - begin; at += options.context)
      samples.starts.push_back(static_cast<std::uint32_t>(moved + at));
  }
  if (samples.starts.empty())
    return fmt::format("found {} tokens, expected at least {}, {} times the context of {} and one more", all.size(),
                       stretches * 10 * (options.context + 1), stretches * 10, options.context);
  return {};
}

} // namespace dynamix::trainer
