/// Broken cluster files, each with the place and the words of its message.

#include "cluster/cluster_file.hpp"

#include <gtest/gtest.h>

namespace dynamix::cluster {
namespace {

// Line numbers of the cases count from here; the raw string begins with line 1.
const std::string good = R"([cluster]
name = "four"
seed = 7
[training]
model = "lenet"
learning_rate = 0.05
epochs = 2
[batch]
initial = 64
lowest = 32
[arbitrator]
policy = "ppo"
actions = [-25, 0, 25]
[ppo]
horizon = 16
[telemetry]
sources = ["procfs"]
[[host]]
name = "north"
port = 7401
roles = ["arbitrator"]
[[host]]
name = "ada"
address = "127.0.0.1"
port = 7402
compute_slowdown = 2.0
[[host.emulate]]
at_seconds = 10
compute_slowdown = 3.0
[[host.emulate]]
at_seconds = 20
compute_slowdown = 1.0
)";

struct broken_file {
  std::string from; ///< text of `good` that is replaced, once
  std::string to;
  std::string expected; ///< beginning of the only message
};

class BrokenClusterFile : public testing::TestWithParam<broken_file> {};

TEST_P(BrokenClusterFile, IsRefusedWithItsPlaceAndWhatIsAllowed) {
  std::string text = good;
  const auto at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, GetParam().from.size(), GetParam().to);
  const auto result = parse_cluster_text(text, "f.toml");
  ASSERT_EQ(result.errors.size(), 1U) << (result.errors.empty() ? "" : to_string(result.errors[1]));
  const std::string message = to_string(result.errors[0]);
  EXPECT_EQ(message.substr(0, GetParam().expected.size()), GetParam().expected);
}

TEST(ClusterFile, NamesEveryPolicyByItsOwnName) {
  const std::string given = R"("ppo")";
  for (const auto* name : {"static", "goodput", "ppo-simple", "oracle", "step-oracle", "stigmergic"}) {
    std::string text = good;
    text.replace(text.find(given), given.size(), '"' + std::string(name) + '"');
    const auto result = parse_cluster_text(text, "f.toml");
    EXPECT_TRUE(result.errors.empty());
    EXPECT_EQ(to_string(result.file.arbitrator.policy), name);
    EXPECT_EQ(knows_truth(result.file.arbitrator.policy), std::string(name).ends_with("oracle"));
    EXPECT_EQ(result.file.arbitrator.policy == policy_kind::step_oracle, std::string(name) == "step-oracle");
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BrokenClusterFile,
    testing::Values(
        // syntax
        broken_file{"seed = 7", "seed = ", "f.toml:3:8: "}, broken_file{"seed = 7", "seed = 7\nseed = 8", "f.toml:4:"},
        broken_file{"name = \"four\"", "name = \"four", "f.toml:2:13: "},
        // unknown names
        broken_file{"[training]", "[trainin]",
                    "f.toml:4:2: trainin is unknown; did you mean \"training\"? a cluster file has"},
        broken_file{
            "learning_rate", "learning_rat",
            "f.toml:6:1: training.learning_rat is unknown; did you mean \"learning_rate\"? training has \"trainer\""},
        broken_file{"port = 7401", "port = 7401\ncolour = 3",
                    "f.toml:21:1: host.colour is unknown; host has \"name\", "},
        broken_file{"at_seconds = 10", "at_seconds = 10\nat_second = 1",
                    "f.toml:29:1: host.emulate.at_second is unknown; did you mean \"at_seconds\"? "},
        // wrong types
        broken_file{"seed = 7", "seed = \"7\"",
                    "f.toml:3:8: cluster.seed is a string; it must be an integer in [0, 9007199254740992]"},
        broken_file{"seed = 7", "seed = 7.5",
                    "f.toml:3:8: cluster.seed is a number with a fraction; it must be an integer"},
        broken_file{"seed = 7", "insecure = 1",
                    "f.toml:3:12: cluster.insecure is an integer; it must be true or false"},
        broken_file{"epochs = 2", "epochs = \"two\"",
                    "f.toml:7:10: training.epochs is a string; it must be a number in (0, 10000]"},
        broken_file{"epochs = 2", "epochs = true", "f.toml:7:10: training.epochs is a boolean; it must be a number"},
        broken_file{"name = \"four\"", "name = 4",
                    "f.toml:2:8: cluster.name is an integer; it must be a name of 1 to 64"},
        broken_file{"actions = [-25, 0, 25]", "actions = 25",
                    "f.toml:13:11: arbitrator.actions is an integer; it must be a list of integers in "},
        broken_file{"actions = [-25, 0, 25]", "actions = [-25, 0, 2.5]",
                    "f.toml:13:20: arbitrator.actions holds an entry that is a number with a fraction; it must be an "
                    "integer in"},
        broken_file{"[ppo]\nhorizon = 16", "[[ppo]]\nhorizon = 16",
                    "f.toml:14:1: ppo is a list; it must be a table, [ppo]"},
        broken_file{"sources = [\"procfs\"]", "sources = \"procfs\"",
                    "f.toml:17:11: telemetry.sources is a string; it must be a list of \"ebpf\", \"tcp_info\", "
                    "\"procfs\", \"nvml\""},
        // out of range
        broken_file{"learning_rate = 0.05", "learning_rate = 0",
                    "f.toml:6:17: training.learning_rate is 0; it must be in (0, 10]"},
        broken_file{"learning_rate = 0.05", "learning_rate = nan",
                    "f.toml:6:17: training.learning_rate is nan; it must be in (0, 10]"},
        broken_file{"epochs = 2", "momentum = 1.0", "f.toml:7:12: training.momentum is 1; it must be in [0, 1)"},
        broken_file{"port = 7401", "port = 0", "f.toml:20:8: host.port is 0; it must be in [1, 65535]"},
        // choices and texts
        broken_file{"policy = \"ppo\"", "policy = \"pop\"",
                    "f.toml:12:10: arbitrator.policy is \"pop\"; did you mean \"ppo\"? it must be one of \"static\", "
                    "\"static-best\", \"lb-bsp\", "},
        broken_file{
            "epochs = 2", "trainer = \"client\"\nexchange = \"auto\"",
            "f.toml:8:12: training.exchange is \"auto\"; it must be \"ring\" with training.trainer = \"client\", "
            "whose program sums its gradients itself"},
        broken_file{"epochs = 2", "trainer = \"client\"\ncompression = \"lhc\"",
                    "f.toml:8:15: training.compression is \"lhc\"; it must be \"none\" with training.trainer = "
                    "\"client\", whose program sums its gradients itself"},
        broken_file{"epochs = 2", "top_k = 0.1",
                    "f.toml:7:9: training.top_k makes gradients sparse; it needs a training.compression that"},
        broken_file{"roles = [\"arbitrator\"]", "roles = [\"arbitrator\", \"server\"]",
                    "f.toml:21:9: host \"north\" only sums gradients, which needs training.exchange = "
                    "\"parameter-server\" or \"auto\""},
        broken_file{"epochs = 2", "device = \"gpu\"",
                    "f.toml:7:10: training.device is \"gpu\"; did you mean \"cpu\"? it must be one of"},
        broken_file{"epochs = 2", "data_path = \"\"",
                    "f.toml:7:13: training.data_path is \"\"; it must be a path of 1 to"},
        broken_file{"[\"procfs\"]", "[\"procfs\", \"kprobe\"]",
                    "f.toml:17:22: telemetry.sources holds an entry that is \"kprobe\"; "},
        broken_file{"name = \"four\"", "name = \"../four\"",
                    "f.toml:2:8: cluster.name is \"../four\"; it must be a name of 1 to 64"},
        broken_file{"address = \"127.0.0.1\"", "address = \"127.0.0.256\"",
                    "f.toml:24:11: host.address is \"127.0.0.256\"; it must be an IPv4 or IPv6 address or a host name"},
        broken_file{"address = \"127.0.0.1\"", "address = \"0.0.0.0\"", "f.toml:24:11: host.address is \"0.0.0.0\"; "},
        // missing
        broken_file{"name = \"four\"\n", "", "f.toml:1:1: cluster.name is missing; it must be a name"},
        broken_file{"port = 7401\n", "", "f.toml:18:1: host.port is missing; it must be an integer in [1, 65535]"},
        broken_file{"at_seconds = 10\n", "", "f.toml:27:1: host.emulate.at_seconds is missing; "},
        // fields that do not go together
        broken_file{"policy = \"ppo\"", "policy = \"stigmergic\"\nshadow = true",
                    "f.toml:13:10: arbitrator.policy = \"stigmergic\" and arbitrator.shadow do not go together"},
        broken_file{
            "policy = \"ppo\"", "policy = \"stigmergic\"\nbalance = \"off\"",
            "f.toml:13:11: arbitrator.policy = \"stigmergic\" and arbitrator.balance = \"off\" do not go together"},
        broken_file{"policy = \"ppo\"", "reflex = true",
                    "f.toml:12:1: arbitrator.reflex is gone: write balance = \"on\""},
        broken_file{"policy = \"ppo\"", "surprise = true", "f.toml:12:1: arbitrator.surprise is gone: leave it out"},
        broken_file{"initial = 64", "initial = 16",
                    "f.toml:9:11: batch.initial is 16; it must be in [32, 1024], from batch.lowest to batch.highest"},
        broken_file{"initial = 64\nlowest = 32", "lowest = 65",
                    "f.toml:9:10: batch.initial is 64; it must be in [65, 1024]"},
        broken_file{"lowest = 32", "lowest = 2000",
                    "f.toml:10:10: batch.lowest is 2000; it must be at most batch.highest"},
        broken_file{"actions = [-25, 0, 25]", "actions = [-25, 25]", "f.toml:13:11: arbitrator.actions lacks 0; "},
        broken_file{"actions = [-25, 0, 25]", "actions = [0, 25, 25]",
                    "f.toml:13:11: arbitrator.actions holds a number twice; "},
        broken_file{"actions = [-25, 0, 25]", "actions = [0]",
                    "f.toml:13:11: arbitrator.actions has 1 entries; it must have 2 to 64"},
        broken_file{"actions = [-25, 0, 25]", "scales = [50, 200]",
                    "f.toml:13:10: arbitrator.scales must hold 2 to 16 distinct numbers, one of them 100"},
        broken_file{"actions = [-25, 0, 25]", "static_batch = 4",
                    "f.toml:13:16: arbitrator.static_batch is 4; it must be 0 or from batch.lowest to batch.highest"},
        broken_file{"port = 7402", "port = 7402\nbatch_highest = 63",
                    "f.toml:26:17: host.batch_highest is 63; it must be 0 or from batch.initial to batch.highest"},
        broken_file{"name = \"ada\"", "name = \"" + std::string(63, 'w') + "\"\ncount = 2",
                    "f.toml:23:8: host.count makes the name \"" + std::string(63, 'w') + "-2\" of 65 characters"},
        broken_file{"port = 7402", "port = 65535\ncount = 2",
                    "f.toml:26:9: host.count is 2; there may be 8192 hosts, and ports end at 65535"},
        broken_file{"port = 7402", "port = 7402\njoin_at_seconds = 9\nleave_at_seconds = 9",
                    "f.toml:27:20: host.leave_at_seconds is 9; it must be 0 or above host.join_at_seconds"},
        broken_file{
            "model = \"lenet\"", "width = 0.5",
            "f.toml:5:9: training.width is 0.5; it must be 1 for lenet, only vgg, resnet, transformer and lstm"},
        broken_file{"model = \"lenet\"",
                    "model = \"lenet\"\ndataset = \"text\"\nvocabulary = \"byte-pairs\"\nvocabulary_size = 256",
                    "f.toml:8:19: training.vocabulary_size is 256; byte pairs need at least 257"},
        broken_file{
            "model = \"lenet\"", "model = \"lstm\"\ndataset = \"text\"\nlabel_smoothing = 0.1",
            "f.toml:7:19: training.label_smoothing spreads targets over the whole vocabulary; it must be 0 where"},
        broken_file{"model = \"lenet\"", "model = \"alexnet\"",
                    "f.toml:5:9: training.model is \"alexnet\"; it must be one of \"lenet\", \"vgg11\""},
        broken_file{"model = \"lenet\"", "model = \"script:\"",
                    "f.toml:5:9: training.model is \"script:\"; it must be one of \"lenet\""},
        broken_file{
            "horizon = 16", "horizon = 2\nminibatches = 3",
            "f.toml:16:15: ppo.minibatches is 3; it must be at most 2, ppo.horizon times the number of workers"},
        broken_file{"horizon = 16", "hidden = 769", "f.toml:15:10: ppo.hidden is 769; it must be "},
        broken_file{"name = \"ada\"", "name = \"north\"",
                    "f.toml:23:8: host.name is \"north\", which the host in line 19 has already; names must be unique"},
        broken_file{"port = 7402", "port = 7401",
                    "f.toml:25:8: host.port is 7401 on 127.0.0.1, which host \"north\" in line 20 has already; "},
        broken_file{"roles = [\"arbitrator\"]\n", "roles = [\"worker\"]\n",
                    "f.toml:21:9: no host has the role \"arbitrator\"; "},
        broken_file{"port = 7402", "port = 7402\nroles = [\"worker\", \"arbitrator\"]",
                    "f.toml:26:9: host \"ada\" is a second arbitrator; exactly one host must have that role"},
        broken_file{"port = 7402\ncompute_slowdown = 2.0", "port = 7402\nroles = []",
                    "f.toml:26:9: host.roles is empty; "},
        broken_file{"roles = [\"arbitrator\"]", "roles = [\"arbitrator\", \"arbitrator\"]",
                    "f.toml:21:9: host.roles holds a role twice; "},
        broken_file{"roles = [\"arbitrator\"]", "roles = [\"arbitrator\"]\ncompute_slowdown = 2",
                    "f.toml:22:20: host \"north\" is slowed down; only a host with the role \"worker\" computes"},
        broken_file{"[ppo]", "shards = [\"north\"]\n[ppo]",
                    "f.toml:14:10: arbitrator.shards needs arbitrator.topology = \"tree\""},
        broken_file{"[ppo]", "topology = \"tree\"\nshards = [\"nobody\"]\n[ppo]",
                    "f.toml:15:10: arbitrator.shards names \"nobody\", which is not a host of this file"},
        broken_file{"[ppo]", "[dashboard]\nlisten = \"8080\"\n[ppo]",
                    "f.toml:15:10: dashboard.listen is \"8080\"; it must be an address and a port such as"},
        broken_file{"[ppo]", "[dashboard]\nlisten = \"0.0.0.0:8080\"\n[ppo]",
                    "f.toml:15:10: dashboard.listen is \"0.0.0.0:8080\", which is not loopback; that needs"},
        broken_file{"[ppo]", "replicas = [\"north\"]\n[ppo]",
                    "f.toml:14:12: arbitrator.replicas must name 3 or 5 distinct hosts, or none"},
        broken_file{"[ppo]", "replicas = [\"north\", 5]\n[ppo]",
                    "f.toml:14:22: arbitrator.replicas holds an entry that is an integer; it must be a string"},
        broken_file{"[ppo]", "replicas = [\"\"]\n[ppo]",
                    "f.toml:14:13: arbitrator.replicas holds an entry that is \"\"; it must be a name of 1 to 64"},
        broken_file{"[ppo]", "replicas = [\"north\", \"ada\", \"ben\"]\n[ppo]",
                    "f.toml:14:12: arbitrator.replicas must name exactly the hosts that have the role"},
        broken_file{
            "at_seconds = 20", "at_seconds = 10",
            "f.toml:31:14: host.emulate.at_seconds is 10; it must be above that of the entry before, which is 10"}),
    [](const auto& info) { return "case_" + std::to_string(info.index); });

TEST(ClusterFile, HasAtMost4096WorkersWhateverElseItHas) {
  const auto with = [](const std::string& more) {
    return parse_cluster_text("[cluster]\nname = \"large\"\n[[host]]\nname = \"a\"\nport = 9000\nroles = "
                              "[\"arbitrator\"]\n[[host]]\nname = \"w\"\nport = 10000\ncount = 4096\n" +
                                  more,
                              "f.toml");
  };
  EXPECT_TRUE(with("").errors.empty());
  const auto errors = with("[[host]]\nname = \"x\"\nport = 9001\n").errors;
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_NE(errors[0].message.find("there are 4097 workers; at most 4096 may be"), std::string::npos);
}

TEST(BrokenClusterFile, WithoutHostsOrWorkersIsRefused) {
  const auto empty = parse_cluster_text("[cluster]\nname = \"none\"\n", "f.toml");
  ASSERT_EQ(empty.errors.size(), 1U);
  EXPECT_EQ(to_string(empty.errors[0]),
            "f.toml: there is no host; write one [[host]] for each, 1 to 8192, of which 4096 may be workers");
  const auto idle = parse_cluster_text(
      "[cluster]\nname = \"none\"\n[[host]]\nname = \"a\"\nport = 1\nroles = [\"arbitrator\"]\n", "f.toml");
  ASSERT_EQ(idle.errors.size(), 1U);
  EXPECT_EQ(to_string(idle.errors[0]), "f.toml:6:9: no host has the role \"worker\"; at least one must");
  const auto single = parse_cluster_text("[cluster]\nname = \"none\"\n[host]\nname = \"a\"\nport = 1\n", "f.toml");
  EXPECT_EQ(to_string(single.errors[0]), "f.toml:3:1: host is a table; it must be tables, each under [[host]]");
}

TEST(BrokenClusterFile, GetsAllItsErrorsReportedInOrder) {
  std::string text = good;
  text.replace(text.find("seed = 7"), 8, "seed = -7");
  text.replace(text.find("lowest = 32"), 11, "lowest = 65");
  text.replace(text.find("port = 7402"), 11, "prt = 7402");
  const auto result = parse_cluster_text(text, "f.toml");
  ASSERT_EQ(result.errors.size(), 4U);
  EXPECT_EQ(result.errors[0].line, 3U);
  EXPECT_EQ(result.errors[1].line, 9U);
  EXPECT_EQ(result.errors[2].message.substr(0, 9), "host.port");
  EXPECT_EQ(result.errors[3].message.substr(0, 8), "host.prt");
}

TEST(BrokenClusterFile, GetsAtMostTwentyErrors) {
  std::string text = "[reward]\n";
  for (int i = 0; i < 50; ++i)
    text += "unknown" + std::to_string(i) + " = 1\n";
  const auto result = parse_cluster_text(text + good, "f.toml");
  ASSERT_EQ(result.errors.size(), 20U);
  EXPECT_EQ(result.errors.front().line, 2U);
  EXPECT_EQ(result.errors.back().line, 21U);
}

TEST(BrokenClusterFile, ShowsNoControlCharacters) {
  const auto result = parse_cluster_text("[cluster]\nname = \"a\\u001B[31m\"\n", "f.toml");
  ASSERT_FALSE(result.errors.empty());
  EXPECT_EQ(to_string(result.errors.back()).find('\x1b'), std::string::npos);
}

} // namespace
} // namespace dynamix::cluster
