#include "settings/nesting.hpp"
#include "settings/toml_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace dynamix::settings {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

enum class colour : std::uint8_t { red, green };
constexpr std::string_view colour_names[] = {"red", "green"};

struct box {
  double width = 1;
  std::uint32_t count = 2;
  bool open = false;
  std::optional<bool> locked;
  std::string label = "none";
  colour paint = colour::red;
  std::vector<colour> stripes;
  std::vector<double> weights = {0.5};
  std::vector<std::string> owners;
};
struct shelf {
  box left;
};
constexpr auto left = &shelf::left;
constexpr text_rule word = {[](const std::string& text) { return is_line(text, 5); }, "at most 5 characters"};

const std::vector<field<shelf>> shelf_fields = {
    {"left", "width", in<left, &box::width>, "Metres.", open_low(2)},
    {"left", "count", in<left, &box::count>, "Of drawers.", closed(0, 9)},
    {"left", "open", in<left, &box::open>, "Whether it is."},
    {"left", "locked", in<left, &box::locked>, "Whether it is, or as seems best."},
    {"left", "label", in<left, &box::label>, "On it.", {}, {}, &word},
    {"left", "paint", in<left, &box::paint>, "Of it.", {}, colour_names},
    {"right",
     "stripes",
     in<left, &box::stripes>,
     "One or more.",
     {},
     colour_names,
     nullptr,
     presence::required,
     {.least = 1, .most = 2, .bare = true}},
    {"right", "weights", in<left, &box::weights>, "Each.", closed(0, 1)},
    {"right", "owners", in<left, &box::owners>, "All.", {}, {}, &word, presence::absent},
};
std::span<const field<shelf>> fields() {
  return shelf_fields;
}

std::vector<std::string> read(const std::string& text, shelf& into) {
  toml_reader reader("shelf", "s.toml", text);
  if (reader.readable()) {
    reader.allow(sections_of(fields()));
    for (const auto section : sections_of(fields()))
      reader.section(section, fields(), into);
  }
  std::vector<std::string> errors;
  for (const auto& error : reader.finish())
    errors.push_back(to_string(error));
  return errors;
}

TEST(TomlReader, TakesEveryKindOfValueOver) {
  shelf read_shelf;
  EXPECT_THAT(read("[left]\nwidth = 2\ncount = 9\nopen = true\nlocked = false\nlabel = \"mine\"\npaint = \"green\"\n"
                   "[right]\nstripes = [\"green\", \"red\"]\nweights = [0, 0.25]\nowners = [\"a\", \"b\"]\n",
                   read_shelf),
              IsEmpty());
  const auto& box = read_shelf.left;
  EXPECT_EQ(box.width, 2);
  EXPECT_EQ(box.count, 9U);
  EXPECT_TRUE(box.open);
  EXPECT_EQ(box.locked, false);
  EXPECT_EQ(box.label, "mine");
  EXPECT_EQ(box.paint, colour::green);
  EXPECT_THAT(box.stripes, ElementsAre(colour::green, colour::red));
  EXPECT_THAT(box.weights, ElementsAre(0, 0.25));
  EXPECT_THAT(box.owners, ElementsAre("a", "b"));
  shelf again;
  EXPECT_THAT(read("[left]\n" + to_toml(show(fields(), read_shelf, "left")) + "[right]\n" +
                       to_toml(show(fields(), read_shelf, "right")),
                   again),
              IsEmpty());
  EXPECT_EQ(to_toml(show(fields(), again)), to_toml(show(fields(), read_shelf)));
}

TEST(TomlReader, ReportsEachMistakeAtItsPlace) {
  shelf untouched;
  EXPECT_THAT(read("[left]\nwidth = 3\ncolour = 1\nlabel = \"too long\"\npaint = \"gren\"\n[right]\n"
                   "stripes = [\"red\", \"blue\"]\nweights = [0.5, 2]\n[righ]\n",
                   untouched),
              ElementsAre("s.toml:2:9: left.width is 3; it must be in (0, 2]",
                          "s.toml:3:1: left.colour is unknown; left has \"width\", \"count\", \"open\", "
                          "\"locked\", \"label\", \"paint\"",
                          "s.toml:4:9: left.label is \"too long\"; it must be at most 5 characters",
                          "s.toml:5:9: left.paint is \"gren\"; did you mean \"green\"? it must be one of \"red\", "
                          "\"green\"",
                          "s.toml:7:19: right.stripes holds an entry that is \"blue\"; it must be one of \"red\", "
                          "\"green\"",
                          "s.toml:8:17: right.weights holds an entry that is 2; it must be in [0, 1]",
                          "s.toml:9:2: righ is unknown; did you mean \"right\"? a shelf has \"left\", \"right\""));
  EXPECT_EQ(untouched.left.width, 1);
  EXPECT_THAT(untouched.left.weights, ElementsAre(0.5)) << "a list is taken over whole or not at all";
}

TEST(TomlReader, CountsTheEntriesOfAList) {
  shelf any;
  EXPECT_THAT(read("[right]\nstripes = []\n", any),
              ElementsAre("s.toml:2:11: right.stripes has 0 entries; it must have 1 to 2"));
  EXPECT_THAT(read("", any), ElementsAre("s.toml: right.stripes is missing; it must be one of \"red\", \"green\", or a "
                                         "list of 1 to 2 of them"));
  EXPECT_THAT(read("[right]\nstripes = \"green\"\n", any), IsEmpty());
  EXPECT_THAT(any.left.stripes, ElementsAre(colour::green)) << "one needs no brackets";
}

TEST(ReadValue, TakesWhatACommandLineSays) {
  shelf any;
  const auto set = [&](const std::string& label, const std::string& text) {
    const auto bound = bind(fields(), any);
    return read_value(*std::ranges::find(bound, label, &bound_field::label), text);
  };
  EXPECT_EQ(set("left.width", "1.5"), "");
  EXPECT_EQ(set("left.label", "a b"), "");
  EXPECT_EQ(set("left.paint", "green"), "");
  EXPECT_EQ(set("left.locked", "true"), "");
  EXPECT_EQ(any.left.locked, true);
  EXPECT_EQ(set("left.locked", "auto"), "");
  EXPECT_EQ(any.left.locked, std::nullopt);
  EXPECT_EQ(set("right.stripes", "red,green"), "");
  EXPECT_EQ(set("right.weights", "0,1"), "");
  EXPECT_EQ(set("right.owners", "[\"x\", \"y\"]"), "");
  EXPECT_EQ(any.left.width, 1.5);
  EXPECT_EQ(any.left.label, "a b");
  EXPECT_EQ(any.left.paint, colour::green);
  EXPECT_THAT(any.left.stripes, ElementsAre(colour::red, colour::green));
  EXPECT_THAT(any.left.weights, ElementsAre(0, 1));
  EXPECT_THAT(any.left.owners, ElementsAre("x", "y"));

  EXPECT_EQ(set("left.width", "wide"), "is wide; it must be a number in (0, 2]");
  EXPECT_EQ(set("left.width", "1\nopen = true"), "is \"1?open = true\"; it must be a number in (0, 2]");
  EXPECT_EQ(set("left.count", "1.5"), "is a number with a fraction; it must be an integer in [0, 9]");
  EXPECT_EQ(set("left.open", "yes"), "is yes; it must be true or false");
  EXPECT_EQ(set("left.locked", "yes"), "is yes; it must be true, false or \"auto\"");
  EXPECT_EQ(set("right.stripes", "red,pink"), "holds an entry that is \"pink\"; it must be one of \"red\", \"green\"");
}

TEST(Markdown, SaysWhatIsRequiredAndWhatHasNoDefault) {
  const shelf defaults;
  const auto text = to_markdown("[right]", show(fields(), defaults, "right"));
  EXPECT_NE(
      text.find("| `stripes` | required | one of \"red\", \"green\", or a list of 1 to 2 of them | One or more. |"),
      std::string::npos);
  EXPECT_NE(text.find("| `weights` | `[0.5]` | a list of numbers in [0, 1] | Each. |"), std::string::npos);
  EXPECT_NE(text.find("| `owners` | none | a list of strings | All. |"), std::string::npos);
}

std::string repeated(std::string_view part, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i)
    text += part;
  return text;
}

/// Each level took a frame of the stack, and the process ended.
TEST(TomlReader, RefusesAFileThatIsNestedTensOfThousandsOfLevelsDeep) {
  constexpr std::size_t deep = 40'000;
  const std::string file = "s.toml:";
  const std::string wrong = "the shelf is nested more than 64 levels deep here";
  shelf into;
  EXPECT_THAT(read("\n[a" + repeated(".a", deep) + "]", into), ElementsAre(file + "2:129: " + wrong));
  for (const auto& text :
       {"a" + repeated(".a", deep) + " = 1", "a" + repeated(" . a", deep) + " = 1",
        "'a'" + repeated(".\"a.a\"", deep) + " = 1", "x = {a" + repeated(".a", deep) + " = 1}",
        "x = " + repeated("[", deep), "x = " + repeated("{a = ", deep),
        "x = [\"\"\"a\"\"\"\", {a" + repeated(".a", deep) + " = 1}]", "x = 'a' # \"\n[a" + repeated(".a", deep) + "]"})
    EXPECT_THAT(read(text, into), ElementsAre(::testing::HasSubstr(wrong))) << text.substr(0, 40);
}

TEST(TomlReader, TakesWhatIsLongAndNotDeep) {
  const auto parts = repeated(".a", nesting_most - 1);
  EXPECT_EQ(find_deep_nesting("[a" + parts + "]\na" + parts + " = 1\n"), std::nullopt);
  EXPECT_EQ(find_deep_nesting("x = [" + repeated("1.5, ", 1000) + "]"), std::nullopt);
  EXPECT_EQ(find_deep_nesting("x = [" + repeated("[1], ", 1000) + "]"), std::nullopt);
  EXPECT_EQ(find_deep_nesting(repeated("x.y = '" + repeated(".", 100) + repeated("[", 100) + "' # [[[\n", 100)),
            std::nullopt);
  EXPECT_EQ(find_deep_nesting(R"(x = "\"........................................................................")"),
            std::nullopt);
}

} // namespace
} // namespace dynamix::settings
