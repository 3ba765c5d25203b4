#include "node/launch/probe.hpp"
#include "node/launch/remote_run.hpp"
#include "node/reports/text.hpp"
#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/node/sample_run.hpp"
#include "tests/wait_until.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace dynamix::node {
namespace {

using namespace ::testing;

/// A host whose machine is this one: its shell runs the script, and a program of the test's stands for dynamix-node.
class RemoteHost : public Test {
protected:
  RemoteHost() {
    const auto program = directory.path() + "/program";
    std::ofstream(program) << "#!/bin/sh\n"
                              "mkdir -p workers\n"
                              "trap 'echo farewell INT >workers/w0.json; exit 7' INT\n"
                              "trap 'echo farewell TERM >workers/w0.json; exit 0' TERM\n"
                              "echo \"$@\"; cat cluster.toml keys/key; stat -c %a keys/key\n"
                              "while :; do sleep 0.02; done\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    options = {.program = program, .directory = directory.path() + "/it's a run"};
  }

  child_options command() const {
    return {.program = "/bin/sh",
            .arguments = {"-c", remote_script(options, {.name = "w0"}, files, {"--out", "."})},
            .output = directory.path() + "/log",
            .results = directory.path() + "/results"};
  }
  bool has_started() {
    return wait_until([&] { return text_of_file(directory.path() + "/log").find("600\n") != std::string::npos; });
  }
  remote_end end() const { return read_remote_end(text_of_file(directory.path() + "/results")); }

  const temporary_directory directory;
  remote_options options;
  const std::vector<remote_file> files = {{.path = "cluster.toml", .content = "first\nfile\n"},
                                          {.path = "keys/key", .content = "secret\n"}};
};

TEST_F(RemoteHost, TakesItsFilesAndSignalsFromItsStandardInput) {
  auto child = command();
  child.told = "dynamix\nfirst\nfile\nsecret\n";
  child_process process;
  ASSERT_EQ(process.start(child), "");
  ASSERT_TRUE(has_started()) << text_of_file(directory.path() + "/log");
  EXPECT_EQ(text_of_file(directory.path() + "/log"),
            "run --cluster cluster.toml --name w0 --log-to-stderr --out .\nfirst\nfile\nsecret\n600\n");
  EXPECT_TRUE(end().began);
  EXPECT_EQ(end().code, std::nullopt) << "it has not ended";
  process.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return !process.running(); }));
  EXPECT_EQ(process.poll()->number, 7) << "as the process there ended";
  EXPECT_EQ(end().code, 7);
  EXPECT_THAT(end().farewells, ElementsAre("farewell INT\n"));
  EXPECT_FALSE(std::filesystem::exists(remote_directory(options, "w0") + "/keys"));
}

TEST_F(RemoteHost, LeavesWhenItsConnectionEnds) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  auto child = command();
  child.input = ends[0];
  ASSERT_EQ(write(ends[1], "dynamix\nfirst\nfile\nsecret\n", 26), 26);
  child_process process;
  ASSERT_EQ(process.start(child), "");
  close(ends[0]);
  ASSERT_TRUE(has_started()) << text_of_file(directory.path() + "/log");
  close(ends[1]);
  ASSERT_TRUE(wait_until([&] { return !process.running(); }));
  EXPECT_EQ(end().code, 0);
  EXPECT_THAT(end().farewells, ElementsAre("farewell TERM\n"));
}

/// As `read answer` in ~/.bashrc does.
TEST_F(RemoteHost, SaysThatAStartUpFileHasReadItsInput) {
  auto child = command();
  child.arguments.back() = "read answer; " + child.arguments.back();
  child.told = "dynamix\nfirst\nfile\nsecret\n";
  child_process process;
  ASSERT_EQ(process.start(child), "");
  ASSERT_TRUE(wait_until([&] { return !process.running(); }));
  EXPECT_EQ(process.poll()->number, 2);
  EXPECT_EQ(text_of_file(directory.path() + "/log"),
            "a start-up file of the shell here reads standard input, which is the launcher's\n");
}

/// What `echo`, a terminal's title without an end of line and `exit` in a ~/.bashrc leave.
TEST(RemoteEnd, IsToldFromWhatStartUpFilesSay) {
  for (const std::string noise : {"", "hi\n", "\x1b]0;ada\x07",
                                  "{\"steps\": 3}\f\x1e"
                                  "0\n"}) {
    const auto end = read_remote_end(noise + "\n\x1e\nfirst\n\f\fthird\n\f\x1e"
                                             "0\n");
    EXPECT_TRUE(end.began);
    EXPECT_EQ(end.code, 0);
    EXPECT_THAT(end.farewells, ElementsAre("first\n", "", "third\n"));
    EXPECT_FALSE(read_remote_end(noise).began);
  }
  for (const std::string cut : {"\n\x1e\n", "\n\x1e\nfir", "\n\x1e\nfirst\n\f", "\n\x1e\nfirst\n\f\x1e",
                                "\n\x1e\nfirst\n\f\x1e"
                                "13"})
    EXPECT_EQ(read_remote_end(cut).code, std::nullopt) << "the connection ended";
}

TEST_F(RemoteHost, BringsTheFarewellsOfSeveralWorkersHomeInTheirOrder) {
  std::ofstream(directory.path() + "/program") << "#!/bin/sh\nmkdir -p workers\n"
                                                  "echo first >workers/w0+0.json; echo third >workers/w0+2.json\n";
  cluster::host host{.name = "w0"};
  for (const auto* name : {"w0/0", "w0/1", "w0/2"})
    host.slots.push_back({.name = name});
  auto child = command();
  child.arguments.back() = remote_script(options, host, files, {"--out", "."});
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0); // open until the end: nobody asks the process to leave
  child.input = ends[0];
  ASSERT_EQ(write(ends[1], "dynamix\nfirst\nfile\nsecret\n", 26), 26);
  child_process process;
  ASSERT_EQ(process.start(child), "");
  ASSERT_TRUE(wait_until([&] { return !process.running(); }));
  close(ends[0]);
  close(ends[1]);
  EXPECT_THAT(end().farewells, ElementsAre("first\n", "", "third\n")) << "one that has said nothing keeps its place";
}

TEST(FindSsh, NamesAProgramThatIsNotThere) {
  EXPECT_EQ(find_ssh({.ssh = "sh -p 22"}), "");
  EXPECT_EQ(find_ssh({.ssh = "/bin/sh"}), "");
  EXPECT_EQ(find_ssh({.ssh = "SHELL=/bin/sh ssh"}), "") << "what env takes";
  EXPECT_NE(find_ssh({.ssh = "no-such-ssh -p 22"}), "");
  for (const auto* words : {"/nowhere/ssh", "/usr", "", "  "})
    EXPECT_NE(find_ssh({.ssh = words}), "") << words;
}

TEST(Probe, ReadsWhatAMachineSaysOfItself) {
  const std::string doctor = R"([{"subject": "cores", "detail": "8"}, {"subject": "memory", "detail": "31.2 GiB"},
                                 {"subject": "link", "detail": "eth0 of 10000 Mbit/s by its driver's word"}])";
  const std::string profile = R"([{"batch": 64, "milliseconds": 12.5, "samples_per_second": 5120.4, "steps": 80}])";
  const std::string noise = "\x1b]0;ada\x07", mark = "\n\x1e\n"; // a terminal's title, as ~/.bashrc sets it
  EXPECT_EQ(read_probe(noise + mark + doctor + "\n\n" + profile + "\n", "progress\n").found,
            "8 cores, 31.2 GiB of memory, link eth0 of 10000 Mbit/s by its driver's word, 5120 samples/s of lenet at "
            "batch 64 by one thread");
  EXPECT_THAT(read_probe(mark + doctor + "\n", "dynamix-node: error: no data set\n").found,
              EndsWith("speed not measured: dynamix-node: error: no data set"));
  EXPECT_EQ(read_probe("", "a\nssh: connect to host ada port 22: Connection refused\r\n").problem,
            "ssh: connect to host ada port 22: Connection refused");
  EXPECT_EQ(read_probe(mark, "").problem, "it did not answer");
  EXPECT_THAT(read_probe(doctor, "").problem, HasSubstr("start-up files"));
}

TEST(Probe, BelievesNothingToBeWellFormed) {
  for (const std::string said :
       {"[", "{}", "[[]]", "7", "[{\"subject\": 1}]", "[{\"subject\": \"cores\", \"detail\": 8}]"})
    EXPECT_EQ(read_probe("\n\x1e\n" + said, "").found, "") << said;
  const auto wild = read_probe("\n\x1e\n[{\"subject\": \"cores\", \"detail\": \"8\\nport = 1 \\u00e9\"}]\n\n"
                               "[7, {\"samples_per_second\": \"fast\"}, {\"samples_per_second\": -1e300}]",
                               "\xff\n");
  EXPECT_THAT(wild.found, StartsWith("8 port = 1 ?? cores,")) << "one line, in ASCII";
  EXPECT_THAT(wild.found, EndsWith("speed not measured: ?"));
}

TEST(Probe, FindsTheInterfaceOfTheDefaultRoute) {
  const std::string none(32, '0');
  const auto route = [&](const std::string& destination, const std::string& bits, const std::string& interface) {
    return destination + " " + bits + " " + none + " 00 fe800000000000000000000000000001 00000400 00000001 00000000 " +
           "00000003     " + interface + "\n";
  };
  const auto ipv6 =
      route("fd000000000000000000000000000000", "40", "eth2") + route(none, "00", "eth1") + route(none, "00", "lo");
  const std::string heading = "Iface\tDestination\tGateway \tFlags\n";
  EXPECT_EQ(default_route_interface(heading + "eth1\t000010AC\t00000000\t0001\neth0\t00000000\t010010AC\t0003\n", ipv6),
            "eth0");
  EXPECT_EQ(default_route_interface(heading, ipv6), "eth1") << "a machine of IPv6 alone";
  EXPECT_EQ(default_route_interface("", route(none, "00", "lo")), "") << "which reaches nothing";
  EXPECT_EQ(default_route_interface("", none + " 00\n"), "") << "cut short";
}

/// What a launcher finds that another one has left behind.
class RemoteWatch : public Test {
protected:
  void SetUp() override { ASSERT_EQ(options.run.create(), ""); }
  void write(const std::string& path, const std::string& text) const {
    ASSERT_EQ(storage::write_file_atomically(options.run.path() + "/" + path, text), "");
  }
  std::string joined() {
    std::ostringstream unsaid;
    live_output live(unsaid, {});
    const remote_watch watch(options, remote, live, false);
    EXPECT_EQ(unsaid.str(), "");
    return text_of_file(options.run.ledger());
  }

  const temporary_directory directory;
  launch_options options{.file = testing::pair_file(), .run = run_directory(directory.path() + "/run")};
  const remote_options remote;
};

TEST_F(RemoteWatch, JoinsWhatAnEarlierLauncherHadCopiedOnce) {
  write("windows.jsonl", "{\"a\":1}\n{\"b\":2}\n");
  // Places there are beyond those here: rows were dropped on the host before they were copied.
  write("logs/ada.windows.jsonl", "7000 \n7008 {\"b\":2}\n7016 {\"c\":3}\n7024 {\"d\":4}\n7032 {\"tor");
  EXPECT_EQ(joined(), "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n{\"d\":4}\n");
  EXPECT_EQ(joined(), "{\"a\":1}\n{\"b\":2}\n{\"c\":3}\n{\"d\":4}\n") << "and no more when it dies again";
}

TEST_F(RemoteWatch, JoinsNothingThatAStartUpFileSaid) {
  write("logs/ada.windows.jsonl",
        "8 \n3 users are logged in\n9 {\"no\":1}\n\x1b]0;ada\x07\n\x1e\n16 {\"a\":1}\n17 users\n");
  EXPECT_EQ(joined(), "{\"a\":1}\n");
}

TEST_F(RemoteWatch, DoubtsAnEndThatNobodyHasTold) {
  std::ostringstream unsaid;
  live_output live(unsaid, {});
  options.file.hosts.front().roles = {cluster::role::worker};
  const auto name = options.file.hosts.front().name;
  remote_watch watch(options, remote, live, false);
  const auto doubt = [&](const std::string& said, child_exit exit) {
    write("logs/" + name + ".said", said);
    return watch.ended({name, exit});
  };
  EXPECT_EQ(doubt("hi\n\n\x1e\n{}\n\f\x1e"
                  "0\n",
                  {false, 0}),
            "");
  EXPECT_EQ(text_of_file(options.run.worker(name)), "{}\n");
  EXPECT_THAT(doubt("hi\n\n\x1e\n{}\n\f", {false, 0}), HasSubstr("connection ended"));
  EXPECT_THAT(doubt("hi\n", {false, 0}), HasSubstr("start-up files")) << "as `exit` in one leaves it";
  EXPECT_EQ(doubt("", {false, 255}), "") << "ssh says itself why";
}

TEST_F(RemoteWatch, JoinsRowsOfSeveralArbitratorsOnce) {
  for (const auto& [name, port] : {std::pair("bob", 7403), {"cy", 7404}}) {
    cluster::host host{.name = name, .port = static_cast<std::uint16_t>(port)};
    host.roles = {cluster::role::arbitrator};
    options.file.hosts.push_back(host);
  }
  write("windows.jsonl", "{\"a\":1}\n{\"x\":1}\n{\"a\":2}\n");
  write("logs/ada.windows.jsonl", "8 {\"a\":1}\n16 {\"a\":2}\n24 {\"a\":3}\n");
  write("logs/bob.windows.jsonl", "8 {\"x\":1}\n16 {\"x\":2}\n");
  EXPECT_EQ(joined(), "{\"a\":1}\n{\"x\":1}\n{\"a\":2}\n{\"a\":3}\n{\"x\":2}\n");
}

/// `launch --log` showed nothing more of a host that had sent one.
TEST_F(RemoteWatch, PrintsWhatFollowsALineOfMegabytes) {
  for (auto& host : options.file.hosts)
    host.roles = {cluster::role::worker};
  const auto log = options.run.log(options.file.hosts.front().name);
  std::ostringstream said;
  live_output live(said, {});
  remote_watch watch(options, remote, live, true);
  host_processes nobody(options.file.hosts, {}, [](const cluster::host&, bool) { return child_options{}; });
  std::ofstream(log) << std::string(5U << 20, 'x') << "\nbehind it\n";
  for (int round = 0; round < 8; ++round)
    watch.look(nobody, {}, true);
  EXPECT_THAT(said.str(), HasSubstr("| behind it\n"));
}

TEST_F(RemoteWatch, LetsNoHostFillTheDisk) {
  for (auto& host : options.file.hosts)
    host.roles = {cluster::role::worker};
  const auto log = options.run.log(options.file.hosts.front().name);
  std::ostringstream unsaid;
  live_output live(unsaid, {});
  remote_watch watch(options, remote, live, false);
  host_processes nobody(options.file.hosts, {}, [](const cluster::host&, bool) { return child_options{}; });
  std::ofstream(log) << "said";
  watch.look(nobody, {}, true);
  EXPECT_EQ(text_of_file(log), "said");
  std::filesystem::resize_file(log, 300U << 20); // a hole
  watch.look(nobody, {}, true);
  EXPECT_EQ(text_of_file(log), "more than 256 MiB were here\n");
}

/// Debian's sh is dash, which takes $'..' for a dollar sign and a word.
TEST(ShellQuoted, IsReadBackByEveryShellAsItWas) {
  std::string all = "\xc3\xa4 \xff";
  for (char c = 1; c < 127; ++c)
    all += c;
  all += '\x7f';
  std::string printable_ones = "l\xc3\xa4ufe of 'Ada \\'\\\\' !' \\";
  for (char c = 32; c < 127; ++c)
    printable_ones += c;
  int tried = 0;
  for (const std::string shell : {"/bin/dash", "/bin/bash", "/usr/bin/zsh", "/usr/bin/fish", "/usr/bin/tcsh"}) {
    if (!std::filesystem::exists(shell))
      continue;
    ++tried;
    const bool posix = shell != "/usr/bin/fish" && shell != "/usr/bin/tcsh";
    const temporary_directory directory;
    const auto& argument = posix ? all : printable_ones;
    child_process process; // as ssh's: one shell within another
    ASSERT_EQ(process.start({.program = shell,
                             .arguments = {"-c", "exec sh -c " + shell_quoted("printf %s " + shell_quoted(argument))},
                             .output = directory.path() + "/read"}),
              "");
    ASSERT_TRUE(wait_until([&] { return !process.running(); }));
    EXPECT_EQ(text_of_file(directory.path() + "/read"), argument) << shell;
  }
  EXPECT_GE(tried, 1);
}

TEST(RemoteCommand, NeverAsksForAPassword) {
  cluster::host host;
  host.address = "10.0.0.7";
  const auto child = remote_command({.ssh = "ssh -p 2222"}, host, "exec sh");
  EXPECT_THAT(child.arguments,
              ElementsAre("ssh", "-p", "2222", "-T", "-oBatchMode=yes", StartsWith("-oConnectTimeout="),
                          StartsWith("-oServerAliveInterval="), "10.0.0.7", "exec sh -c 'exec sh'"));
}

} // namespace
} // namespace dynamix::node
