#include "cluster/cluster_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/parsed_cluster.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

namespace dynamix::cluster {
namespace {

const std::string pair = R"(
[cluster]
name = "pair"

[[host]]
name = "ada"
port = 7401
roles = ["worker", "arbitrator"]

[[host]]
name = "ben"
port = 7402
)";

cluster_file parsed(const std::string& text) {
  return parsed_cluster(text, "pair.toml");
}

TEST(ClusterFile, TakesDocumentedDefaults) {
  const auto file = parsed(pair);
  EXPECT_EQ(file.name, "pair");
  EXPECT_EQ(file.seed, 1U);
  EXPECT_EQ(file.detect_ms, 1000U);
  EXPECT_FALSE(file.insecure);
  EXPECT_EQ(file.batch.initial, 64U);
  EXPECT_EQ(file.batch.lowest, 32U);
  EXPECT_EQ(file.batch.highest, 1024U);
  EXPECT_EQ(file.arbitrator.actions, (std::vector<std::int32_t>{-100, -25, 0, 25, 100}));
  EXPECT_EQ(file.arbitrator.policy, policy_kind::ppo);
  EXPECT_EQ(file.hosts[0].address, "127.0.0.1");
  EXPECT_EQ(file.hosts[1].roles, (std::vector<role>{role::worker}));
  EXPECT_TRUE(file.hosts[1].emulate.empty());
}

TEST(ClusterFile, ReadsEveryKindOfValue) {
  const auto file = parsed(pair + R"(compute_slowdown = 2
[[host.emulate]]
at_seconds = 10
compute_slowdown = 1.5
[training]
model = "vgg11"
width = 0.25
dataset = "cifar100"
rule = "square-root"
data_path = "some \"where\""
learning_rate = 1e-6
[arbitrator]
policy = "ppo-simple"
mode = "infer"
actions = [0, 5]
[telemetry]
sources = []
)");
  EXPECT_EQ(file.training.model, model_kind::vgg11);
  EXPECT_EQ(file.training.width, 0.25);
  EXPECT_EQ(file.training.dataset, dataset_kind::cifar100);
  EXPECT_EQ(file.training.rule, learning_rate_rule::square_root);
  EXPECT_EQ(file.training.data_path, "some \"where\"");
  EXPECT_EQ(file.training.learning_rate, 1e-6);
  EXPECT_EQ(file.arbitrator.policy, policy_kind::ppo_simple);
  EXPECT_EQ(file.arbitrator.mode, policy_mode::infer);
  EXPECT_EQ(file.arbitrator.actions, (std::vector<std::int32_t>{0, 5}));
  EXPECT_TRUE(file.telemetry_sources.empty());
  ASSERT_EQ(file.hosts[1].emulate.size(), 2U);
  EXPECT_EQ(file.hosts[1].emulate[0].at_seconds, 0);
  EXPECT_EQ(file.hosts[1].emulate[0].compute_slowdown, 2);
  EXPECT_EQ(file.hosts[1].emulate[1].at_seconds, 10);
  EXPECT_EQ(file.hosts[1].emulate[1].compute_slowdown, 1.5);
}

TEST(ClusterFile, FindsHostsByNameRoleAndRank) {
  const auto file = parsed(pair);
  EXPECT_EQ(file.find("ben"), &file.hosts[1]);
  EXPECT_EQ(file.find("nobody"), nullptr);
  EXPECT_EQ(file.workers(), (std::vector<const host*>{&file.hosts[0], &file.hosts[1]}));
  EXPECT_EQ(&file.arbitrator_host(), &file.hosts[0]);
}

TEST(ClusterFile, NeedsNoArbitratorWhereNobodyDecides) {
  const std::string hosts = "[[host]]\nname = \"a\"\nport = 1\ncount = 3\n";
  const std::string alone = "[cluster]\nname = \"three\"\n[arbitrator]\npolicy = \"stigmergic\"\n";
  const auto file = parsed(alone + hosts);
  EXPECT_EQ(file.hosts[0].roles, (std::vector<role>{role::worker, role::arbitrator}));
  EXPECT_EQ(file.arbitrators(), (std::vector<const host*>{&file.hosts[0]}));
  EXPECT_EQ(file.workers().size(), 3U);
  EXPECT_EQ(parsed(to_toml(file)).digest(), file.digest());

  const auto three = parsed(alone + "replicas = [\"a-1\", \"a-2\", \"a-3\"]\n" + hosts);
  EXPECT_EQ(three.arbitrators().size(), 3U);
  const auto deciding =
      parse_cluster_text("[cluster]\nname = \"three\"\n[arbitrator]\npolicy = \"goodput\"\n" + hosts, "f.toml");
  ASSERT_EQ(deciding.errors.size(), 1U);
  EXPECT_THAT(to_string(deciding.errors[0]), ::testing::HasSubstr("no host has the role \"arbitrator\""));
}

TEST(ClusterFile, LetsArbitratorsStandInForEachOther) {
  const std::string text = R"([cluster]
name = "three"
[arbitrator]
replicas = ["a", "b", "c"]
[[host]]
name = "a"
port = 7401
roles = ["arbitrator", "worker"]
[[host]]
name = "b"
port = 7402
roles = ["arbitrator"]
[[host]]
name = "c"
port = 7403
roles = ["arbitrator"]
)";
  const auto file = parsed(text);
  EXPECT_EQ(file.arbitrators().size(), 3U);
  EXPECT_EQ(&file.arbitrator_host(), &file.hosts[0]);
  EXPECT_EQ(parse_cluster_text(to_toml(file), "again.toml").file.digest(), file.digest());
  EXPECT_NE(describe_plan(file).find("raft       TLS 1.3, both sides with a certificate\n"), std::string::npos);
  const auto earlier = parsed(std::string(text).replace(text.find("[arbitrator]"), 0, "secret_file = \"/secret\"\n"));
  EXPECT_NE(earlier.digest(), file.digest()) << "an earlier run's, which is replayed";
  EXPECT_EQ(parsed(to_toml(earlier)).digest(), earlier.digest());
}

TEST(ClusterFile, KnowsWhereEachValueStands) {
  const auto file = parsed(pair + "[training]\nepochs = 2\n");
  EXPECT_EQ(file.where("training.epochs").line, 14U);
  EXPECT_EQ(file.where("training.epochs").column, 10U);
  EXPECT_EQ(file.where("training.data_path").line, 13U) << "a default points to its section";
  EXPECT_EQ(file.where("host[1].port").line, 12U);
  EXPECT_EQ(file.where("host[1].address").line, 10U);
  EXPECT_EQ(file.where("batch.lowest").line, 0U);
  EXPECT_EQ(to_string(error_at(file, "host[1].port", "is taken")), "pair.toml:12:8: is taken");
  EXPECT_EQ(to_string(error_at(file, "batch.lowest", "is odd")), "pair.toml: is odd");
}

TEST(ClusterFile, HasWorkersShareByTheirPacesWhereAPolicyChoosesTheGlobalBatch) {
  const auto of = [](const std::string& arbitrator) { return parsed(pair + "[arbitrator]\n" + arbitrator); };
  EXPECT_TRUE(parsed(pair).balances());
  EXPECT_TRUE(of("policy = \"goodput\"\n").balances());
  EXPECT_TRUE(of("policy = \"stigmergic\"\n").balances());
  for (const char* decided : {"static", "lb-bsp", "omnilearn", "ppo-add", "ppo-simple"}) {
    const auto policy = "policy = \"" + std::string(decided) + "\"\n";
    EXPECT_FALSE(of(policy).balances()) << decided;
    EXPECT_TRUE(of(policy + "balance = \"on\"\n").balances()) << decided;
  }
  EXPECT_FALSE(of("balance = \"off\"\n").balances());
  EXPECT_FALSE(of("balance = \"on\"\nshadow = true\n").balances()) << "nothing changes a batch size there";
  EXPECT_EQ(of("policy = \"static\"\n").digest(), of("policy = \"static\"\nbalance = \"off\"\n").digest())
      << "what runs counts";
  EXPECT_EQ(of("policy = \"stigmergic\"\n").digest(), of("policy = \"stigmergic\"\nbalance = \"on\"\n").digest());
  EXPECT_NE(parsed(pair).digest(), of("balance = \"on\"\n").digest()) << "which workers that share cores obey, too";
  EXPECT_NE(parsed(pair).digest(), of("balance = \"off\"\n").digest());
}

TEST(ClusterDigest, IgnoresCommentsOrderAndSpelledOutDefaults) {
  const auto digest = parsed(pair).digest();
  EXPECT_EQ(parsed("# a comment\n" + pair).digest(), digest);
  EXPECT_EQ(parsed(pair + "[batch]\ninitial = 64\n").digest(), digest);
  EXPECT_EQ(parsed("[reward]\nalpha = 1\n" + pair + "compute_slowdown = 1.0").digest(), digest);
  EXPECT_EQ(parse_cluster_text(pair, "elsewhere.toml").file.digest(), digest);
  EXPECT_EQ(parsed("[security]\nkeys = \"k\"\n" + pair).digest(), digest) << "keys change nothing of what is decided";
  const auto of_script = [&](const std::string& path) {
    return parsed("[training]\nmodel = \"script:" + path + "\"\n" + pair).digest();
  };
  EXPECT_EQ(of_script("/here/model.pt"), of_script("/moved/model.pt")) << "a run is proven wherever its model lies";
  EXPECT_NE(of_script("/here/model.pt"), of_script("/here/other.pt"));
}

TEST(ClusterDigest, DiffersForEveryChangedValue) {
  std::set<std::uint64_t> digests = {parsed(pair).digest()};
  std::size_t files = 1;
  for (const std::string change : {"[cluster]\nseed = 2",
                                   "[cluster]\ndetect_ms = 2000",
                                   "[cluster]\ninsecure = true",
                                   "[training]\nmodel = \"vgg11\"",
                                   "[training]\nmodel = \"vgg11\"\nwidth = 2.0",
                                   "[training]\nnormalization = \"group\"",
                                   "[training]\ndataset = \"cifar10\"",
                                   "[training]\ndata_path = \"d\"",
                                   "[training]\noptimizer = \"adam\"",
                                   "[training]\nlearning_rate = 0.051",
                                   "[training]\nrule = \"linear\"",
                                   "[training]\nmomentum = 0.8",
                                   "[training]\nweight_decay = 0.1",
                                   "[training]\nclip_norm = 1",
                                   "[training]\nnan = \"drop\"",
                                   "[training]\nepochs = 6",
                                   "[training]\ntarget_accuracy = 0.5",
                                   "[training]\nevaluate_every_epochs = 2",
                                   "[training]\ncheckpoint_every_epochs = 2",
                                   "[training]\ndevice = \"cpu\"",
                                   "[training]\nthreads = 2",
                                   "[training]\nbucket_kib = 512",
                                   "[batch]\ninitial = 65",
                                   "[batch]\nlowest = 31",
                                   "[batch]\nhighest = 1025",
                                   "[arbitrator]\npolicy = \"static\"",
                                   "[arbitrator]\nmode = \"infer\"",
                                   "[arbitrator]\npolicy_file = \"p\"",
                                   "[arbitrator]\nwindow_steps = 11",
                                   "[arbitrator]\nactions = [0, 1]",
                                   "[reward]\nalpha = 2",
                                   "[reward]\nbeta = 2",
                                   "[reward]\ndelta = 2",
                                   "[reward]\neta = 2",
                                   "[ppo]\nlearning_rate = 0.1",
                                   "[ppo]\ndiscount = 0.5",
                                   "[ppo]\ngae_lambda = 0.5",
                                   "[ppo]\nclip = 0.5",
                                   "[ppo]\nentropy_coefficient = 0.5",
                                   "[ppo]\nvalue_coefficient = 0.6",
                                   "[ppo]\nmax_gradient_norm = 0.6",
                                   "[ppo]\nhorizon = 17",
                                   "[ppo]\nepochs = 5",
                                   "[ppo]\nminibatches = 5",
                                   "[ppo]\nhidden = 65",
                                   "[telemetry]\nsources = [\"procfs\"]",
                                   "[arbitrator]\ntopology = \"tree\"",
                                   "[arbitrator]\nfanout = 16",
                                   "[arbitrator]\ntrajectory_kib = 64",
                                   "[dashboard]\nlisten = \"\"",
                                   "[dashboard]\ntoken_file = \"t\""}) {
    std::string text = pair;
    if (change.starts_with("[cluster]\n")) // a table may be written only once
      text.replace(text.find("[cluster]\n"), 10, change + "\n");
    else
      text += change + "\n";
    digests.insert(parsed(text).digest());
    EXPECT_EQ(digests.size(), ++files) << change;
  }
  for (const std::string change :
       {"address = \"127.0.0.2\"", "compute_slowdown = 2", "[[host.emulate]]\nat_seconds = 1\ncompute_slowdown = 2",
        "[[host.emulate]]\nat_seconds = 2\ncompute_slowdown = 2", "replica_port = 9000",
        "[[host]]\nname = \"cy\"\nport = 1"}) {
    digests.insert(parsed(pair + change + "\n").digest());
    EXPECT_EQ(digests.size(), ++files) << change;
  }
}

TEST(ClusterToToml, ReadsBackAsTheSameFile) {
  const auto file = parsed(pair + "compute_slowdown = 3.25\n[[host.emulate]]\nat_seconds = 7\ncompute_slowdown = 1\n"
                                  "[training]\nlearning_rate = 0.1234567890123\ndata_path = 'a\\b\"c'\n");
  const auto again = parsed(to_toml(file));
  EXPECT_EQ(again.digest(), file.digest());
  EXPECT_EQ(to_toml(again), to_toml(file));
}

TEST(ClusterFile, CountsEqualHostsOut) {
  const auto file = parsed(std::string(pair) + R"(
[[host]]
name = "spot"
port = 7500
count = 3
compute_slowdown = 2
batch_highest = 128
)");
  const auto workers = file.workers();
  ASSERT_GE(workers.size(), 3U);
  const auto first = workers.size() - 3;
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(workers[first + i]->name, "spot-" + std::to_string(i + 1));
    EXPECT_EQ(workers[first + i]->port, 7500 + i);
    EXPECT_EQ(workers[first + i]->emulate.size(), 1U);
    EXPECT_EQ(file.highest_by_rank()[first + i], 128U);
  }
  EXPECT_EQ(file.highest_by_rank()[0], file.batch.highest);
  const auto again = parse_cluster_text(to_toml(file), "again.toml");
  ASSERT_TRUE(again.errors.empty());
  EXPECT_EQ(again.file.digest(), file.digest());
}

TEST(ClusterFile, FindsWhatItNamesBesideItself) {
  cluster_file file;
  file.path = "deployments/clusters/a.toml";
  EXPECT_EQ(resolve_path(file, "../policies/p"), "deployments/policies/p");
  EXPECT_EQ(resolve_path(file, "/p"), "/p");
  EXPECT_EQ(resolve_path(file, ""), "");
  file.simulation.profile = "p";
  file.security.keys = "../keys";
  file.hosts = {{.name = "a", .profile = "../q"}};
  make_paths_absolute(file);
  EXPECT_TRUE(file.security.keys.starts_with("/") && file.security.keys.ends_with("/deployments/keys"));
  EXPECT_TRUE(file.simulation.profile.starts_with("/") && file.simulation.profile.ends_with("/deployments/clusters/p"));
  EXPECT_TRUE(file.hosts[0].profile.ends_with("/deployments/q"));
  EXPECT_EQ(file.simulation.workload, "");
}

TEST(ClusterFile, RewardsProgressUnderPpoUnlessToldOtherwise) {
  cluster_file file;
  EXPECT_EQ(file.reward_in_force(), reward_kind::progress);
  file.arbitrator.policy = policy_kind::ppo_simple;
  EXPECT_EQ(file.reward_in_force(), reward_kind::paper);
  file.reward.kind = reward_kind::progress;
  EXPECT_EQ(file.reward_in_force(), reward_kind::progress);
}

TEST(ClusterListen, AllowsLoopbackAndRefusesTheRestUnlessTold) {
  auto file = parsed(pair);
  host listener = file.hosts[0];
  for (const char* address : {"127.0.0.1", "127.8.9.10", "::1", "localhost"}) {
    listener.address = address;
    EXPECT_EQ(refuse_listen(file, listener, false), "") << address;
  }
  for (const char* address : {"10.0.0.1", "192.168.1.2", "fe80::1", "example.org", "127.example.org", "128.0.0.1"}) {
    listener.address = address;
    EXPECT_NE(refuse_listen(file, listener, false).find("--insecure"), std::string::npos) << address;
    EXPECT_EQ(refuse_listen(file, listener, true), "") << address;
  }
  EXPECT_NE(refuse_listen(file, listener, false).find("nothing authenticates its peers"), std::string::npos);
  file.security.keys = "keys";
  EXPECT_EQ(refuse_listen(file, listener, false), "");
  file.security.keys = "";
  file.insecure = true;
  EXPECT_EQ(refuse_listen(file, listener, false), "");
}

TEST(ClusterPlan, NamesHostsRanksAndWhatDiffersFromTheDefaults) {
  const auto file = parsed(pair + "compute_slowdown = 2\n[batch]\ninitial = 100\n");
  const std::string plan = describe_plan(file);
  EXPECT_NE(plan.find("ben   127.0.0.1:7402  worker                 1                  2\n"), std::string::npos)
      << plan;
  EXPECT_NE(plan.find("initial  100   (default 64)\n"), std::string::npos) << plan;
  EXPECT_NE(plan.find("connection_timeout_ms  4000\n"), std::string::npos) << plan;
}

TEST(ClusterPlan, IsSummarisedByWhatDiffersFromTheDefaults) {
  const auto file = parsed(pair + "[batch]\ninitial = 100\n[simulation]\nnoise = 0.1\n");
  const std::string plan = describe_plan(file, plan_detail::summary);
  EXPECT_NE(plan.find("differs from the defaults\n  batch.initial  100  (default 64)\n"), std::string::npos) << plan;
  EXPECT_EQ(plan.find("connection_timeout_ms"), std::string::npos) << plan;
  EXPECT_EQ(plan.find("noise"), std::string::npos) << "only the simulator reads it";
  EXPECT_LE(std::ranges::count(plan, '\n'), 25) << plan;
  EXPECT_NE(describe_plan(parsed(pair), plan_detail::summary).find("all fields have their defaults\n"),
            std::string::npos);
}

TEST(ClusterPlan, TellsWhichLinksAreProtected) {
  const auto clear = describe_plan(parsed(pair));
  const std::string except = "in the clear, except in a run by local or launch, which make keys\n";
  EXPECT_NE(clear.find("control    " + except), std::string::npos) << clear;
  EXPECT_NE(clear.find("gradients  " + except), std::string::npos) << clear;
  EXPECT_NE(clear.find("page       plain HTTP\n"), std::string::npos) << clear;
  EXPECT_EQ(clear.find("  raft "), std::string::npos) << clear;
  auto insecure = parsed(pair);
  insecure.insecure = true;
  EXPECT_EQ(nlohmann::json::parse(describe_plan_json(insecure))["links"]["control"],
            "in the clear, except in a run by launch, which makes keys");
  const auto keys = nlohmann::json::parse(describe_plan_json(parsed(pair + "[security]\nkeys = \"keys\"\n")));
  EXPECT_EQ(keys["links"]["control"], "TLS 1.3, both sides with a certificate");
  EXPECT_EQ(keys["links"]["gradients"], "TLS 1.3, both sides with a certificate");
  const auto data =
      nlohmann::json::parse(describe_plan_json(parsed(pair + "[security]\nkeys = \"keys\"\ndata = \"clear\"\n")));
  EXPECT_EQ(data["links"]["gradients"], "in the clear, between hosts that have proved who they are by TLS 1.3");
  EXPECT_EQ(data["links"]["control"], "TLS 1.3, both sides with a certificate");
}

TEST(ClusterPlan, PredictsWhatServersTakeBesideARing) {
  const auto servers = pair + "bandwidth_mbit = 500\n[training]\nexchange = \"parameter-server\"\n"
                              "[simulation]\nbandwidth_mbit = 1000\n";
  const std::string plan = describe_plan(parsed(servers));
  EXPECT_NE(plan.find("ben           500                   0.500\n"), std::string::npos) << plan;
  EXPECT_NE(plan.find("a MB of gradients: 16.000 ms through servers, 16.000 ms in a ring; bound by the link of ben\n"),
            std::string::npos)
      << plan;
  const auto json = nlohmann::json::parse(describe_plan_json(parsed(servers)));
  EXPECT_EQ(json["exchange"]["bound"], "the slowest worker's link");
  EXPECT_DOUBLE_EQ(json["exchange"]["ring_seconds_per_mb"], 0.016);
  EXPECT_EQ(describe_plan(parsed(pair)).find("through servers"), std::string::npos);
}

TEST(ClusterPlan, GivesHostsThatOnlySumAShareAndTheRanksBehindTheWorkers) {
  const auto served = pair + "[[host]]\nname = \"cy\"\nport = 7403\nroles = [\"server\"]\n"
                             "[[host]]\nname = \"dot\"\nport = 7404\n"
                             "[[host]]\nname = \"eve\"\nport = 7405\nroles = [\"worker\", \"server\"]\n"
                             "[training]\nexchange = \"parameter-server\"\n[simulation]\nbandwidth_mbit = 1000\n";
  const auto file = parsed(served);
  std::vector<std::string> names;
  for (const auto* member : file.members())
    names.push_back(member->name);
  EXPECT_EQ(names, (std::vector<std::string>{"ada", "ben", "dot", "eve", "cy"}));
  EXPECT_EQ(file.workers().size(), 4U);
  const auto json = nlohmann::json::parse(describe_plan_json(file));
  EXPECT_EQ(json["hosts"][2]["rank"], 4);
  EXPECT_EQ(json["hosts"][3]["rank"], 2);
  // In T = M/r a server takes on a quarter, and the workers nothing: the shortest T has the rest shared by all.
  EXPECT_NEAR(json["exchange"]["shares"]["cy"].get<double>(), 1 / 3.0, 1e-9);
  EXPECT_NEAR(json["exchange"]["shares"]["ada"].get<double>(), 1 / 6.0, 1e-9);
  EXPECT_NEAR(json["exchange"]["server_seconds_per_mb"].get<double>(), 0.008 * 4 / 3, 1e-9);
  EXPECT_NEAR(json["exchange"]["ring_seconds_per_mb"].get<double>(), 0.012, 1e-12);
}

TEST(ClusterPlan, IsAvailableAsJson) {
  const auto file = parsed(pair + "compute_slowdown = 2\n");
  const auto plan = nlohmann::json::parse(describe_plan_json(file));
  EXPECT_EQ(plan["cluster"]["name"], "pair");
  EXPECT_EQ(plan["batch"]["highest"], 1024);
  EXPECT_EQ(plan["hosts"][1]["rank"], 1);
  EXPECT_EQ(plan["hosts"][1]["compute_slowdown"], 2);
  EXPECT_EQ(plan["hosts"][0]["roles"], (std::vector<std::string>{"worker", "arbitrator"}));
  EXPECT_EQ(plan["timeouts"]["join_timeout_ms"], 600000);
  EXPECT_EQ(plan["arbitrator"]["actions"].size(), 5U);
}

TEST(ClusterFile, BeginsSmallWhereThePolicyGoesByTheNoiseScaleAndTheLearningRateFollows) {
  cluster_file file;
  file.batch = {.initial = 64, .lowest = 8, .highest = 256};
  file.arbitrator.policy = policy_kind::goodput;
  file.training.rule = learning_rate_rule::adascale;
  EXPECT_EQ(file.first_batch(), 16U);
  file.batch.lowest = 32;
  EXPECT_EQ(file.first_batch(), 32U);
  file.arbitrator.shadow = true;
  EXPECT_EQ(file.first_batch(), 64U) << "nothing would let it grow";
  file.arbitrator.shadow = false;
  file.training.rule = learning_rate_rule::linear;
  EXPECT_EQ(file.first_batch(), 64U);
  file.training.rule = learning_rate_rule::square_root;
  file.arbitrator.policy = policy_kind::lb_bsp;
  EXPECT_EQ(file.first_batch(), 64U);
}

TEST(ClusterRead, SaysWhatIsWrongWithAnUnreadableFile) {
  const auto absent = read_cluster_file("/nonexistent/cluster.toml");
  ASSERT_EQ(absent.errors.size(), 1U);
  EXPECT_EQ(to_string(absent.errors[0]),
            "/nonexistent/cluster.toml: there is no such file; a cluster file is a TOML file");
  const auto directory = read_cluster_file("/");
  ASSERT_EQ(directory.errors.size(), 1U);
  EXPECT_NE(directory.errors[0].message.find("cannot be read"), std::string::npos);

  const temporary_directory folder;
  const auto large = read_cluster_file(folder.write("large.toml", std::string((8U << 20) + 1, '#')));
  ASSERT_EQ(large.errors.size(), 1U);
  EXPECT_NE(large.errors[0].message.find("larger than 8 MiB"), std::string::npos);
}

} // namespace
} // namespace dynamix::cluster
