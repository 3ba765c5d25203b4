#include "cluster/field_changes.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dynamix::cluster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string pair_file = R"([cluster]
name = "pair"
[batch]
initial = 64
[[host]]
name = "ada"
port = 7401
roles = ["worker", "arbitrator"]
[[host]]
name = "ben.example.org"
port = 7402
)";

cluster_file parsed_pair(const std::string& text) {
  const auto result = parse_cluster_text(text, "pair.toml");
  EXPECT_THAT(result.errors, IsEmpty());
  return result.file;
}

/// What is said about the options "--set TEXT".
std::vector<std::string> set(cluster_file& file, const std::vector<std::string>& texts) {
  std::vector<field_change> changes;
  for (const auto& text : texts)
    changes.push_back(parse_change(text));
  std::vector<std::string> errors;
  for (const auto& error : change_fields(file, changes))
    errors.push_back(to_string(error));
  return errors;
}

TEST(FieldChanges, SetFieldsOfSectionsAndHosts) {
  auto file = parsed_pair(pair_file);
  EXPECT_THAT(set(file, {"training.epochs=2", "arbitrator.policy=static", "arbitrator.actions=-8,0,8",
                         "telemetry.sources=procfs", "arbitrator.guard=false", "hosts.ada.compute_slowdown=2.5",
                         "hosts.ben.example.org.batch_highest=128"}),
              IsEmpty());
  EXPECT_EQ(file.training.epochs, 2);
  EXPECT_EQ(file.arbitrator.policy, policy_kind::static_batch);
  EXPECT_THAT(file.arbitrator.actions, ElementsAre(-8, 0, 8));
  EXPECT_THAT(file.telemetry_sources, ElementsAre(telemetry_source::procfs));
  EXPECT_FALSE(file.arbitrator.guard);
  ASSERT_EQ(file.hosts[0].emulate.size(), 1U);
  EXPECT_EQ(file.hosts[0].emulate[0].compute_slowdown, 2.5);
  EXPECT_EQ(file.hosts[1].batch_highest, 128U);
  EXPECT_TRUE(file.gives("training.epochs"));
  EXPECT_FALSE(file.gives("training.model"));
  const auto again = parse_cluster_text(to_toml(file), "again.toml");
  EXPECT_THAT(again.errors, IsEmpty());
  EXPECT_EQ(again.file.digest(), file.digest()) << "the resolved file holds them";
}

TEST(FieldChanges, AreCheckedTogetherAndNotOneByOne) {
  auto file = parsed_pair(pair_file);
  EXPECT_THAT(set(file, {"batch.lowest=2000", "batch.initial=3000", "batch.highest=4000"}), IsEmpty());
  EXPECT_EQ(file.batch.initial, 3000U);
}

TEST(FieldChanges, NameTheOptionThatIsWrong) {
  auto file = parsed_pair(pair_file);
  const auto digest = file.digest();
  EXPECT_THAT(
      set(file, {"training.epochs=0", "training.epoch=1", "trainin.epochs=1", "epochs", "hosts.ida.port=1",
                 "hosts.ada.name=x", "hosts.port=1", "arbitrator.policy=pop"}),
      ElementsAre("--set training.epochs=0: training.epochs is 0; it must be in (0, 10000]",
                  ::testing::StartsWith("--set training.epoch=1: training.epoch is unknown; did you mean \"epochs\"? "
                                        "training has \"trainer\""),
                  ::testing::StartsWith("--set trainin.epochs=1: trainin.epochs is unknown; did you mean \"training\"? "
                                        "a cluster file has \"cluster\", "),
                  "--set epochs: it must be SECTION.FIELD=VALUE",
                  "--set hosts.ida.port=1: there is no host \"ida\"; did you mean \"ada\"? the hosts are \"ada\", "
                  "\"ben.example.org\"",
                  ::testing::StartsWith("--set hosts.ada.name=x: hosts.ada.name is unknown; hosts.ada has \"address\""),
                  "--set hosts.port=1: hosts.port is unknown; a host's field is hosts.NAME.FIELD",
                  ::testing::StartsWith("--set arbitrator.policy=pop: arbitrator.policy is \"pop\"; did you mean "
                                        "\"ppo\"?")));
  EXPECT_EQ(file.digest(), digest);
  EXPECT_FALSE(file.gives("training.epochs"));
}

TEST(FieldChanges, NameTheOptionWhereFieldsDoNotGoTogether) {
  auto file = parsed_pair(pair_file);
  EXPECT_THAT(set(file, {"batch.lowest=100"}), ElementsAre("--set batch.lowest=100: batch.initial is 64; it must be in "
                                                           "[100, 1024], from batch.lowest to batch.highest"));
  EXPECT_THAT(
      set(file, {"hosts.ben.example.org.port=7401"}),
      ElementsAre(::testing::StartsWith("--set hosts.ben.example.org.port=7401: host.port is 7401 on 127.0.0.1, "
                                        "which host \"ada\"")));
}

TEST(FieldChanges, AreNamedByLaterErrorsToo) {
  auto file = parsed_pair(pair_file);
  EXPECT_EQ(to_string(error_at(file, "batch.initial", "it does not fit")), "pair.toml:4:11: it does not fit");
  EXPECT_THAT(set(file, {"batch.initial=96"}), IsEmpty());
  EXPECT_EQ(to_string(error_at(file, "batch.initial", "it does not fit")), "--set batch.initial=96: it does not fit");
}

TEST(SetField, ChangesOneValueAndChecksTheFile) {
  auto file = parsed_pair(pair_file);
  EXPECT_EQ(set_field(file, "arbitrator.policy", "static"), "");
  EXPECT_EQ(file.arbitrator.policy, policy_kind::static_batch);
  EXPECT_EQ(set_field(file, "cluster.seed", "77"), "");
  EXPECT_EQ(file.seed, 77U);
  EXPECT_EQ(set_field(file, "training.epochs", "0.5"), "");
  EXPECT_EQ(file.training.epochs, 0.5);

  const auto digest = file.digest();
  EXPECT_EQ(set_field(file, "arbitrator.policy", "pppo"),
            "arbitrator.policy is \"pppo\"; did you mean \"ppo\"? it must be one of \"static\", "
            "\"static-best\", \"lb-bsp\", \"omnilearn\", \"goodput\", \"ppo\", \"ppo-add\", \"ppo-simple\", "
            "\"oracle\", \"step-oracle\", \"stigmergic\"");
  EXPECT_EQ(set_field(file, "training.epochs", "0"), "training.epochs is 0; it must be in (0, 10000]");
  EXPECT_EQ(set_field(file, "training.epochs", "a lot"), "training.epochs is a lot; it must be a number in (0, 10000]");
  EXPECT_EQ(set_field(file, "batch.lowest", "100"),
            "batch.initial is 64; it must be in [100, 1024], from batch.lowest to batch.highest");
  EXPECT_EQ(set_field(file, "batch.smallest", "100"),
            "batch.smallest is unknown; batch has \"initial\", \"lowest\", \"highest\"");
  EXPECT_EQ(file.digest(), digest);
}

} // namespace
} // namespace dynamix::cluster
