#pragma once

/// Text as samples of a fixed number of tokens.

#include "cluster/cluster_file.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::trainer {

/// One split of a corpus. A sample is `context` tokens, and its labels the tokens that follow each of them. All samples
/// have as many tokens; what is left at the end of a stretch is not used.
struct text_samples {
  std::vector<std::uint16_t> tokens;
  std::vector<std::uint32_t> starts; ///< of each sample: the place of its first token
};

struct text_options {
  cluster::vocabulary_kind vocabulary = cluster::vocabulary_kind::bytes;
  std::uint32_t vocabulary_size = 8192; ///< of words and byte pairs
  std::uint32_t context = 128;
};

/// Reads the text at `path`: a file, or all files below a directory, one after the other in the order of their paths,
/// at most 1 GiB in all. Those that end in `.gz` are unpacked, and UTF-16 with its mark is converted; links are
/// followed. Hidden ones are passed over. `left_out`: what else is, each with its path and the reason: files with a
/// zero byte, and folders that cannot be read. Returns an empty string, or what is wrong.
std::string read_text(const std::string& path, std::string& text, std::vector<std::string>& left_out);

/// Words and signs of a text: a run of letters, digits, apostrophes and bytes above 127 is one, any other character is
/// one by itself, and white space only separates.
std::vector<std::string_view> words_of(std::string_view text);

/// A text in pieces of at most 32 bytes, within which byte pairs are joined: words and signs with the blank in front of
/// them, and what white space is left. All bytes are in one of them.
std::vector<std::string_view> pieces_of(std::string_view text);

/// Cuts the text into 20 equal stretches of tokens (for byte pairs, of pieces), the last tenth of which is for testing,
/// so that training and test have text from everywhere and no token in common. Bytes are their own numbers. Of words
/// the `vocabulary_size - 1` most frequent of the whole text have numbers from 1 on (equally frequent ones in the order
/// of their bytes), all others 0. Byte pairs (trainer/byte_pairs.hpp) are learned from the training text. Returns an
/// empty string, or what is wrong.
std::string cut_text(std::string_view text, const text_options& options, bool test, text_samples& samples);

} // namespace dynamix::trainer
