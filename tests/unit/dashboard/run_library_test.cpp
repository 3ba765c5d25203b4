#include "dashboard/run_library.hpp"
#include "dashboard/server.hpp"
#include "ledger/codec.hpp"
#include "links/free_port.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/ledger/rows.hpp"
#include "tests/unit/node/sample_run.hpp"
#include "tests/wait_until.hpp"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <httplib.h>
#include <sys/stat.h>

namespace dynamix::dashboard {
namespace {

using namespace ledger::testing;
using namespace testing;
using nlohmann::json;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

ledger::row evaluation_row(std::uint64_t step, double accuracy) {
  ledger::evaluation row;
  row.report.step = step;
  row.report.samples = 64 * step;
  row.report.elapsed_seconds = 0.5 * static_cast<double>(step);
  row.report.test_accuracy = accuracy;
  return {.entry = row};
}

ledger::row farewell_row(const std::string& host, std::uint32_t rank, bool succeeded, const std::string& reason) {
  ledger::farewell row;
  row.farewell.host = host;
  row.farewell.rank = rank;
  row.farewell.succeeded = succeeded;
  row.farewell.reason = reason;
  row.farewell.steps = 20;
  return {.entry = row};
}

class RunLibrary : public ::testing::Test {
protected:
  /// A run directory with these rows in its ledger.
  void make(const std::string& name, const std::vector<ledger::row>& rows, const std::string& more = "") const {
    write(name + "/cluster.toml", cluster::to_toml(small_cluster(2, more)));
    for (const auto& row : rows)
      append(name, row);
  }
  void append(const std::string& name, const ledger::row& row) const {
    std::ofstream(path(name + "/windows.jsonl"), std::ios::app) << ledger::to_json_line(row) + "\n";
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name)) << text;
  }
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }

  static json list(const run_library& of) { return json::parse(of.list()); }
  static json find(const run_library& of, const std::string& name) {
    const auto told = list(of);
    for (const auto& run : told["runs"])
      if (run["name"] == name)
        return run;
    return nullptr;
  }
  /// Once all of it has been read.
  static json settled(const run_library& of) {
    EXPECT_TRUE(wait_until([&] {
      const auto told = list(of);
      return std::ranges::none_of(told["runs"], [](const auto& run) { return run["state"] == "unread"; }) &&
             told["runs"].size() + told["left_out"].size() > 0;
    }));
    return list(of);
  }

  const temporary_directory directory_;
  const library_limits quick_{.look_interval = milliseconds(5)};
};

TEST_F(RunLibrary, TellsPolicyHostsStateAndTimeToTargetOfEachRun) {
  make("done", {start_row(), window_row(1), evaluation_row(10, 0.5), evaluation_row(20, 0.92), evaluation_row(30, 0.95),
                farewell_row("w0", 0, true, "epochs completed"), farewell_row("w1", 1, true, "epochs completed")});
  make("fell", {start_row(), window_row(1), farewell_row("w0", 0, false, "the disk is full"),
                farewell_row("w1", 1, false, "the disk is full")});
  make("live", {start_row(), window_row(1), window_row(2)}, "[training]\ntrainer = \"client\"\n");
  make("new", {});
  const run_library library(directory_.path(), quick_);
  settled(library);
  const auto done = find(library, "done");
  EXPECT_EQ(done["policy"], "ppo");
  EXPECT_EQ(done["workers"], 2);
  EXPECT_EQ(done["state"], "ended");
  EXPECT_EQ(done["said"], "epochs completed");
  EXPECT_EQ(done["started_at"], "2026-01-02T03:04:05Z");
  EXPECT_EQ(done["test_accuracy"], 0.95);
  EXPECT_EQ(done["seconds_to_target"], 10) << "the first evaluation that reached 0.9";
  EXPECT_FALSE(done["script"]);
  EXPECT_EQ(find(library, "fell")["state"], "failed");
  EXPECT_EQ(find(library, "fell")["said"], "the disk is full");
  EXPECT_EQ(find(library, "fell")["seconds_to_target"], nullptr);
  EXPECT_EQ(find(library, "live")["state"], "training");
  EXPECT_TRUE(find(library, "live")["script"]);
  EXPECT_EQ(find(library, "new")["state"], "waiting");
}

TEST_F(RunLibrary, FollowsARunThatGoesOnAndSeesItsEnd) {
  make("live", {start_row(), window_row(1)});
  const run_library library(directory_.path(), quick_);
  settled(library);
  append("live", window_row(2));
  EXPECT_TRUE(wait_until([&] { return find(library, "live")["windows"] == 2; }));
  EXPECT_EQ(json::parse(*library.course("live"))["history"]["elapsed_seconds"], json({1, 2}));
  append("live", farewell_row("w0", 0, true, "done"));
  append("live", farewell_row("w1", 1, true, "done"));
  EXPECT_TRUE(wait_until([&] { return find(library, "live")["state"] == "ended"; }));
  make("later", {start_row(), window_row(1)});
  EXPECT_TRUE(wait_until([&] { return find(library, "later") != nullptr; }));
  std::filesystem::remove_all(path("live"));
  EXPECT_TRUE(wait_until([&] { return find(library, "live") == nullptr; }));
  EXPECT_EQ(library.course("live"), nullptr);
}

TEST_F(RunLibrary, LeavesOutWhatIsNoRunAndNamesIt) {
  make("run", {start_row(), window_row(1)});
  write("notes/readme.txt", "nothing");
  write("a-file", "nothing");
  std::filesystem::create_directory_symlink(path("run"), path("linked"));
  const run_library library(directory_.path(), quick_);
  const auto told = settled(library);
  ASSERT_EQ(told["runs"].size(), 1U);
  ASSERT_EQ(told["left_out"].size(), 2U);
  EXPECT_EQ(told["left_out"][0]["name"], "linked");
  EXPECT_EQ(told["left_out"][0]["reason"], "is a symbolic link, and none is followed");
  EXPECT_EQ(told["left_out"][1]["name"], "notes");
  EXPECT_EQ(told["left_out"][1]["reason"], "has no cluster.toml");
}

TEST_F(RunLibrary, WaitsForNoPipeThatLiesInARun) {
  make("trap", {start_row(), window_row(1)});
  make("trap2", {start_row()});
  ASSERT_EQ(::mkfifo(path("trap/windows-7.jsonl.gz").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(path("trap2/windows-0.jsonl").c_str(), 0600), 0);
  const run_library library(directory_.path(), quick_);
  settled(library);
  EXPECT_EQ(find(library, "trap")["windows"], 1);
  EXPECT_EQ(find(library, "trap2")["state"], "waiting");
}

TEST_F(RunLibrary, FollowsNoLinkThatHasTakenARunsPlaceSinceItWasListed) {
  make("one", {start_row(), window_row(1)});
  make("two", {start_row(), window_row(1)});
  make("secret", {start_row(), window_row(1)});
  auto limits = quick_;
  limits.look_interval = std::chrono::hours(1);
  run_library library(directory_.path(), limits);
  settled(library);
  std::filesystem::remove_all(path("one"));
  std::filesystem::create_directory_symlink(path("secret"), path("one"));
  EXPECT_EQ(library.open("one"), nullptr);
  std::filesystem::remove(path("two/cluster.toml"));
  std::filesystem::create_symlink(path("secret/cluster.toml"), path("two/cluster.toml"));
  EXPECT_EQ(library.open("two"), nullptr);
  EXPECT_NE(library.open("secret"), nullptr);
}

TEST_F(RunLibrary, ListsABrokenRunWithTheReason) {
  write("torn/cluster.toml", "[cluster\n");
  make("junk", {});
  write("junk/windows.jsonl", "this is no ledger\nneither is this\n");
  const run_library library(directory_.path(), quick_);
  settled(library);
  EXPECT_EQ(find(library, "torn")["state"], "broken");
  EXPECT_THAT(find(library, "torn")["said"].get<std::string>(), HasSubstr("torn/cluster.toml:1"));
  EXPECT_EQ(find(library, "junk")["state"], "broken");
  EXPECT_EQ(find(library, "junk")["said"], "windows.jsonl has no line of a ledger");
}

TEST_F(RunLibrary, ListsTheNewestRunsUpToItsLimitAndCountsTheOthers) {
  for (int i = 0; i < 5; ++i) {
    const auto name = "run" + std::to_string(i);
    make(name, {start_row(), window_row(1)});
    std::filesystem::last_write_time(path(name + "/windows.jsonl"),
                                     std::filesystem::file_time_type::clock::now() - std::chrono::hours(i));
  }
  auto limits = quick_;
  limits.runs = 2;
  const run_library library(directory_.path(), limits);
  const auto told = settled(library);
  ASSERT_EQ(told["runs"].size(), 2U);
  EXPECT_EQ(told["runs"][0]["name"], "run0");
  EXPECT_EQ(told["runs"][1]["name"], "run1");
  EXPECT_EQ(told["runs"][1]["state"], "silent") << "an hour is longer than its windows";
  EXPECT_EQ(told["runs_more"], 3);
}

TEST_F(RunLibrary, PassesOverTheBeginningOfALedgerThatIsTooLong) {
  make("long", {start_row()});
  for (std::uint64_t window = 1; window <= 200; ++window)
    append("long", window_row(window));
  auto limits = quick_;
  limits.past_bytes = 64U << 10;
  const run_library library(directory_.path(), limits);
  settled(library);
  const auto run = find(library, "long");
  EXPECT_EQ(run["policy"], "ppo") << "the first row is read";
  EXPECT_EQ(run["elapsed_seconds"], 200);
  EXPECT_LT(run["windows"], 200);
}

TEST_F(RunLibrary, OpensSoManyRunsAtOnceAndNoneThatIsNotListed) {
  make("one", {start_row(), window_row(1)});
  make("two", {start_row(), window_row(1)});
  auto limits = quick_;
  limits.open = 1;
  run_library library(directory_.path(), limits);
  settled(library);
  const auto first = library.open("one");
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(library.open("one"), first);
  EXPECT_TRUE(wait_until([&] { return json::parse(first->state(true))["now"]["windows"] == 1; }));
  const std::weak_ptr<feed> closed = library.open("two");
  EXPECT_NE(library.open("one"), first) << "it made room, and is read anew";
  EXPECT_TRUE(closed.expired());
  for (const auto* name : {"", ".", "..", "../one", "one/", "three"})
    EXPECT_EQ(library.open(name), nullptr) << name;
}

/// What the page of one run says of its security holds for the list.
TEST_F(RunLibrary, IsServedUnderTheRulesOfThePage) {
  make("one", {start_row(), window_row(1)});
  const auto library = std::make_shared<run_library>(directory_.path(), quick_);
  settled(*library);
  const auto port = links::take_free_port();
  const std::string token = "0123456789abcdef0123";
  server http(library, {.listen = {"127.0.0.1", port}, .token = token, .retry_interval = milliseconds(20)});
  ASSERT_TRUE(wait_until([&] { return http.listening(); }));
  httplib::Client client("127.0.0.1", port);
  const httplib::Headers proof = {{"Authorization", "Bearer " + token}};
  for (const auto* what : {"/api/runs", "/api/course?run=one", "/api/state?run=one", "/"}) {
    EXPECT_EQ(client.Get(what)->status, 401) << what;
    const auto answer = client.Get(what, proof);
    EXPECT_EQ(answer->status, 200) << what;
    EXPECT_THAT(answer->get_header_value("Content-Security-Policy"), HasSubstr("default-src 'none'")) << what;
    EXPECT_EQ(client.Post(what, proof, "", "text/plain")->status, 405) << what;
  }
  EXPECT_EQ(json::parse(client.Get("/api/runs", proof)->body)["runs"].size(), 1U);
  EXPECT_TRUE(wait_until([&] { // it is read once somebody asks for it
    return json::parse(client.Get("/api/state?run=one", proof)->body)["now"]["windows"] == 1;
  }));
  EXPECT_THAT(client.Get("/", proof)->body, HasSubstr("id=\"runs\""));
  EXPECT_THAT(client.Get("/?run=one", proof)->body, HasSubstr("id=\"tiles\""));
  for (const auto* what :
       {"/api/course?run=two", "/api/state?run=..", "/api/state?run=%2e%2e%2fone", "/api/state", "/metrics", "/events"})
    EXPECT_EQ(client.Get(what, proof)->status, 404) << what;
}

} // namespace
} // namespace dynamix::dashboard
