#include "tests/temporary_directory.hpp"
#include "trainer/dataset.hpp"
#include "trainer/text_corpus.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string numbered_lines(int count) {
  std::string text;
  for (int line = 0; line < count; ++line)
    text += "line " + std::to_string(line) + " of it.\n";
  return text;
}

TEST(TextCorpus, ReadsAllTextsBelowADirectoryInTheOrderOfTheirPaths) {
  const temporary_directory directory;
  directory.write("b.txt", "second ");
  directory.write("a.pod", "first ");
  directory.write(".hidden", "never ");
  directory.write("picture", std::string("\x89PNG\0\1", 6));
  std::filesystem::create_directories(directory.file("c"));
  directory.write("c/a", "third");
  std::string text;
  std::vector<std::string> left_out;
  ASSERT_EQ(read_text(directory.path(), text, left_out), "");
  EXPECT_EQ(text, "first second third");
  EXPECT_THAT(left_out, ElementsAre(directory.file("picture") + " is not a text: byte 4 is zero"));
  ASSERT_EQ(read_text(directory.file("b.txt"), text, left_out), "");
  EXPECT_EQ(text, "second ");
}

TEST(TextCorpus, ReadsWhatEditorsOfOtherSystemsWriteAndFollowsLinks) {
  const temporary_directory directory;
  std::filesystem::create_directories(directory.file("texts"));
  std::filesystem::create_directories(directory.file("elsewhere"));
  directory.write("texts/a", "\xef\xbb\xbf"
                             "one ");
  directory.write("texts/b", std::string("\xff\xfe"
                                         "t\0w\0\xf6\0 \0\x3d\xd8\x00\xde \0\x3d\xd8",
                                         18));
  directory.write("elsewhere/c", std::string("\xfe\xff"
                                             "\0t\0h\0r\0e\0e",
                                             12));
  std::filesystem::create_directory_symlink("../elsewhere", directory.file("texts/link"));
  std::filesystem::create_directory_symlink("../texts", directory.file("elsewhere/back"));
  std::filesystem::create_symlink("nowhere", directory.file("texts/lost"));
  std::string text;
  std::vector<std::string> left_out;
  ASSERT_EQ(read_text(directory.file("texts"), text, left_out), "");
  EXPECT_EQ(text, "one tw\xc3\xb6 \xf0\x9f\x98\x80 \xef\xbf\xbdthree");
  EXPECT_THAT(left_out, ElementsAre(directory.file("texts/lost") + " cannot be read: it leads nowhere"));
}

TEST(TextCorpus, SaysWhatIsMissing) {
  const temporary_directory directory;
  std::string text;
  std::vector<std::string> left_out;
  EXPECT_THAT(read_text(directory.file("nowhere"), text, left_out), HasSubstr("there is no "));
  EXPECT_THAT(read_text(directory.path(), text, left_out), HasSubstr("there is no text in "));
  text_samples samples;
  EXPECT_EQ(cut_text("too short", {.context = 8}, false, samples),
            "found 0 tokens to train on, expected at least 180, 20 times the context of 8 and one more");
}

TEST(TextCorpus, CutsWordsAndSigns) {
  EXPECT_THAT(words_of("He said: \"don't\"\n\t2 b\xc3\xa4r"),
              ElementsAre("He", "said", ":", "\"", "don't", "\"", "2", "b\xc3\xa4r"));
  EXPECT_TRUE(words_of(" \n").empty());
}

TEST(TextCorpus, NumbersTheMostFrequentWords) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text += i % 2 == 0 ? "a b a c " : "a b a d ";
  text_samples samples;
  const text_options options{.vocabulary = cluster::vocabulary_kind::words, .vocabulary_size = 4, .context = 4};
  ASSERT_EQ(cut_text(text, options, false, samples), "");
  EXPECT_THAT(std::vector(samples.tokens.begin(), samples.tokens.begin() + 8), ElementsAre(1, 2, 1, 3, 1, 2, 1, 0))
      << "c and d are as frequent, so c has the number and d has none";
}

TEST(TextCorpus, KeepsTrainingAndTestApartAndUsesNearlyAll) {
  const auto text = numbered_lines(5000);
  text_samples train;
  text_samples test;
  ASSERT_EQ(cut_text(text, {.context = 16}, false, train), "");
  ASSERT_EQ(cut_text(text, {.context = 16}, true, test), "");
  EXPECT_NEAR(static_cast<double>(train.starts.size()) * 16, 0.9 * static_cast<double>(text.size()), 20 * 17);
  EXPECT_NEAR(static_cast<double>(test.starts.size()) * 16, 0.1 * static_cast<double>(text.size()), 20 * 17);
  const auto text_at = [](const text_samples& samples, std::uint32_t start) {
    return std::string(samples.tokens.begin() + start, samples.tokens.begin() + start + 17);
  };
  for (const auto start : train.starts) {
    EXPECT_NE(text.find(text_at(train, start)), std::string::npos) << "a sample does not cross a cut";
  }
  for (const auto start : test.starts)
    EXPECT_NE(text.find(text_at(test, start)), std::string::npos);
}

TEST(TextCorpus, IsADataSet) {
  const temporary_directory directory;
  directory.write("text", numbered_lines(400));
  cluster::training training;
  training.dataset = cluster::dataset_kind::text;
  training.data_path = directory.file("text");
  training.context = 10;
  dataset data;
  ASSERT_EQ(load_dataset(training, dataset_split::train, data), "");
  EXPECT_EQ(data.classes, 256U);
  EXPECT_EQ(data.size(), data.text.starts.size());
  EXPECT_EQ(count_training_samples(training), data.size());
  const auto digest = data.digest;
  EXPECT_NE(digest, 0U);
  dataset test;
  ASSERT_EQ(load_dataset(training, dataset_split::test, test), "");
  EXPECT_EQ(test.digest, digest) << "of the whole text";
  directory.write("text", numbered_lines(401));
  ASSERT_EQ(load_dataset(training, dataset_split::train, data), "");
  EXPECT_NE(data.digest, digest);
  training.vocabulary = cluster::vocabulary_kind::words;
  training.vocabulary_size = 300;
  ASSERT_EQ(load_dataset(training, dataset_split::train, data), "");
  EXPECT_EQ(data.classes, 300U);
}

} // namespace
} // namespace dynamix::trainer
