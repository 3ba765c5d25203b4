#include "tests/temporary_directory.hpp"
#include "trainer/dataset.hpp"
#include "trainer/movielens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace dynamix::trainer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto header = "userId,movieId,rating,timestamp\n";

/// As MovieLens-20M writes it: users one after the other, movies by number, gaps between the numbers.
constexpr auto small = "1,2,3.5,1112486027\n"
                       "1,29,3.5,1112484676\n"
                       "1,32,3.5,1112484819\n"
                       "3,1,4.0,944919407\n"
                       "3,29,5.0,944917859\n"
                       "7,32,3.0,1011208463\n"
                       "7,47,0.5,1011208000\n"
                       "9,50,4.5,1000000000\n"
                       "9,112,4.5,1000000000\n"
                       "11,151,2.0,1000000001\n";

class Movielens : public testing::Test {
protected:
  std::string read(const std::string& contents) {
    path_ = folder_.write("ratings.csv", contents);
    return read_movielens(folder_.path(), ratings_);
  }
  /// What is wrong with the third line of a file.
  std::string problem_of(const std::string& line) {
    const auto problem = read(header + std::string("1,2,3.5,1112486027\n") + line + "\n");
    EXPECT_TRUE(problem.starts_with(path_ + ":3:")) << problem;
    return problem.substr(std::min(problem.size(), path_.size() + 3));
  }

  temporary_directory folder_;
  std::string path_;
  movielens_ratings ratings_;
};

TEST_F(Movielens, IsReadWithNumbersWithoutGaps) {
  ASSERT_EQ(read(std::string(header) + small), "");
  EXPECT_EQ(ratings_.users, 5U);
  EXPECT_EQ(ratings_.items, 8U) << "1, 2, 29, 32, 47, 50, 112, 151";
  EXPECT_THAT(ratings_.first, ElementsAre(0, 3, 5, 7, 9, 10));
  EXPECT_THAT(ratings_.rated, ElementsAre(1, 2, 3, 0, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(ratings_.last, ElementsAre(0, 0, 0, 0, movielens_ratings::none)) << "of equal times the lowest number";
}

TEST_F(Movielens, IsTheSameInAnyOrderWithAnyLineEndsAndWithoutTheLast) {
  ASSERT_EQ(read(std::string(header) + small), "");
  const auto first = ratings_;
  std::string turned = "7,32,3.0,1011208463\n";
  for (std::string_view rest = small; !rest.empty();) {
    const auto end = rest.find('\n') + 1;
    if (!rest.starts_with("7,32"))
      turned = std::string(rest.substr(0, end)) + turned;
    rest.remove_prefix(end);
  }
  ASSERT_EQ(read(header + turned + "1,2,5,1112486000\n"), "") << "an earlier rating of the same";
  EXPECT_EQ(ratings_.rated, first.rated);
  EXPECT_EQ(ratings_.last, first.last);
  EXPECT_NE(ratings_.digest, first.digest);
  std::string windows = std::string(header) + small;
  for (std::size_t at = 0; (at = windows.find('\n', at)) != std::string::npos; at += 2)
    windows.insert(at, "\r");
  windows.resize(windows.size() - 2);
  ASSERT_EQ(read(windows), "");
  EXPECT_EQ(ratings_.rated, first.rated);
}

TEST_F(Movielens, SaysInWhichLineAndColumnItIsWrong) {
  EXPECT_EQ(problem_of("x,29,3.5,1112484676"), R"(1: found "x", expected a user's number, 1 to 4294967295)");
  EXPECT_EQ(problem_of("0,29,3.5,1112484676"), R"(1: found "0", expected a user's number, 1 to 4294967295)");
  EXPECT_EQ(problem_of("1,29a,3.5,1112484676"), R"(3: found "29a", expected a movie's number, 1 to 4294967295)");
  EXPECT_EQ(problem_of("1,99999999999,3.5,1"), R"(3: found "99999999999", expected a movie's number, 1 to 4294967295)");
  EXPECT_EQ(problem_of("1,29,good,1112484676"), R"(6: found "good", expected a rating, 0 to 10)");
  EXPECT_EQ(problem_of("1,29,nan,1112484676"), R"(6: found "nan", expected a rating, 0 to 10)");
  EXPECT_EQ(problem_of("1,29,3.5,-5"), R"(10: found "-5", expected a time in whole seconds)");
  EXPECT_EQ(problem_of("1,29,3.5"), "9: the line ends, expected a time in whole seconds after a comma");
  EXPECT_EQ(problem_of("1,29,3.5,5,6"), R"(12: found "6", expected the end of the line)");
  EXPECT_EQ(problem_of(""), R"(1: found "", expected a user's number, 1 to 4294967295)");
  EXPECT_EQ(problem_of(std::string(300, '1')), "256: found a line of more than 255 characters");
  EXPECT_EQ(read("user,item\n1,2\n"), path_ + R"(:1:1: found "user,item", expected "userId,movieId,rating,timestamp")");
  EXPECT_EQ(read(header), path_ + ":2:1: found no rating");
  EXPECT_EQ(read(""), path_ + ":1:1: found no rating");
  EXPECT_THAT(read(header + std::string("1,2,3,4\n1,3,3,4\n")), HasSubstr("found 2 movies, expected at least 6"));
  EXPECT_THAT(read(header + std::string("1,2,3,4\n2,3,3,4\n3,4,1,1\n4,5,1,1\n5,6,1,1\n6,7,1,1\n")),
              HasSubstr("no user has rated two movies"));
  EXPECT_EQ(read_movielens(folder_.file("none.csv"), ratings_), "cannot read " + folder_.file("none.csv"));
}

TEST_F(Movielens, IsReadInTheFormsOfItsReleases) {
  ASSERT_EQ(read(std::string(header) + small), "");
  const auto first = ratings_;
  std::filesystem::remove(path_);
  for (const auto& [name, separator, mark] : {std::tuple("ratings.dat", "::", ""), std::tuple("u.data", "\t", ""),
                                              std::tuple("ratings.dat", "::", "\xef\xbb\xbf")}) {
    auto contents = std::string(mark) + small;
    for (std::size_t at = 0; (at = contents.find(',', at)) != std::string::npos;)
      contents.replace(at, 1, separator);
    const auto file = folder_.write(name, contents);
    ASSERT_EQ(read_movielens(folder_.path(), ratings_), "") << name;
    EXPECT_EQ(ratings_.rated, first.rated);
    EXPECT_EQ(ratings_.last, first.last);
    std::filesystem::remove(file);
  }
  ASSERT_EQ(read("\xef\xbb\xbf\"userId\",\"movieId\",\"rating\",\"timestamp\"\r\n" + std::string(small)), "");
  EXPECT_EQ(ratings_.rated, first.rated);
  auto quoted = std::string(header) + small;
  quoted.replace(quoted.find("29,"), 2, "\"29\"");
  ASSERT_EQ(read(quoted), "");
  EXPECT_EQ(ratings_.rated, first.rated);
}

TEST_F(Movielens, ShowsBytesThatLookAlike) {
  EXPECT_EQ(problem_of("1,29\xc2\xa0,3.5,1"), R"(3: found "29\xc2\xa0", expected a movie's number, 1 to 4294967295)");
  EXPECT_EQ(read("userId;movieId;rating;timestamp\n"),
            path_ + R"(:1:1: found "userId;movieId;rating;timestamp", expected "userId,movieId,rating,timestamp")");
  EXPECT_THAT(read("\xff\xfeu\n"), HasSubstr(R"(found "\xff\xfeu" (text in UTF-16), expected)"));
}

TEST_F(Movielens, SaysHowManyRatingsAreRepeated) {
  folder_.write("ratings.csv", header + std::string(small) + "1,2,5,1112486000\n");
  cluster::training training;
  training.dataset = cluster::dataset_kind::movielens;
  training.data_path = folder_.path();
  dataset train;
  ASSERT_EQ(load_dataset(training, dataset_split::train, train), "");
  ASSERT_EQ(train.left_out.size(), 1U);
  EXPECT_THAT(train.left_out[0], HasSubstr("1 of the ratings in "));
}

TEST_F(Movielens, ThatIsPackedIsReadOrRefusedAsWhole) {
  ASSERT_EQ(read(std::string(header) + small), "");
  const auto first = ratings_;
  std::filesystem::remove(path_);
  const auto packed_path = folder_.file("ratings.csv.gz");
  auto* file = gzopen(packed_path.c_str(), "wb");
  const auto whole = std::string(header) + small;
  gzwrite(file, whole.data(), static_cast<unsigned>(whole.size()));
  gzclose(file);
  ASSERT_EQ(read_movielens(folder_.path(), ratings_), "");
  EXPECT_EQ(ratings_.rated, first.rated);
  EXPECT_EQ(ratings_.digest, first.digest);
  std::filesystem::resize_file(packed_path, std::filesystem::file_size(packed_path) - 12);
  EXPECT_THAT(read_movielens(folder_.path(), ratings_), HasSubstr("the gzip data is cut short"));
}

TEST_F(Movielens, IsADataSetOfWhatUsersRatedAgainstWhatTheyDidNot) {
  std::string contents = header;
  std::map<std::uint32_t, std::set<std::uint32_t>> rated;
  for (std::uint32_t user = 0; user < 30; ++user)
    for (std::uint32_t item = 0; item < 40; ++item)
      if ((user * 7 + item * 3) % 5 == 0) {
        contents += std::to_string(user + 1) + "," + std::to_string(10 * item + 1) + ",4.0," +
                    std::to_string(1'000'000 + (item * 17 + user) % 40) + "\n";
        rated[user].insert(item);
      }
  folder_.write("ratings.csv", contents);
  cluster::training training;
  training.dataset = cluster::dataset_kind::movielens;
  training.data_path = folder_.path();
  dataset train;
  dataset test;
  ASSERT_EQ(load_dataset(training, dataset_split::train, train), "");
  ASSERT_EQ(load_dataset(training, dataset_split::test, test), "");
  EXPECT_EQ(train.users, 30U);
  EXPECT_EQ(train.items, 40U);
  EXPECT_EQ(test.size(), 30U);
  EXPECT_EQ(train.size(), 30 * 8 - 30U);
  EXPECT_EQ(count_training_samples(training), train.size());
  EXPECT_NE(train.digest, 0U);
  EXPECT_EQ(train.digest, test.digest);
  std::map<std::uint32_t, std::multiset<std::uint32_t>> chosen;
  for (const auto* split : {&train, &test})
    for (std::uint64_t number = 0; number < split->size(); ++number) {
      const auto sample = split->choices->at(number);
      EXPECT_EQ(split->choices->at(number).items, sample.items);
      ASSERT_LT(sample.chosen, candidates);
      for (std::size_t i = 0; i < candidates; ++i)
        EXPECT_EQ(rated.at(sample.user).contains(sample.items[i]), i == sample.chosen);
      chosen[sample.user].insert(sample.items[sample.chosen]);
    }
  for (const auto& [user, items] : rated)
    EXPECT_TRUE(std::ranges::equal(items, chosen.at(user))) << "each in one of the splits, once";
  // Of user 3 (number 4) the item with the highest time.
  const auto last = std::ranges::max(rated.at(3), {}, [](std::uint32_t item) { return (item * 17 + 3) % 40; });
  const auto held_out = test.choices->at(3);
  EXPECT_EQ(held_out.items[held_out.chosen], last);
}

} // namespace
} // namespace dynamix::trainer
