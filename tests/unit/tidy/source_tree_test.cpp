#include "tests/unit/tidy/source_tree.hpp"
#include "tests/unit/tidy/temporary_tree.hpp"

#include <gtest/gtest.h>

namespace dynamix::tidy {
namespace {

TEST(SourceTree, BlanksCommentsAndLiteralsAndKeepsLines) {
  EXPECT_EQ(blank_comments_and_literals("a // {\nb"), "a     \nb");
  EXPECT_EQ(blank_comments_and_literals("a /* {\n} */ b"), "a     \n     b");
  EXPECT_EQ(blank_comments_and_literals(R"(f("{\"}", '{', '\''))"), "f(      ,    ,     )");
  EXPECT_EQ(blank_comments_and_literals("x = R\"y({ \" \n)y\"; z"), "x = R       \n   ; z");
  EXPECT_EQ(blank_comments_and_literals("1'000'000 + '{'"), "1'000'000 +    ");
}

TEST(SourceTree, FindsIncludesButNotThoseInComments) {
  temporary_tree tree;
  tree.write(
      "node/a.cpp",
      "#include \"cluster/x.hpp\"\n// #include \"no/y.hpp\"\n  #  include <vector> // why\n/*\n#include <no>\n*/\n");
  const auto read = tree.read();
  ASSERT_EQ(read.files.size(), 1U);
  const auto& includes = read.files[0].includes;
  ASSERT_EQ(includes.size(), 2U);
  EXPECT_EQ(includes[0].path, "cluster/x.hpp");
  EXPECT_TRUE(includes[0].quoted);
  EXPECT_EQ(includes[1].path, "vector");
  EXPECT_EQ(includes[1].line, 3U);
  EXPECT_FALSE(includes[1].quoted);
}

TEST(SourceTree, PassesOverWhatNobodyWrites) {
  temporary_tree tree;
  tree.write("build/a.cpp", "")
      .write(".git/b.cpp", "")
      .write("runs/c.md", "")
      .write("policy/d.bin", "")
      .write("policy/e.cpp", "");
  const auto read = tree.read();
  ASSERT_EQ(read.files.size(), 1U);
  EXPECT_EQ(read.files[0].path, "policy/e.cpp");
  EXPECT_EQ(read.find("policy/e.cpp"), &read.files[0]);
  EXPECT_EQ(read.find("policy/f.cpp"), nullptr);
  EXPECT_EQ(read.data, std::vector<std::string>{"policy/d.bin"});
}

TEST(SourceTree, CountsALastLineWithoutLineBreak) {
  temporary_tree tree;
  tree.write("a.md", "one\ntwo").write("b.md", "one\ntwo\n").write("c.md", "");
  const auto read = tree.read();
  EXPECT_EQ(read.files[0].lines, 2U);
  EXPECT_EQ(read.files[1].lines, 2U);
  EXPECT_EQ(read.files[2].lines, 0U);
}

} // namespace
} // namespace dynamix::tidy
