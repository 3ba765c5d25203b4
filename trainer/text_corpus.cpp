#include "trainer/text_corpus.hpp"

#include "storage/atomic_file.hpp"
#include "storage/text_encoding.hpp"
#include "trainer/byte_pairs.hpp"
#include "trainer/gunzip.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/core.h>
#include <set>
#include <unordered_map>

namespace dynamix::trainer {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t text_bytes_max = 1U << 30;
constexpr std::size_t files_max = 100'000;
constexpr std::size_t stretches = 20;
constexpr std::size_t piece_bytes_max = 32;

/// A file's text, unpacked; nothing if it is not a text.
std::string append_file(const fs::path& path, std::string& text, std::vector<std::string>& left_out) {
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
  contents = storage::to_utf8(std::move(contents));
  if (const auto zero = contents.find('\0'); zero == std::string::npos)
    text += contents;
  else
    left_out.push_back(fmt::format("{} is not a text: byte {} is zero", path.string(), zero));
  return {};
}

std::string list_files(const std::string& path, std::vector<fs::path>& files, std::vector<std::string>& left_out) {
  std::set<fs::path> folders = {path}; // in order: who leads to a folder first must not differ between hosts
  std::set<fs::path> seen;             // a link may lead to a folder that holds it
  while (!folders.empty()) {
    const auto folder = std::move(folders.extract(folders.begin()).value());
    std::error_code error;
    if (!seen.insert(fs::canonical(folder, error)).second)
      continue;
    for (fs::directory_iterator each(folder, error); !error && each != fs::directory_iterator();
         each.increment(error)) {
      std::error_code unknown;
      if (each->path().filename().string().starts_with('.'))
        continue;
      if (each->is_directory(unknown))
        folders.insert(each->path());
      else if (each->is_regular_file(unknown))
        files.push_back(each->path());
      else if (unknown || !each->exists(unknown))
        left_out.push_back(fmt::format(
            "{} cannot be read: {}", each->path().string(),
            unknown && unknown != std::errc::no_such_file_or_directory ? unknown.message() : "it leads nowhere"));
      if (files.size() + folders.size() > files_max)
        return fmt::format("{} holds more than {} files", path, files_max);
    }
    if (error && folder == path)
      return fmt::format("cannot read {}: {}", path, error.message());
    if (error)
      left_out.push_back(fmt::format("{} cannot be read: {}", folder.string(), error.message()));
  }
  std::ranges::sort(files);
  std::ranges::sort(left_out);
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

/// From `first` on, up to `end`; what is behind `split` is for testing.
struct stretch {
  std::size_t first = 0;
  std::size_t split = 0;
  std::size_t end = 0;
};

std::vector<stretch> cut_stretches(std::size_t whole) {
  const std::size_t length = whole / stretches;
  std::vector<stretch> cuts;
  for (std::size_t first = 0; cuts.size() < stretches; first += length)
    cuts.push_back({first, first + length - length / 10, first + length});
  return cuts;
}

/// The tokens of the training or the test part of each stretch.
std::vector<std::vector<std::uint16_t>> number_byte_pairs(std::string_view text, std::uint32_t vocabulary_size,
                                                          bool test) {
  const auto pieces = pieces_of(text);
  const auto cuts = cut_stretches(pieces.size());
  std::vector<std::string_view> training;
  for (const auto& [first, split, end] : cuts)
    for (std::size_t i = first; i < split; ++i)
      training.push_back(pieces[i]);
  const byte_pairs vocabulary(training, vocabulary_size);
  std::unordered_map<std::string_view, std::vector<std::uint16_t>> known;
  std::vector<std::vector<std::uint16_t>> parts;
  for (const auto& [first, split, end] : cuts) {
    auto& part = parts.emplace_back();
    for (std::size_t i = test ? split : first; i < (test ? end : split); ++i) {
      const auto [found, fresh] = known.try_emplace(pieces[i]);
      if (fresh)
        vocabulary.encode(pieces[i], found->second);
      part.insert(part.end(), found->second.begin(), found->second.end());
    }
  }
  return parts;
}

/// The same for tokens that are numbered already.
std::vector<std::vector<std::uint16_t>> cut_tokens(const std::vector<std::uint16_t>& all, bool test) {
  std::vector<std::vector<std::uint16_t>> parts;
  for (const auto& [first, split, end] : cut_stretches(all.size()))
    parts.emplace_back(all.begin() + static_cast<std::ptrdiff_t>(test ? split : first),
                       all.begin() + static_cast<std::ptrdiff_t>(test ? end : split));
  return parts;
}

std::vector<std::vector<std::uint16_t>> number_and_cut(std::string_view text, const text_options& options, bool test) {
  switch (options.vocabulary) {
  case cluster::vocabulary_kind::words:
    return cut_tokens(number_words(text, options.vocabulary_size), test);
  case cluster::vocabulary_kind::byte_pairs:
    return number_byte_pairs(text, options.vocabulary_size, test);
  case cluster::vocabulary_kind::bytes:
    break;
  }
  std::vector<std::uint16_t> all;
  for (const auto byte : text)
    all.push_back(static_cast<std::uint8_t>(byte));
  return cut_tokens(all, test);
}

} // namespace

std::string read_text(const std::string& path, std::string& text, std::vector<std::string>& left_out) {
  text.clear();
  left_out.clear();
  std::error_code error;
  const auto status = fs::status(path, error);
  if (error || status.type() == fs::file_type::not_found)
    return fmt::format("there is no {}", path);
  std::vector<fs::path> files;
  if (status.type() == fs::file_type::directory) {
    if (auto problem = list_files(path, files, left_out); !problem.empty())
      return problem;
  } else {
    files.push_back(path);
  }
  for (const auto& file : files)
    if (auto problem = append_file(file, text, left_out); !problem.empty())
      return problem;
  return !text.empty() ? ""
                       : fmt::format("there is no text in {}{}", path, left_out.empty() ? "" : "; " + left_out.front());
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

std::vector<std::string_view> pieces_of(std::string_view text) {
  std::vector<std::string_view> pieces;
  const auto run_ends = [&](std::size_t first, std::size_t at, auto belongs) {
    while (at < text.size() && at - first < piece_bytes_max && belongs(text[at]))
      ++at;
    return at;
  };
  for (std::size_t at = 0; at < text.size();) {
    // A blank belongs to what is behind it.
    const bool blank = text[at] == ' ' && at + 1 < text.size() && !is_space(text[at + 1]);
    auto end = at + (blank ? 1 : 0);
    if (is_space(text[end])) {
      end = run_ends(at, end, is_space);
      if (end < text.size() && end - at > 1 && text[end - 1] == ' ' && !is_space(text[end]))
        --end;
    } else if (is_of_word(static_cast<unsigned char>(text[end]))) {
      end = run_ends(at, end, [](char byte) { return is_of_word(static_cast<unsigned char>(byte)); });
    } else {
      ++end;
    }
    pieces.push_back(text.substr(at, end - at));
    at = end;
  }
  return pieces;
}

std::string cut_text(std::string_view text, const text_options& options, bool test, text_samples& samples) {
  samples = {};
  for (const auto& part : number_and_cut(text, options, test)) {
    const auto moved = samples.tokens.size();
    samples.tokens.insert(samples.tokens.end(), part.begin(), part.end());
    // One token more than the context: the last one is only a label.
    for (std::size_t at = 0; at + options.context < part.size(); at += options.context)
      samples.starts.push_back(static_cast<std::uint32_t>(moved + at));
  }
  if (samples.starts.empty())
    return fmt::format("found {} tokens {}, expected at least {}, {} times the context of {} and one more",
                       samples.tokens.size(), test ? "to test on" : "to train on", stretches * (options.context + 1),
                       stretches, options.context);
  return {};
}

} // namespace dynamix::trainer
