/// Sessions whose model or text are files that only the hosts have.

#include "session_fixture.hpp"
#include "tests/unit/exchange/stores.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

namespace dynamix::trainer {
namespace {

using testing::HasSubstr;

class evaluation_observer final : public quiet_observer {
public:
  void evaluated(const messages::evaluation_report& report) override { evaluations.push_back(report); }
  std::vector<messages::evaluation_report> evaluations;
};

class SessionFiles : public session_fixture {
protected:
  SessionFiles() {
    constexpr const char* words[] = {"one ", "two ", "three ", "four ", "five ", "six "};
    std::string rhyme;
    storage::splitmix64 random(3);
    for (int word = 0; word < 4000; ++word)
      rhyme += words[random.below(6)];
    data.write("rhyme.txt", rhyme);
    data.write("other.txt", rhyme + "seven");
    file.training.model = cluster::model_kind::transformer;
    file.training.width = 0.125;
    file.training.layers = 1;
    file.training.dataset = cluster::dataset_kind::text;
    file.training.data_path = data.file("rhyme.txt");
    file.training.context = 16;
    file.training.optimizer = cluster::optimizer_kind::adamw;
    file.training.learning_rate = 0.003;
    file.training.epochs = 3;
    file.batch.initial = 8;
    set_workers(2);
  }

  /// Two workers, the second of which reads `text`.
  void train(const std::string& text = "") {
    auto others = file;
    if (!text.empty())
      others.training.data_path = data.file(text);
    std::vector<std::jthread> workers;
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      workers.emplace_back([&, rank] {
        auto options = options_of(rank);
        options.file = rank == 0 ? &file : &others;
        session training(options, time);
        decision_slot decisions(rank, 1, 1024);
        exchange::interruption never;
        ends[rank] = training.train(place_of(rank, {0, 1}), meeting, decisions, watchers[rank], never);
      });
  }

  exchange::memory_store meeting;
  steady_clock time;
  outcome ends[2];
  evaluation_observer watchers[2];
};

TEST_F(SessionFiles, TrainATransformerOnText) {
  EXPECT_EQ(preflight(file).message, "");
  train();
  ASSERT_EQ(ends[0].how, ending::completed) << ends[0].reason;
  EXPECT_EQ(ends[0].parameter_checksum, ends[1].parameter_checksum);
  const auto& last = watchers[0].evaluations.back();
  EXPECT_LT(last.test_loss, 1.0) << "nats a byte; guessing among 256 would be 5.5";
  EXPECT_GT(last.test_accuracy, 0.5);
  EXPECT_LE(last.test_accuracy, 1.0);
}

TEST_F(SessionFiles, RefuseToTrainOnDifferentTexts) {
  train("other.txt");
  for (const auto& end : ends) {
    EXPECT_EQ(end.how, ending::failed);
    EXPECT_THAT(end.reason, HasSubstr("the text of rank 1 (digest "));
    EXPECT_THAT(end.reason, HasSubstr("is not that of rank 0 (digest "));
  }
}

TEST_F(SessionFiles, SayWhereAScriptIsMissing) {
  file.path = data.file("cluster.toml");
  file.training.model.name = "script:models/none.pt";
  const auto found = preflight(file);
  EXPECT_EQ(found.field, "training.model");
  EXPECT_EQ(found.message, "there is no file " + data.file("models/none.pt"));
}

} // namespace
} // namespace dynamix::trainer
