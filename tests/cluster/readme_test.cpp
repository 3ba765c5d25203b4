/// Every command of README.md, as a reader would copy it.

#include "tests/cluster/trial.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

namespace dynamix::cluster_test {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const std::string repository = DYNAMIX_SOURCE_DIRECTORY "/";

/// Lines of fenced blocks and spans of inline code that begin with `program` and go on, without their comments, once
/// each.
std::vector<std::string> commands_of_readme(const std::string& program) {
  std::vector<std::string> commands;
  std::set<std::string> seen;
  const auto text = contents_of(repository + "README.md");
  const std::regex command("(^|\n *|`)(" + program + " [^`\n#]*)");
  for (std::sregex_iterator match(text.begin(), text.end(), command), end; match != end; ++match) {
    auto found = match->str(2);
    found.erase(found.find_last_not_of(' ') + 1);
    if (seen.insert(found).second)
      commands.push_back(found);
  }
  return commands;
}

/// Commands that train, serve or wait for other hosts until somebody ends them.
bool lasts(const std::string& command) {
  static const std::regex lasting("^(compare|dashboard|faults|local|run|swarm) ");
  return std::regex_search(command, lasting);
}

class Readme : public trial {
protected:
  /// The four workers of `make run`, with windows of 2 steps so that a short run has more than 20.
  void write_unequal_hosts() {
    write_file({.slowdowns = {1, 1, 2, 4},
                .epochs = 8,
                .more = "[simulation]\nworkload = \"" + repository +
                        "deployments/workloads/lenet-fashion-mnist.toml\"\n" + "profile = \"" + repository +
                        "deployments/profiles/cpu-lenet.toml\"\n",
                .training = "target_accuracy = 0.885\n",
                .cluster = patient_cluster});
    for (const auto& [number, name] : {std::pair("w0", "ada"), {"w1", "ben"}, {"w2", "cy"}, {"w3", "dot"}})
      replace_in_file("name = \"" + std::string(number) + "\"", "name = \"" + std::string(name) + "\"");
  }

  /// The arguments of `command`, with a reader's own files and names put in.
  std::vector<std::string> arguments_of(std::string command) const {
    const std::vector<std::pair<std::regex, std::string>> own = {
        {std::regex("^dynamix-node "), ""},
        {std::regex("deployments/clusters/local-4.toml|\\bFILE\\b"), file()},
        {std::regex("(^| )deployments/"), " " + repository + "deployments/"},
        {std::regex("\\bRUN\\b"), run().path()},
        {std::regex("\\bHOST\\b"), "ada"},
    };
    for (const auto& [pattern, text] : own)
      command = std::regex_replace(command, pattern, text);
    static int outputs = 0;
    if (std::regex_search(command, std::regex("^(compare|faults|init|local|run|simulate|swarm) ")))
      command += " --out " + directory_.path() + "/out-" + std::to_string(outputs++);
    if (command.starts_with("dashboard "))
      command += " --listen 127.0.0.1:" + std::to_string(port(0));
    std::istringstream words(command);
    return {std::istream_iterator<std::string>(words), {}};
  }
};

TEST_F(Readme, NamesOnlyVerbsThatMakeHas) {
  const auto makefile = contents_of(repository + "Makefile");
  const auto verbs = commands_of_readme("make");
  EXPECT_THAT(verbs, SizeIs(3));
  for (const auto& verb : verbs)
    EXPECT_NE(makefile.find("\n" + verb.substr(verb.find(' ') + 1) + ": "), std::string::npos) << verb;
}

TEST_F(Readme, NamesOnlyFilesThatAreThere) {
  const auto text = contents_of(repository + "README.md");
  const std::regex link(R"(\]\(([^):#]+)(#[^)]*)?\))");
  for (std::sregex_iterator match(text.begin(), text.end(), link), end; match != end; ++match)
    EXPECT_TRUE(std::filesystem::exists(repository + match->str(1))) << match->str(1);
}

TEST_F(Readme, ShowsCommandsThatRun) {
  write_unequal_hosts();
  const auto trained = start_local().wait();
  ASSERT_EQ(trained.code, 0) << trained.output;

  const auto commands = commands_of_readme("dynamix-node");
  ASSERT_THAT(commands, Not(IsEmpty()));
  for (const auto& command : commands) {
    // launch_test.cpp has machines for the one, shards_test.cpp a running tree for the other.
    if (command.starts_with("dynamix-node launch ") || command.starts_with("dynamix-node arbitrators "))
      continue;
    SCOPED_TRACE(command);
    auto started = start(arguments_of(command));
    if (!lasts(command.substr(command.find(' ') + 1))) {
      const auto ended = started.wait();
      EXPECT_EQ(ended.code, 0) << ended.output;
      continue;
    }
    for (int looks = 0; looks < 100 && started.said().empty() && started.running(); ++looks)
      std::this_thread::sleep_for(std::chrono::milliseconds(50)); // `run` waits for the other hosts without a word
    started.signal(SIGINT);
    const auto ended = started.wait();
    EXPECT_THAT(ended.code, AnyOf(0, 1, 130)) << "stopped before its end: " << ended.output;
    EXPECT_THAT(ended.output, Not(HasSubstr("error: ")));
  }
}

} // namespace
} // namespace dynamix::cluster_test
