/// Hosts with several workers.

#include "cluster/cluster_file.hpp"
#include "cluster/field_changes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dynamix::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string client_head = "[cluster]\nname = \"shared\"\n[training]\ntrainer = \"client\"\n";
const std::string hub_host = "[[host]]\nname = \"hub\"\nport = 7400\nroles = [\"arbitrator\"]\n";

parse_result read_with(const std::string& host, const std::string& head = client_head) {
  return parse_cluster_text(head + hub_host + host, "f.toml");
}

cluster_file file_with(const std::string& host, const std::string& head = client_head) {
  const auto result = read_with(host, head);
  for (const auto& error : result.errors)
    ADD_FAILURE() << to_string(error);
  return result.file;
}

std::vector<std::string> worker_names(const std::vector<const host*>& hosts) {
  std::vector<std::string> names;
  for (const auto* one : hosts)
    names.push_back(one->name);
  return names;
}

const std::string ada_and_ben = R"([[host]]
name = "ada"
port = 7401
gpus = [4, 6]
batch_highest = 128
[[host]]
name = "ben"
port = 7402
[[host]]
name = "cat"
port = 7403
workers = 3
)";

TEST(Slots, AreWorkersWithTheAddressOfTheirHost) {
  const auto file = file_with(ada_and_ben);
  EXPECT_EQ(file.hosts.size(), 4U);
  EXPECT_THAT(worker_names(file.workers()), ElementsAre("ada/0", "ada/1", "ben", "cat/0", "cat/1", "cat/2"));
  EXPECT_THAT(worker_names(file.members()), ElementsAre("ada/0", "ada/1", "ben", "cat/0", "cat/1", "cat/2"));
  const auto* second = file.find("ada/1");
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->port, 7401);
  EXPECT_EQ(second->gpus, std::vector<std::int32_t>{6});
  EXPECT_TRUE(second->has(role::worker));
  EXPECT_EQ(file.highest_by_rank(), (std::vector<std::uint32_t>{128, 128, 1024, 1024, 1024, 1024}));
  EXPECT_EQ(file.find("ada")->members().size(), 2U);
  EXPECT_EQ(file.find("ben")->members().front(), file.find("ben")) << "it keeps its plain name";
  EXPECT_TRUE(file.find("hub")->members().empty());
  for (const auto* nobody : {"ada/2", "ada/", "ben/0", "/0", "ada/0/0"})
    EXPECT_EQ(file.find(nobody), nullptr) << nobody;
}

TEST(Slots, HaveNamesThatTellTheirHost) {
  EXPECT_EQ(host_of("ada/11"), "ada");
  EXPECT_EQ(host_of("ada"), "ada");
  EXPECT_TRUE(is_slot("ada/0"));
  EXPECT_FALSE(is_slot("ada"));
  EXPECT_EQ(file_name_of("ada/1"), "ada+1");
  EXPECT_EQ(file_name_of("ada.1"), "ada.1");
}

TEST(Slots, ShowTheirGpusToOneProcessWhereEachHasOne) {
  const auto file = file_with(ada_and_ben);
  EXPECT_EQ(visible_gpus(file.find("ada")->members()), "4,6");
  EXPECT_EQ(visible_gpus({file.find("ada/1")}), "6");
  EXPECT_EQ(visible_gpus(file.workers()), "") << "ben has none";
  EXPECT_EQ(visible_gpus({}), "");
}

TEST(Slots, AreWrittenAndReadAgain) {
  const auto file = file_with(ada_and_ben);
  const auto again = parse_cluster_text(to_toml(file), "again.toml");
  ASSERT_TRUE(again.errors.empty()) << to_string(again.errors.front());
  EXPECT_EQ(again.file.digest(), file.digest());
  EXPECT_EQ(worker_names(again.file.workers()), worker_names(file.workers()));
}

TEST(Slots, CountForTheDigestWhereThereAreAny) {
  const std::string ben = "[[host]]\nname = \"ben\"\nport = 7402\n";
  const auto plain = to_digested_toml(file_with(ben));
  for (const auto* field : {"\nworkers", "\ngpus", "\nbind_cores"})
    EXPECT_EQ(plain.find(field), std::string::npos) << "files without it have the digest that they had";
  EXPECT_EQ(file_with(ben + "workers = 0\ngpus = []\nbind_cores = true\n").digest(), file_with(ben).digest());
  EXPECT_NE(file_with(ben + "workers = 2\n").digest(), file_with(ben).digest());
  EXPECT_NE(file_with(ben + "workers = 2\n").digest(), file_with(ben + "workers = 3\n").digest());
  EXPECT_NE(file_with(ben + "workers = 2\n").digest(), file_with(ben + "workers = 2\nbind_cores = false\n").digest());
}

TEST(Slots, AreCountedAnewByTheCommandLine) {
  auto file = file_with(ada_and_ben);
  EXPECT_TRUE(change_fields(file, {{"--set", "hosts.cat.workers", "2"}}).empty());
  EXPECT_EQ(worker_names(file.find("cat")->members()), (std::vector<std::string>{"cat/0", "cat/1"}));
  const auto wrong = change_fields(file, {{"--set", "hosts.ada.workers", "3"}});
  ASSERT_EQ(wrong.size(), 1U);
  EXPECT_THAT(wrong[0].message, HasSubstr("host.gpus names 2 and host.workers is 3"));
}

TEST(Slots, AreInThePlanWithTheirSockets) {
  const auto file = file_with(ada_and_ben);
  const auto plan = describe_plan(file);
  EXPECT_THAT(plan, HasSubstr("0 to 1"));
  EXPECT_THAT(plan, HasSubstr("workers of one host\n"));
  EXPECT_THAT(plan, testing::ContainsRegex("cat/2 +5 +- +agents/2.sock"));
  EXPECT_THAT(plan, testing::ContainsRegex("ada/1 +1 +6 +agents/1.sock"));
  EXPECT_EQ(describe_plan(file_with("[[host]]\nname = \"ben\"\nport = 7402\n")).find("workers of one host"),
            std::string::npos);
  const auto told = nlohmann::json::parse(describe_plan_json(file));
  EXPECT_EQ(told["hosts"][1]["slots"][1], nlohmann::json({{"name", "ada/1"}, {"rank", 1}, {"gpu", 6}}));
  EXPECT_EQ(told["hosts"][2]["rank"], 2);
  EXPECT_FALSE(told["hosts"][2].contains("slots"));
}

TEST(Slots, AreOfHostsThatTrain) {
  const auto result =
      parse_cluster_text(client_head + hub_host + "workers = 2\n[[host]]\nname = \"ben\"\nport = 7402\n", "f.toml");
  ASSERT_EQ(result.errors.size(), 1U);
  EXPECT_EQ(to_string(result.errors.front()), "f.toml:9:11: host \"hub\" has 2 workers, but not the role \"worker\"");
}

struct refused_host {
  std::string host; ///< lines of [[host]] "ada", from line 9 on
  std::string expected;
  std::string head = client_head;
};

class RefusedSlots : public testing::TestWithParam<refused_host> {};

TEST_P(RefusedSlots, SayWhereAndWhatGoesTogether) {
  const auto result = read_with("[[host]]\nname = \"ada\"\nport = 7401\n" + GetParam().host, GetParam().head);
  ASSERT_EQ(result.errors.size(), 1U) << (result.errors.empty() ? "" : to_string(result.errors.back()));
  EXPECT_THAT(to_string(result.errors.front()), HasSubstr(GetParam().expected));
}

const std::string built_in = "[cluster]\nname = \"shared\"\n[batch]\nlowest = 16\n";
const std::string on_cpu = "[cluster]\nname = \"shared\"\n[training]\ndevice = \"cpu\"\n";

INSTANTIATE_TEST_SUITE_P(
    , RefusedSlots,
    testing::Values(
        refused_host{"workers = 4\n",
                     "f.toml:12:11: host \"ada\" has 4 workers; that needs training.trainer = \"client\"", built_in},
        refused_host{"gpus = [0, 1]\n",
                     "f.toml:12:8: host \"ada\" has 2 workers; that needs training.trainer = \"client\"", built_in},
        refused_host{"gpus = [2]\n",
                     "f.toml:12:8: host \"ada\" has a GPU for its worker, but training.device is \"cpu\"", on_cpu},
        refused_host{"workers = 3\ngpus = [0, 1]\n", "f.toml:12:11: host.gpus names 2 and host.workers is 3"},
        refused_host{"gpus = [1, 1]\n", "f.toml:12:8: host.gpus holds a number twice"},
        refused_host{"workers = 257\n", "f.toml:12:11: host.workers is 257; it must be"},
        refused_host{"workers = 256\ncount = 20\n",
                     "f.toml:12:11: 20 hosts of 256 workers are too many; a cluster has 4096 workers at most"}));

} // namespace
} // namespace dynamix::cluster
