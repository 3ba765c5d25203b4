/// One cluster in several forms at once: a replicated root, shards below it, places for hosts that the file does not
/// name, and hosts with several of the user's training processes.

#include "storage/atomic_file.hpp"
#include "tests/cluster/scripted_client.hpp"
#include "tests/cluster/trial.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <deque>
#include <fmt/core.h>
#include <map>
#include <memory>
#include <vector>

namespace dynamix::cluster_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

const std::string tree_of_two = "policy = \"goodput\"\ntopology = \"tree\"\nfanout = 2\n";

class Forms : public trial {
protected:
  std::vector<std::string> leaders() const {
    std::vector<std::string> found;
    for (const auto& event : rows<ledger::event>())
      if (event.event == ledger::event_kind::leader)
        found.push_back(event.host);
    return found;
  }
  /// Waits until the newest generation is of these and has reported a window of all.
  bool wait_for_members(const std::vector<std::string>& members) const {
    return wait_until([&] {
      const auto formed = generations();
      const auto reported = windows();
      return !formed.empty() && formed.back().members == members && !reported.empty() &&
             reported.back().generation == formed.back().generation && reported.back().workers.size() == members.size();
    });
  }
  nlohmann::json summary() const { return nlohmann::json::parse(contents_of(run().summary())); }
};

TEST_F(Forms, ATreeGoesOnWhenTheReplicaThatHoldsItsRootDies) {
  write_file({.slowdowns = {10, 10, 10, 10},
              .epochs = 3,
              .training = "exchange = \"parameter-server\"\n",
              .replicas = 3,
              .arbitrator = tree_of_two,
              .cluster = "detect_ms = 3000\n",
              .servers = 1});
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  ASSERT_EQ(leaders().size(), 1U);
  const auto before = windows().size();
  ASSERT_TRUE(local.signal_host(leaders().back(), SIGKILL)) << local.said();
  ASSERT_TRUE(wait_until([&] { return leaders().size() >= 2; })) << local.said();
  ASSERT_TRUE(wait_for_windows(before + 3)) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(generations().size(), 1U) << "the workers trained on";
  std::vector<messages::decision_key> keys;
  for (const auto& window : windows())
    keys.push_back(window.key);
  for (std::size_t i = 1; i < keys.size(); ++i)
    EXPECT_GE(keys[i].term, keys[i - 1].term);
  EXPECT_EQ(summary()["decisions"]["lost"], 0);
  EXPECT_EQ(summary()["decisions"]["duplicated"], 0);
  for (const char* worker : {"w0", "w1", "w2", "w3"}) {
    EXPECT_EQ(farewell_of(worker).samples, 18000U) << worker;
    EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum) << worker;
  }
}

TEST_F(Forms, AnOpenTreeOfReplicasTakesHostsInWhoeverLeads) {
  write_file({.slowdowns = {5, 5, 5},
              .epochs = 1000,
              .more = "[security]\nkeys = \"keys\"\n",
              .training = "evaluate_every_epochs = 1000\ncheckpoint_every_epochs = 1000\n",
              .replicas = 3,
              .arbitrator = tree_of_two,
              .cluster = "detect_ms = 2000\nmembership = \"open\"\nworkers_min = 3\nworkers_max = 6\n"});
  ASSERT_EQ(end_of({"keys", "init", "--cluster", file()}).code, 0);
  for (const auto* host : {"guest", "other", "late"})
    ASSERT_EQ(end_of({"keys", "issue", "--cluster", file(), "--host", host}).code, 0);
  std::map<std::string, program> hosts;
  const auto begin = [&](const std::string& name) { hosts.insert_or_assign(name, start_host(name)); };
  for (const auto* host : {"hub", "hub2", "hub3", "w0", "w1", "w2"})
    begin(host);
  ASSERT_TRUE(wait_for_members({"w0", "w1", "w2"})) << hosts.at("w0").said();
  begin("guest");
  begin("other");
  ASSERT_TRUE(wait_until([&] { return generations().back().members.size() == 5; })) << hosts.at("guest").said();
  const auto both = generations().back().members;
  ASSERT_TRUE(wait_for_members(both));
  const auto through = hosts.at("w0").said() + hosts.at("w1").said() + hosts.at("w2").said();
  for (const auto* guest : {"guest", "other"}) // each through a shard, and not the root's stand-in
    EXPECT_THAT(through, HasSubstr("joined host=" + std::string(guest)));

  const auto first = leaders().back();
  hosts.at(first).signal(SIGKILL);
  hosts.at(first).wait();
  ASSERT_TRUE(wait_until([&] { return leaders().back() != first; })) << hosts.at("w0").said();
  const auto before = windows().size();
  ASSERT_TRUE(wait_for_windows(before + 3)) << hosts.at("guest").said();
  EXPECT_EQ(generations().back().members, both) << "they trained on";
  hosts.at("other").signal(SIGTERM);
  EXPECT_EQ(hosts.at("other").wait().code, 0) << hosts.at("other").said();
  begin("late");
  ASSERT_TRUE(wait_until([&] {
    const auto now = generations().back().members;
    return now.size() == 5 && std::ranges::find(now, "late") != now.end();
  })) << hosts.at("late").said();
  EXPECT_THAT(generations().back().members, Contains("guest")) << "the new leader knows whose its rank is";
  hosts.at("w0").signal(SIGINT); // training ends
  for (auto& [name, one] : hosts)
    if (name != first && name != "other") {
      EXPECT_EQ(one.wait().code, name == "w0" ? 130 : 3) << name << ": " << one.said();
    }
  for (const auto* worker : {"w1", "w2", "guest", "late"})
    EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum) << worker;
  for (const auto& formed : generations())
    EXPECT_EQ(formed.steps_lost, 0U) << "generation " << formed.generation << ": " << formed.reason;
}

TEST_F(Forms, ATreeDecidesForHostsOfSeveralTrainingProcesses) {
  write_file({.slowdowns = {1, 1},
              .dataset = "unused",
              .training = "trainer = \"client\"\n",
              .arbitrator = tree_of_two,
              .cluster = patient_cluster});
  for (const auto* host : {"w0", "w1"})
    replace_in_file("name = \"" + std::string(host) + "\"\n", "name = \"" + std::string(host) + "\"\nworkers = 2\n");
  auto agents = start_local();
  ASSERT_TRUE(wait_until([&] { return agents.says("export DYNAMIX_AGENT=") || !agents.running(); }));
  ASSERT_TRUE(agents.running()) << agents.said();
  EXPECT_THAT(agents.said(), HasSubstr("w1: shard of 2 workers, ranks 2 to 3"));
  std::deque<scripted_client> clients;
  for (std::size_t slot = 0; slot < 4; ++slot)
    clients.emplace_back(run().agent(slot), 4U);
  for (auto& client : clients)
    ASSERT_TRUE(client.await_place());
  for (int window = 0; window < 4; ++window) {
    for (auto& client : clients)
      client.train_window();
    for (auto& client : clients)
      ASSERT_TRUE(client.await_decision()) << "window " << window;
  }
  for (auto& client : clients)
    client.say_farewell();
  const auto ended = agents.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  ASSERT_GE(windows().size(), 2U) << "a shard passes over windows that end while one before them is on its way up";
  EXPECT_EQ(windows().back().workers.size(), 4U);
  EXPECT_EQ(windows().back().workers.back().report.host, "w1/1");
  EXPECT_GE(farewell_of("w1+1").decisions.applied, 2U);
}

TEST_F(Forms, AnOpenTreeSumsThroughAHostThatOnlyServes) {
  write_file({.slowdowns = {5, 5, 5},
              .epochs = 1000,
              .training = "exchange = \"parameter-server\"\nevaluate_every_epochs = 1000\n"
                          "checkpoint_every_epochs = 1000\n",
              .arbitrator = tree_of_two,
              .cluster = patient_cluster + "membership = \"open\"\nworkers_max = 5\n",
              .servers = 1});
  std::map<std::string, program> hosts;
  for (const auto* host : {"hub", "w0", "w1", "w2", "s0"})
    hosts.emplace(host, start_host(host));
  ASSERT_TRUE(wait_for_generation({"w0", "w1", "w2", "s0"})) << hosts.at("s0").said();
  hosts.emplace("guest", start_host("guest"));
  ASSERT_TRUE(wait_for_generation({"w0", "w1", "w2", "guest", "s0"})) << hosts.at("guest").said();
  hosts.at("w0").signal(SIGINT); // training ends
  for (auto& [name, one] : hosts)
    EXPECT_EQ(one.wait().code, name == "w0" ? 130 : 3) << name << ": " << one.said();
  for (const auto* worker : {"w1", "w2", "guest"})
    EXPECT_EQ(farewell_of(worker).parameter_checksum, farewell_of("w0").parameter_checksum) << worker;
  for (const auto& formed : generations())
    EXPECT_EQ(formed.steps_lost, 0U) << "generation " << formed.generation << ": " << formed.reason;
}

TEST_F(Forms, AHostThatIsTakenBackLeavesInTimeAndLosesNothing) {
  write_file({.slowdowns = {10, 10, 10}, .epochs = 1});
  replace_in_file("name = \"w2\"\n", "name = \"w2\"\npreemption = \"notice\"\n");
  auto local = start_local();
  ASSERT_TRUE(wait_for_windows(3)) << local.said();
  ASSERT_EQ(storage::write_file_atomically(directory_.path() + "/notice", "30"), "");
  ASSERT_TRUE(wait_for_members({"w0", "w1"})) << local.said();
  const auto ended = local.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_THAT(contents_of(run().log("w2")), HasSubstr("preempted seconds=30"));
  EXPECT_THAT(farewell_of("w2").reason, HasSubstr("left: its host was asked to end"));
  for (const auto& formed : generations())
    EXPECT_EQ(formed.steps_lost, 0U) << "generation " << formed.generation << ": " << formed.reason;
  EXPECT_EQ(farewell_of("w0").samples, 6000U);
  EXPECT_EQ(farewell_of("w0").parameter_checksum, farewell_of("w1").parameter_checksum);
}

/// As torchrun starts a script again when hosts have come: with a larger group, on all of them.
TEST_F(Forms, AnOpenClusterDecidesForTheGroupThatAScriptHasNow) {
  write_file({.slowdowns = {1},
              .dataset = "unused",
              .training = "trainer = \"client\"\n",
              .arbitrator = "policy = \"goodput\"\n",
              .cluster = patient_cluster + "membership = \"open\"\nworkers_max = 3\n"});
  const auto socket_of = [this](const std::string& host) { return directory_.path() + "/" + host + ".sock"; };
  const auto agent = [&](const std::string& host, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments = {
        "run",        "--cluster",       file(),           "--name",       host, "--out",
        run().path(), "--log-to-stderr", "--agent-socket", socket_of(host)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return start(arguments);
  };
  auto hub = start_host("hub");
  auto own = agent("w0");
  auto guest = agent("guest", {"--workers", "2", "--agent-socket", socket_of("guest1")});
  for (const auto* one : {&own, &guest})
    ASSERT_TRUE(wait_until([&] { return one->says("waiting for the training process"); })) << one->said();
  const auto train = [](std::vector<scripted_client*> clients) {
    for (auto* client : clients)
      ASSERT_TRUE(client->await_place());
    for (int window = 0; window < 3; ++window) {
      for (auto* client : clients)
        client->train_window();
      for (auto* client : clients)
        ASSERT_TRUE(client->await_decision());
    }
  };
  {
    scripted_client alone(socket_of("w0"), 1);
    EXPECT_EQ(alone.welcome.rank, 0U);
    train({&alone});
  }
  ASSERT_TRUE(wait_until([&] { return own.says("client_lost"); })) << own.said();
  scripted_client first(socket_of("w0"), 3);
  scripted_client second(socket_of("guest"), 3);
  scripted_client third(socket_of("guest1"), 3);
  EXPECT_EQ(second.welcome.rank + third.welcome.rank, 3U) << "in the order in which they asked";
  train({&first, &second, &third});
  for (auto* client : {&first, &second, &third})
    client->say_farewell();
  for (auto* one : {&hub, &own, &guest})
    EXPECT_EQ(one->wait().code, 0) << one->said();
  ASSERT_FALSE(windows().empty());
  EXPECT_EQ(windows().back().workers.size(), 3U);
  EXPECT_THAT(generations().back().members, ::testing::UnorderedElementsAre("w0", "guest/0", "guest/1"));
}

TEST_F(Forms, AnOpenClusterGivesNoHostMoreThanItsShareOfThePlaces) {
  write_file({.slowdowns = {1},
              .dataset = "unused",
              .training = "trainer = \"client\"\n",
              .cluster = patient_cluster + "membership = \"open\"\nworkers_max = 3\nhost_places_max = 1\n"});
  const auto agent = [&](const std::string& host, const std::string& workers) {
    std::vector<std::string> arguments = {"run",        "--cluster",       file(),      "--name", host, "--out",
                                          run().path(), "--log-to-stderr", "--workers", workers};
    for (int slot = 0; slot < std::stoi(workers); ++slot)
      arguments.insert(arguments.end(), {"--agent-socket", fmt::format("{}/{}{}", directory_.path(), host, slot)});
    return start(arguments);
  };
  auto hub = start_host("hub");
  auto greedy = agent("greedy", "2");
  const auto refused = "waits_for_place reason=\"host greedy has 1 of the cluster's places, and no host gets more "
                       "(cluster.host_places_max is 1)\"";
  EXPECT_TRUE(wait_until([&] { return greedy.says(refused); })) << greedy.said();
  auto other = agent("other", "1");
  EXPECT_TRUE(wait_until([&] { return other.says("joined rank=2"); })) << other.said();
  for (auto* one : {&greedy, &other, &hub}) {
    one->signal(SIGTERM);
    one->wait();
  }
}

/// With two processes per host in place of eight.
TEST_F(Forms, TheClusterOfAllFormsGoesOnWhenItsLeaderAndAProcessDie) {
  std::vector<std::string> arguments = {
      "local", "--cluster", DYNAMIX_SOURCE_DIRECTORY "/deployments/clusters/scripts-40.toml", "--out", run().path()};
  const auto set = [&](const std::string& change) {
    arguments.emplace_back("--set");
    arguments.push_back(change);
  };
  const std::vector<std::string> machines = {"ada", "ben", "cy", "dot", "eli"};
  for (const auto& machine : machines)
    set(fmt::format("hosts.{}.workers=2", machine));
  set(fmt::format("arbitrator.window_steps={}", window_steps));
  set("cluster.detect_ms=3000");
  set("dashboard.listen=");
  auto agents = start(arguments);
  ASSERT_TRUE(wait_until([&] { return agents.says("export DYNAMIX_AGENT=") || !agents.running(); }));
  ASSERT_TRUE(agents.running()) << agents.said();
  constexpr std::uint32_t processes = 10;
  std::vector<std::unique_ptr<scripted_client>> clients;
  for (std::size_t slot = 0; slot < processes; ++slot)
    clients.push_back(std::make_unique<scripted_client>(run().agent(slot), processes));
  const auto await_places = [&] {
    for (auto& client : clients)
      ASSERT_TRUE(client->await_place()) << agents.said();
  };
  /// Windows follow each other until all have a decision of a later term than that.
  const auto train_until_decided_after = [&](std::uint64_t term) {
    for (int window = 0; window < 200; ++window) {
      for (auto& client : clients)
        client->train_window();
      for (auto& client : clients)
        client->take_decision(std::chrono::milliseconds(100));
      if (std::ranges::all_of(clients, [&](const auto& client) { return client->in_force.term > term; }))
        return true;
    }
    return false;
  };
  await_places();
  ASSERT_TRUE(train_until_decided_after(0)) << agents.said();
  ASSERT_EQ(leaders().size(), 1U);
  std::uint64_t term = 0;
  for (const auto& client : clients)
    term = std::max(term, client->in_force.term);
  ASSERT_TRUE(agents.signal_host(leaders().back(), SIGKILL));
  ASSERT_TRUE(wait_until([&] { return leaders().size() >= 2; })) << agents.said();
  ASSERT_TRUE(train_until_decided_after(term)) << agents.said();
  EXPECT_EQ(generations().size(), 1U) << "they trained on";

  const auto steps = clients[0]->steps();
  clients.clear(); // torchrun starts all again
  for (const auto& machine : machines)
    ASSERT_TRUE(wait_until([&] {
      const auto log = contents_of(run().log(machine));
      return log.find("client_lost") != log.rfind("client_lost");
    })) << machine;
  for (std::size_t slot = 0; slot < processes; ++slot)
    clients.push_back(std::make_unique<scripted_client>(run().agent(slot), processes, steps));
  await_places();
  ASSERT_TRUE(train_until_decided_after(term)) << agents.said();
  for (auto& client : clients)
    client->say_farewell();
  const auto ended = agents.wait();
  EXPECT_EQ(ended.code, 0) << ended.output;
  EXPECT_EQ(windows().back().workers.size(), processes);
}

} // namespace
} // namespace dynamix::cluster_test
