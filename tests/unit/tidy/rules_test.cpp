#include "tests/unit/tidy/rules.hpp"
#include "tests/unit/tidy/temporary_tree.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dynamix::tidy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The repository, read once.
const source_tree& repository() {
  static const source_tree tree = read_tree(std::filesystem::canonical(DYNAMIX_SOURCE_DIRECTORY));
  return tree;
}

/// "path:line" of every finding.
std::vector<std::string> places(const std::vector<finding>& found) {
  std::vector<std::string> result;
  for (const auto& each : found)
    result.push_back(each.path + ":" + std::to_string(each.line));
  return result;
}

std::string repeated(const std::string& line, std::size_t times) {
  std::string text;
  for (std::size_t index = 0; index < times; ++index)
    text += line;
  return text;
}

TEST(Repository, IsWhereTheRulesLook) {
  EXPECT_NE(repository().find("messages/types.hpp"), nullptr);
  EXPECT_NE(repository().find("messages/schema/dynamix.capnp"), nullptr);
  EXPECT_NE(repository().find("tests/unit/tidy/rules.cpp"), nullptr);
}

TEST(Repository, KeepsFilesShort) {
  EXPECT_THAT(find_long_files(repository()), IsEmpty());
}
TEST(Repository, KeepsFunctionsShort) {
  EXPECT_THAT(find_long_functions(repository()), IsEmpty());
}
TEST(Repository, KeepsTheDirectionBetweenRooms) {
  EXPECT_THAT(find_forbidden_arrows(repository()), IsEmpty());
  EXPECT_THAT(find_forbidden_inner_arrows(repository()), IsEmpty());
}
TEST(Repository, KeepsLibrariesInTheirRooms) {
  EXPECT_THAT(find_leaked_libraries(repository()), IsEmpty());
}
TEST(Repository, KeepsAGoldenFrameOfEveryMessage) {
  EXPECT_THAT(find_missing_goldens(repository()), IsEmpty());
}
TEST(Repository, KeepsOutForbiddenCode) {
  EXPECT_THAT(find_forbidden_code(repository()), IsEmpty());
}
TEST(Repository, LeavesNothingUndone) {
  EXPECT_THAT(find_leftovers(repository()), IsEmpty());
}
TEST(Repository, KeepsMainsShort) {
  EXPECT_THAT(find_long_mains(repository()), IsEmpty());
}
TEST(Repository, KeepsTheFrontPageShort) {
  EXPECT_THAT(find_long_front_page(repository()), IsEmpty());
}
TEST(Repository, GuardsEveryHeader) {
  EXPECT_THAT(find_unguarded_headers(repository()), IsEmpty());
}

TEST(Repository, ExplainsWhatItLogsAsAWarning) {
  EXPECT_THAT(find_unexplained_log_lines(repository()), IsEmpty());
}
TEST(Repository, NamesTestsInOneStyle) {
  EXPECT_THAT(find_misnamed_tests(repository()), IsEmpty());
}

TEST(Rules, FindALogLineThatNoDocumentExplains) {
  temporary_tree tree;
  tree.write("docs/troubleshooting.md", "| `known_trouble` | nothing |\n");
  tree.write("actors/a.cpp", "void f() {\n  spdlog::warn(\"known_trouble {}\", 1);\n  spdlog::error(\n      "
                             "\"new_trouble reason={}\", 1);\n  spdlog::info(\"no_trouble\");\n}\n");
  tree.write("session/b.cpp", "  log(log_level::warning, fmt::format(\"other_trouble {}\", 1));\n");
  EXPECT_THAT(places(find_unexplained_log_lines(tree.read())), ElementsAre("actors/a.cpp:4", "session/b.cpp:1"));
}

TEST(Rules, FindATestNamedInAnotherStyle) {
  temporary_tree tree;
  tree.write("tests/unit/policy/a_test.cpp",
             "TEST(Guard, StepsIn) {\n}\nTEST(guard, StepsIn) {\n}\nTEST_F(Guard,\n  steps_in) {\n}\n");
  EXPECT_THAT(places(find_misnamed_tests(tree.read())),
              ElementsAre("tests/unit/policy/a_test.cpp:3", "tests/unit/policy/a_test.cpp:5"));
}

TEST(Rules, FindAFileThatIsTooLong) {
  temporary_tree tree;
  tree.write("policy/fits.cpp", repeated("int x;\n", 600));
  tree.write("policy/long.cpp", repeated("int x;\n", 601));
  tree.write("benchmarks/long.py", repeated("x\n", 601));
  tree.write("README.md", repeated("text\n", 1000));
  EXPECT_THAT(places(find_long_files(tree.read())), ElementsAre("benchmarks/long.py:0", "policy/long.cpp:0"));
}

TEST(Rules, FindAFrontPageThatIsTooLong) {
  temporary_tree tree;
  tree.write("docs/long.md", repeated("a word\n", 1000));
  tree.write("README.md", repeated("nine words are in each of these lines here\n", 100));
  EXPECT_THAT(find_long_front_page(tree.read()), IsEmpty());
  tree.write("README.md", repeated("nine words are in each of these lines here\n", 101));
  EXPECT_EQ(places(find_long_front_page(tree.read())), std::vector<std::string>{"README.md:0"});
  tree.write("README.md", repeated("word\n", 111));
  EXPECT_EQ(places(find_long_front_page(tree.read())), std::vector<std::string>{"README.md:0"});
}

TEST(Rules, FindAFunctionThatIsTooLong) {
  temporary_tree tree;
  tree.write("policy/fits.cpp", "namespace a {\nvoid f() {\n" + repeated("  g(); // }\n", 68) + "}\n}\n");
  tree.write("policy/long.cpp", "namespace a {\nvoid f() {\n" + repeated("  g(); // }\n", 69) + "}\n}\n");
  EXPECT_THAT(places(find_long_functions(tree.read())), ElementsAre("policy/long.cpp:2"));
}

TEST(Rules, MeasureMethodsTemplatesConstructorsAndTestsAsFunctions) {
  const std::string body = repeated("  if (x) { y(); }\n", 70) + "}\n";
  temporary_tree tree;
  tree.write("policy/a.hpp",
             "#pragma once\n\nclass a final : public b {\npublic:\n  void f() const override {\n" + body + "};\n");
  tree.write("policy/b.hpp", "template <class T, int N = 3>\nauto f(T value = {}) -> int\n{\n" + body);
  tree.write("policy/c.cpp", "enum class e { x, y };\nc::c() : x_{1}, y_(2) {\n" + body);
  tree.write("policy/d.cpp", "TEST(Some, Thing) {\n" + body);
  tree.write("policy/e.cpp", "bool operator==(const a& x, const a& y) {\n" + body);
  EXPECT_THAT(places(find_long_functions(tree.read())),
              ElementsAre("policy/a.hpp:5", "policy/b.hpp:1", "policy/c.cpp:2", "policy/d.cpp:1", "policy/e.cpp:1"));
}

TEST(Rules, PassOverLongClassesNamespacesAndTables) {
  temporary_tree tree;
  tree.write("policy/a.hpp", "namespace n {\nstruct a {\n" + repeated("  int x = 1;\n", 80) + "};\n}\n");
  tree.write("policy/c.cpp", "MACRO(x)\nMACRO(y)\n\nnamespace n {\n" + repeated("int x;\n", 80) + "}\n");
  tree.write("policy/b.cpp", "const int table[] = {\n" + repeated("  1,\n", 80) + "};\nvoid f() {}\n");
  EXPECT_THAT(find_long_functions(tree.read()), IsEmpty());
}

TEST(Rules, FindAnArrowAgainstTheDirection) {
  const std::vector<std::pair<std::string, std::string>> forbidden = {
      {"messages/a.cpp", "cluster/x.hpp"},     {"cluster/a.cpp", "messages/types.hpp"},
      {"storage/a.cpp", "cluster/x.hpp"},      {"telemetry/a.cpp", "cluster/x.hpp"},
      {"policy/a.cpp", "messages/codec.hpp"},  {"policy/a.cpp", "trainer/x.hpp"},
      {"trainer/a.cpp", "messages/codec.hpp"}, {"trainer/a.cpp", "policy/x.hpp"},
      {"simulator/a.cpp", "trainer/x.hpp"},    {"actors/a.cpp", "node/x.hpp"},
      {"node/a.cpp", "../policy/x.hpp"},       {"node/a.cpp", "neighbour.hpp"},
      {"attic/a.cpp", "cluster/x.hpp"}};
  for (const auto& [file, include] : forbidden) {
    temporary_tree tree;
    tree.write(file, "#include \"" + include + "\"\n");
    EXPECT_EQ(find_forbidden_arrows(tree.read()).size(), 1U) << file << " -> " << include;
  }
}

TEST(Rules, AllowTheArrowsOfTheTable) {
  const std::vector<std::pair<std::string, std::string>> allowed = {
      {"messages/a.cpp", "messages/x.hpp"},   {"telemetry/a.cpp", "messages/types.hpp"},
      {"policy/a.cpp", "messages/types.hpp"}, {"policy/a.cpp", "cluster/x.hpp"},
      {"policy/a.cpp", "storage/x.hpp"},      {"trainer/a.cpp", "storage/x.hpp"},
      {"simulator/a.cpp", "policy/x.hpp"},    {"actors/a.cpp", "trainer/x.hpp"},
      {"node/a.cpp", "actors/x.hpp"}};
  for (const auto& [file, include] : allowed) {
    temporary_tree tree;
    tree.write(file, "#include \"" + include + "\"\n#include <vector>\n");
    EXPECT_THAT(find_forbidden_arrows(tree.read()), IsEmpty()) << file << " -> " << include;
  }
}

TEST(Rules, FindAnArrowAgainstTheDirectionBetweenInnerRooms) {
  temporary_tree tree;
  tree.write("actors/network/a.cpp", "#include \"actors/worker/x.hpp\"\n#include \"actors/atoms.hpp\"\n")
      .write("actors/worker/a.cpp", "#include \"actors/client/x.hpp\"\n#include \"actors/worker/x.hpp\"\n")
      .write("actors/atoms.hpp", "#include \"actors/network/x.hpp\"\n#include \"messages/types.hpp\"\n")
      .write("actors/cellar/a.cpp", "#include \"actors/atoms.hpp\"\n");
  EXPECT_THAT(places(find_forbidden_inner_arrows(tree.read())),
              ElementsAre("actors/atoms.hpp:1", "actors/cellar/a.cpp:0", "actors/network/a.cpp:1"));
}

TEST(Rules, AllowATestToIncludeItsNeighbourByName) {
  temporary_tree tree;
  tree.write("tests/unit/policy/a.cpp", "#include \"b.hpp\"\n#include \"c.hpp\"\n")
      .write("tests/unit/policy/b.hpp", "");
  EXPECT_THAT(places(find_forbidden_arrows(tree.read())), ElementsAre("tests/unit/policy/a.cpp:2"));
}

TEST(Rules, FindALibraryOutsideOfItsRooms) {
  temporary_tree tree;
  tree.write("node/a.cpp", "#include <caf/all.hpp>\n").write("messages/codec.cpp", "#include <caf/all.hpp>\n");
  tree.write("messages/serialization.cpp", "#include <caf/all.hpp>\n")
      .write("actors/a.cpp", "#include <caf/all.hpp>\n");
  tree.write("telemetry/a.cpp", "#include <torch/torch.h>\n").write("trainer/a.cpp", "#include <torch/torch.h>\n");
  tree.write("trainer/b.cpp", "#include \"schema/x.capnp.h\"\n").write("messages/a.cpp", "#include <kj/array.h>\n");
  tree.write("exchange/group.cpp", "#include <torch/torch.h>\n").write("trainer/c.cpp", "#include <gloo/context.h>\n");
  tree.write("examples/a.cpp", "#include <torch/csrc/distributed/c10d/Store.hpp>\n");
  EXPECT_THAT(places(find_leaked_libraries(tree.read())),
              ElementsAre("messages/codec.cpp:0", "node/a.cpp:0", "exchange/group.cpp:0", "telemetry/a.cpp:0",
                          "trainer/c.cpp:0", "trainer/b.cpp:0"));
}

TEST(Rules, FindALibraryThatComesThroughAHeaderOfAnotherRoom) {
  temporary_tree tree;
  tree.write("trainer/inner.hpp", "#include <torch/torch.h>\n")
      .write("trainer/outer.hpp", "#include \"trainer/inner.hpp\"\n");
  tree.write("trainer/user.cpp", "#include \"trainer/outer.hpp\"\n")
      .write("actors/user.cpp", "#include \"trainer/outer.hpp\"\n");
  const auto found = find_leaked_libraries(tree.read());
  EXPECT_THAT(places(found), ElementsAre("actors/user.cpp:0"));
  EXPECT_THAT(found[0].message, HasSubstr("Torch"));
}

TEST(Rules, FindAMessageWithoutAGoldenFrame) {
  temporary_tree tree;
  tree.write("messages/schema/x.capnp",
             "# Text.\nstruct Envelope {\n  union {\n    unset @0 :Void;\n    hello @1 :Hello;\n"
             "    windowReport @2 :WindowReport;\n  }\n}\nstruct Hello {\n  name @0 :Text;\n}\n");
  tree.write("tests/unit/messages/golden/hello.bin", "x");
  EXPECT_THAT(places(find_missing_goldens(tree.read())), ElementsAre("messages/schema/x.capnp:6"));
  tree.write("tests/unit/messages/golden/window_report.bin", "x");
  EXPECT_THAT(find_missing_goldens(tree.read()), IsEmpty());
}

TEST(Rules, FindForbiddenCode) {
  temporary_tree tree;
  tree.write("actors/a.cpp", "// using namespace caf;\nusing  namespace caf;\nusing namespace caf_like;\n");
  tree.write("trainer/a.cpp", "#include <sys/socket.h>\nauto now = std::chrono::system_clock::now();\n");
  tree.write("telemetry/a.cpp", "#include <sys/socket.h>\n");
  tree.write("session/a.cpp", "spdlog::info(\"over reason={}\", quoted(why));\n"
                              "log(log_level::info,\n    fmt::format(\"over reason=\\\"{}\\\"\", why));\n");
  EXPECT_THAT(places(find_forbidden_code(tree.read())),
              ElementsAre("actors/a.cpp:2", "session/a.cpp:2", "trainer/a.cpp:2", "trainer/a.cpp:1"));
}

TEST(Rules, FindWhatIsLeftUndoneAndPathsOfOneMachine) {
  const std::string slash = "/";
  temporary_tree tree;
  tree.write("policy/a.cpp", std::string("int x;\n// TO") + "DO: later\n");
  tree.write("README.md",
             "see (" + slash + "home/ada/notes)\nand network" + slash + "work/x, and " + slash + "workshop\n");
  tree.write("tools/a.sh", "cd " + slash + "tmp/x\n");
  EXPECT_THAT(places(find_leftovers(tree.read())), ElementsAre("README.md:1", "policy/a.cpp:2", "tools/a.sh:1"));
}

TEST(Rules, FindAMainThatIsTooLong) {
  temporary_tree tree;
  tree.write("node/main.cpp", repeated("int x;\n", 80)).write("other/main.cpp", repeated("int x;\n", 79));
  EXPECT_THAT(places(find_long_mains(tree.read())), ElementsAre("node/main.cpp:0"));
}

TEST(Rules, FindAHeaderWithoutItsGuard) {
  temporary_tree tree;
  tree.write("policy/a.hpp", "// A comment may come first.\n#pragma once\n");
  tree.write("policy/b.hpp", "#include <vector>\n#pragma once\n")
      .write("policy/c.hpp", "// #pragma once\n")
      .write("policy/d.hpp", "");
  EXPECT_THAT(places(find_unguarded_headers(tree.read())),
              ElementsAre("policy/b.hpp:0", "policy/c.hpp:0", "policy/d.hpp:0"));
}

} // namespace
} // namespace dynamix::tidy
