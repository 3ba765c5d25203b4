/// Sessions whose model or text are files that only the hosts have.

#include "session_fixture.hpp"
#include "tests/unit/exchange/stores.hpp"
#include "trainer/checkpoint.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include <fmt/core.h>
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
    storage::splitmix64 random(test_seed(3));
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
    file.arbitrator.policy = cluster::policy_kind::static_batch; // nobody decides
    file.batch.initial = 8;
    set_workers(2);
  }

  /// Two workers, the second of which reads `text`, from a checkpoint on.
  void train(const std::string& text = "", const std::string& resume_from = "") {
    auto others = file;
    if (!text.empty())
      others.training.data_path = data.file(text);
    std::vector<std::jthread> workers;
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      workers.emplace_back([&, rank] {
        auto options = options_of(rank, resume_from);
        options.file = rank == 0 ? &file : &others;
        session training(options, time);
        decision_slot decisions(rank, 1, 1024);
        exchange::interruption never;
        ends[rank] = training.train(place_of(rank, {0, 1}), meeting, decisions, watchers[rank], never);
      });
  }

  /// Two workers from the beginning, to the same end.
  void train_equally() {
    EXPECT_EQ(preflight(file).message, "");
    train();
    ASSERT_EQ(ends[0].how, ending::completed) << ends[0].reason;
    EXPECT_EQ(ends[0].parameter_checksum, ends[1].parameter_checksum);
  }

  exchange::memory_store meeting;
  steady_clock time;
  outcome ends[2];
  evaluation_observer watchers[2];
};

TEST_F(SessionFiles, TrainATransformerOnText) {
  train_equally();
  const auto& last = watchers[0].evaluations.back();
  EXPECT_LT(last.test_loss, 1.0) << "nats a byte; guessing among 256 would be 5.5";
  EXPECT_GT(last.test_accuracy, 0.5);
  EXPECT_LE(last.test_accuracy, 1.0);
}

TEST_F(SessionFiles, ResumeAnLstmOnBytePairsWithTheSameBits) {
  file.training.model = cluster::model_kind::lstm;
  file.training.vocabulary = cluster::vocabulary_kind::byte_pairs;
  file.training.vocabulary_size = 600;
  file.training.context = 4;
  file.training.sampled_softmax = 50;
  file.training.compression = cluster::compression_kind::lhc;
  file.training.ema_samples = 200;
  file.training.loader_threads = 1;
  file.training.learning_rate = 0.01;
  file.training.checkpoint_every_epochs = 0.7;
  file.run.keep_checkpoints = 100;
  train_equally();
  EXPECT_GT(watchers[0].evaluations.back().test_accuracy, 0.12)
      << "one of six words would be 0.17, one of 600 tokens 0";
  const auto whole = ends[0];
  const auto loss = watchers[0].evaluations.back().test_loss;
  const auto files = checkpoints_up_to(checkpoints.path(), whole.steps - 1);
  ASSERT_GE(files.size(), 3U);
  for (const auto& path : files) {
    ++generation; // another rendezvous
    train("", path);
    EXPECT_EQ(ends[0].how, ending::completed) << ends[0].reason;
    EXPECT_EQ(ends[0].parameter_checksum, whole.parameter_checksum) << path;
    EXPECT_EQ(watchers[0].evaluations.back().test_loss, loss) << path;
  }
}

class ResumedModel : public SessionFiles, public testing::WithParamInterface<const char*> {
protected:
  ResumedModel() {
    using cluster::dataset_kind;
    auto& training = file.training;
    const std::string model = GetParam();
    training.model.name = model == "script" ? "script:" + script() : model;
    training.width = model == "lenet" || model == "ncf" || model == "script" ? 1 : 0.0625;
    training.micro_batch = 3;
    training.epochs = 0.3;
    training.checkpoint_every_epochs = 0.1;
    if (model == "ncf") {
      training.dataset = dataset_kind::interactions;
      training.interactions_scale = 0.001;
      training.epochs = 0.006;
      training.checkpoint_every_epochs = 0.002;
    } else if (model != "transformer" && model != "lstm") {
      training.dataset =
          model == "lenet" || model == "script" ? dataset_kind::fashion_mnist : dataset_kind::fashion_mnist_32;
      training.data_path = data.path();
      training.augmentation = cluster::augmentation_kind::crop_flip;
    }
    file.run.keep_checkpoints = 100;
  }

  /// A module of a user's own.
  std::string script() const {
    torch::jit::Module module("own");
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(3);
    module.register_parameter("weight", torch::randn({10, 784}, generator).mul_(0.03).requires_grad_(), false);
    module.register_attribute("training", c10::BoolType::get(), true);
    module.define("def forward(self, images):\n    return torch.matmul(images.flatten(1), self.weight.t())\n");
    module.save(data.file("own.pt"));
    return data.file("own.pt");
  }
};

TEST_P(ResumedModel, HasTheBitsOfTheWholeRunWithPartsAndAugmentation) {
  train_equally();
  const auto whole = ends[0];
  const auto loss = watchers[0].evaluations.back().test_loss;
  const auto files = checkpoints_up_to(checkpoints.path(), whole.steps - 1);
  ASSERT_FALSE(files.empty());
  ++generation; // another rendezvous
  train("", files.back());
  ASSERT_EQ(ends[0].how, ending::completed) << ends[0].reason;
  EXPECT_EQ(ends[0].steps, whole.steps);
  EXPECT_EQ(ends[0].parameter_checksum, whole.parameter_checksum) << files.back();
  EXPECT_EQ(watchers[0].evaluations.back().test_loss, loss);
}

INSTANTIATE_TEST_SUITE_P(, ResumedModel,
                         testing::Values("lenet", "vgg11", "vgg13", "vgg16", "vgg19", "resnet18", "resnet34",
                                         "resnet50", "transformer", "lstm", "ncf", "script"),
                         [](const auto& tested) { return tested.param; });

TEST_F(SessionFiles, TrainNcfOnTheRatingsOfAFile) {
  const auto ratings = [](std::uint32_t users) {
    std::string text = "userId,movieId,rating,timestamp\n";
    for (std::uint32_t user = 1; user <= users; ++user)
      for (std::uint32_t item = user % 3 + 1; item < 100; item += 3)
        text += fmt::format("{},{},3.5,{}\n", user, item * 10, 900'000'000 + item * 31 % 100);
    return text;
  };
  data.write("ratings.csv", ratings(60));
  data.write("more.csv", ratings(61));
  file.training.model = cluster::model_kind::ncf;
  file.training.dataset = cluster::dataset_kind::movielens;
  file.training.data_path = data.path();
  file.training.epochs = 10;
  train_equally();
  EXPECT_GT(watchers[0].evaluations.back().test_accuracy, 0.5) << "each user likes every third";
  ++generation;
  train("more.csv");
  EXPECT_EQ(ends[1].how, ending::failed);
  EXPECT_THAT(ends[1].reason, HasSubstr("the rating file of rank 1 (digest "));
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
