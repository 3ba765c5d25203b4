#include "storage/splitmix64.hpp"
#include "trainer/byte_pairs.hpp"
#include "trainer/text_corpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace dynamix::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// Words of a few syllables, some far more frequent than others.
std::string babble(std::uint64_t seed, int words) {
  constexpr const char* syllables[] = {"ba", "lo", "min", "ra", "the", "s", "tion", "ing"};
  storage::splitmix64 random(seed);
  std::string text;
  for (int word = 0; word < words; ++word) {
    for (std::uint32_t syllable = 0; syllable <= random.below(3); ++syllable)
      text += syllables[std::min(random.below(8), random.below(8))];
    text += random.below(9) == 0 ? ".\n" : " ";
  }
  return text;
}

/// Byte pairs by their definition: all neighbours are counted anew for each token.
struct slow_vocabulary {
  using pair = std::pair<std::uint32_t, std::uint32_t>;
  std::vector<std::vector<std::uint32_t>> pieces; ///< by age of tokens
  std::vector<std::string> by_age;

  slow_vocabulary(const std::vector<std::string_view>& text, std::size_t size) {
    for (std::uint32_t byte = 0; byte < 256; ++byte)
      by_age.emplace_back(1, static_cast<char>(byte));
    for (const auto piece : text) {
      auto& tokens = pieces.emplace_back();
      for (const auto byte : piece)
        tokens.push_back(static_cast<std::uint8_t>(byte));
    }
    while (by_age.size() < size) {
      std::map<pair, int> counts;
      for (const auto& tokens : pieces)
        for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
          ++counts[{tokens[i], tokens[i + 1]}];
      const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
      if (most == counts.end() || most->second < 2)
        break;
      replace(most->first);
    }
  }

  void replace(pair joined) {
    for (auto& tokens : pieces) {
      std::vector<std::uint32_t> next;
      for (std::size_t i = 0; i < tokens.size(); ++i)
        if (i + 1 < tokens.size() && pair(tokens[i], tokens[i + 1]) == joined) {
          next.push_back(static_cast<std::uint32_t>(by_age.size()));
          ++i;
        } else {
          next.push_back(tokens[i]);
        }
      tokens = next;
    }
    by_age.push_back(by_age[joined.first] + by_age[joined.second]);
  }
};

std::string read_back(const byte_pairs& vocabulary, const std::vector<std::uint16_t>& tokens) {
  std::string text;
  for (const auto token : tokens)
    text += vocabulary.bytes_of(token);
  return text;
}

TEST(BytePairs, AreThoseOfTheirDefinition) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const auto text = babble(seed, 700);
    const auto pieces = pieces_of(text);
    const slow_vocabulary slow(pieces, 330);
    const byte_pairs vocabulary(pieces, 330);
    ASSERT_EQ(vocabulary.size(), slow.by_age.size());
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      std::vector<std::uint16_t> tokens;
      vocabulary.encode(pieces[i], tokens);
      ASSERT_EQ(tokens.size(), slow.pieces[i].size()) << pieces[i];
      for (std::size_t token = 0; token < tokens.size(); ++token)
        EXPECT_EQ(vocabulary.bytes_of(tokens[token]), slow.by_age[slow.pieces[i][token]]) << pieces[i];
    }
  }
}

TEST(BytePairs, JoinARunFromTheLeft) {
  const std::string text = "aaaaa aaaaa";
  const byte_pairs vocabulary(pieces_of(text), 1000);
  std::vector<std::uint16_t> tokens;
  vocabulary.encode("aaaaa", tokens);
  EXPECT_EQ(read_back(vocabulary, tokens), "aaaaa");
  EXPECT_LT(tokens.size(), 3U);
}

TEST(BytePairs, AreNumberedByFrequency) {
  const auto text = babble(4, 2000);
  const auto pieces = pieces_of(text);
  const byte_pairs vocabulary(pieces, 300);
  std::vector<std::uint64_t> counts(vocabulary.size());
  for (const auto piece : pieces) {
    std::vector<std::uint16_t> tokens;
    vocabulary.encode(piece, tokens);
    for (const auto token : tokens)
      ++counts[token];
  }
  EXPECT_GT(counts[0], 0U);
  EXPECT_TRUE(std::ranges::is_sorted(counts, std::ranges::greater()));
}

TEST(BytePairs, WriteEveryTextAndReadItBack) {
  const auto known = babble(5, 500);
  const byte_pairs vocabulary(pieces_of(known), 400);
  std::string text =
      babble(6, 50) + "  a \t\n  b\n\n  " + std::string(100, 'x') + std::string(100, ' ') + "na\xc3\xafve \xff";
  for (int byte = 0; byte < 256; ++byte)
    text += static_cast<char>(byte);
  std::vector<std::uint16_t> tokens;
  for (const auto piece : pieces_of(text)) {
    EXPECT_LE(piece.size(), 32U);
    EXPECT_FALSE(piece.empty());
    vocabulary.encode(piece, tokens);
  }
  EXPECT_EQ(read_back(vocabulary, tokens), text);
  EXPECT_LT(tokens.size(), text.size());
}

TEST(BytePairs, StopWhereNothingOccursTwice) {
  const std::string text = "ab cd";
  EXPECT_EQ(byte_pairs(pieces_of(text), 1000).size(), 256U);
  EXPECT_EQ(byte_pairs({}, 1000).size(), 256U);
}

TEST(TextPieces, HaveABlankInFrontOfWhatFollows) {
  EXPECT_THAT(pieces_of("In the  beginning, God\n\n   created \"it\""),
              ElementsAre("In", " the", " ", " beginning", ",", " God", "\n\n  ", " created", " \"", "it", "\""));
  EXPECT_THAT(pieces_of(" "), ElementsAre(" "));
  EXPECT_THAT(pieces_of("a "), ElementsAre("a", " "));
  EXPECT_TRUE(pieces_of("").empty());
}

TEST(TextCorpus, LearnsBytePairsFromTheTrainingTextOnly) {
  // The last tenth of each stretch has letters of its own, of which nothing is joined.
  std::string text;
  for (int stretch = 0; stretch < 20; ++stretch)
    for (int word = 0; word < 400; ++word)
      text += word < 360 ? " abcd" : " wxyz";
  const text_options options{.vocabulary = cluster::vocabulary_kind::byte_pairs, .vocabulary_size = 300, .context = 8};
  text_samples train;
  text_samples test;
  ASSERT_EQ(cut_text(text, options, false, train), "");
  ASSERT_EQ(cut_text(text, options, true, test), "");
  EXPECT_EQ(train.tokens.size(), 20U * 360) << "a token a word";
  EXPECT_EQ(test.tokens.size(), 20U * 40 * 5) << "a token a byte";
  EXPECT_EQ(std::ranges::max(train.tokens), 0) << "the most frequent token is number 0";
  text_samples again;
  ASSERT_EQ(cut_text(text, options, false, again), "");
  EXPECT_EQ(again.tokens, train.tokens);
  EXPECT_THAT(cut_text("too short", options, true, test), HasSubstr("tokens to test on, expected at least 180"));
}

} // namespace
} // namespace dynamix::trainer
