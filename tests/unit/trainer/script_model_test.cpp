#include "storage/splitmix64.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/has_torch.hpp"
#include "tests/unit/seeds.hpp"
#include "trainer/batch_loader.hpp"
#include "trainer/model.hpp"
#include "trainer/optimizer.hpp"
#include "trainer/script_model.hpp"
#include "trainer/tensor_records.hpp"
#include "trainer/training_step.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/script.h>

#include <cstdlib>
#include <numeric>

namespace dynamix::trainer {
namespace {

using testing::HasSubstr;

constexpr auto perceptron_code = R"(
def forward(self, images):
    hidden = torch.relu(torch.matmul(images.flatten(1), self.first.t()) + self.offset)
    return torch.matmul(hidden, self.second.t())
)";

/// 28x28 pixels, 12 units, 10 classes.
torch::nn::Sequential same_in_cpp() {
  torch::nn::Sequential layers(torch::nn::Flatten(), torch::nn::Linear(784, 12), torch::nn::ReLU(),
                               torch::nn::Linear(torch::nn::LinearOptions(12, 10).bias(false)));
  const torch::NoGradGuard no_gradients;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(test_seed(7));
  for (auto& parameter : layers->parameters())
    parameter.uniform_(-0.1, 0.1, generator);
  return layers;
}

torch::jit::Module perceptron(const char* code = perceptron_code) {
  const auto parameters = same_in_cpp()->parameters();
  torch::jit::Module script("perceptron");
  script.register_parameter("first", parameters[0].detach().clone().requires_grad_(), false);
  script.register_parameter("offset", parameters[1].detach().clone().requires_grad_(), false);
  script.register_parameter("second", parameters[2].detach().clone().requires_grad_(), false);
  script.register_attribute("training", c10::BoolType::get(), true);
  script.define(code);
  return script;
}

class ScriptModel : public testing::Test {
protected:
  model_options saved(const torch::jit::Module& script) const {
    script.save(directory.file("model.pt"));
    return options();
  }
  model_options options() const {
    return {.kind = cluster::model_kind::script,
            .images = shape_of(cluster::dataset_kind::fashion_mnist),
            .script = directory.file("model.pt")};
  }

  temporary_directory directory;
};

dataset random_images(std::uint32_t count) {
  dataset data{shape_of(cluster::dataset_kind::fashion_mnist), {}, {}};
  storage::splitmix64 random(test_seed(3));
  for (std::uint32_t sample = 0; sample < count; ++sample)
    data.labels.push_back(static_cast<std::uint8_t>(random.below(10)));
  for (std::uint32_t pixel = 0; pixel < count * data.image_bytes(); ++pixel)
    data.images.push_back(static_cast<std::uint8_t>(random.below(256)));
  return data;
}

/// The loss of every step.
std::vector<double> train(torch::nn::Sequential model, double learning_rate = 0.1) {
  const auto data = random_images(64);
  batch_loader loader(data, measure_channels(data));
  const auto peers = exchange::make_silent_group(2);
  steady_clock time;
  const exchange::interruption never;
  training_step step(model, loader, *peers, time, never, {});
  cluster::training training;
  training.learning_rate = learning_rate;
  optimizer descent(training, step.parameters());
  std::vector<std::uint32_t> samples(32);
  std::vector<double> losses;
  for (std::uint32_t number = 0; number < 20; ++number) {
    std::iota(samples.begin(), samples.end(), number % 2 * 32);
    losses.push_back(step.run(samples, 1).loss);
    descent.step();
  }
  return losses;
}

TEST_F(ScriptModel, TrainsAsTheSameModelInCppDoes) {
  ASSERT_EQ(check_script(saved(perceptron())), "");
  const auto ours = train(build_model(options()));
  const auto cpp = train(same_in_cpp());
  ASSERT_EQ(ours.size(), cpp.size());
  for (std::size_t step = 0; step < ours.size(); ++step)
    EXPECT_NEAR(ours[step], cpp[step], 1e-4 * cpp[step]) << step;
  EXPECT_LT(ours.back(), 0.9 * ours.front());
}

TEST_F(ScriptModel, IsRestoredFromItsRecords) {
  const auto saved_options = saved(perceptron());
  auto source = build_model(saved_options);
  auto target = build_model(saved_options);
  train(source);
  EXPECT_NE(model_checksum(*source), model_checksum(*target));
  ASSERT_EQ(restore_model(model_records(*source), *target), "");
  const auto images = torch::ones({3, 1, 28, 28});
  EXPECT_TRUE(torch::equal(source->forward(images), target->forward(images)))
      << "the script itself computes with what was restored";
}

TEST_F(ScriptModel, KnowsATiedWeightOnce) {
  auto script = perceptron();
  script.register_parameter("again", script.attr("first").toTensor(), false);
  EXPECT_EQ(build_model(saved(script))->parameters().size(), 3U);
}

TEST_F(ScriptModel, FollowsTrainingAndEvaluation) {
  auto script = perceptron(R"(
def forward(self, images):
    hidden = torch.matmul(images.flatten(1), self.first.t()) + self.offset
    if self.training:
        hidden = hidden * 0.0
    return torch.matmul(hidden, self.second.t())
)");
  script.train(true);
  auto model = build_model(saved(script));
  const auto images = torch::ones({1, 1, 28, 28});
  model->train(true);
  EXPECT_EQ(model->forward(images).abs().sum().item<float>(), 0);
  model->eval();
  EXPECT_NE(model->forward(images).abs().sum().item<float>(), 0);
}

TEST_F(ScriptModel, SaysWhatIsWrongWithAFile) {
  EXPECT_THAT(check_script(options()), HasSubstr("there is no file "));
  directory.write("model.pt", "no module");
  EXPECT_THAT(check_script(options()), HasSubstr("model.pt is no TorchScript module, as torch.jit.script"));
}

TEST_F(ScriptModel, SaysWhatCannotBeTrained) {
  torch::jit::Module empty("empty");
  empty.define("def forward(self, x):\n    return x\n");
  EXPECT_THAT(check_script(saved(empty)), HasSubstr("it has no parameters"));

  auto frozen = perceptron();
  frozen.register_parameter("frozen", torch::zeros({2}), false);
  EXPECT_THAT(check_script(saved(frozen)), HasSubstr("its parameter frozen requires no gradient"));

  auto half = perceptron();
  half.register_parameter("half", torch::zeros({2}, torch::kFloat16).requires_grad_(), false);
  EXPECT_THAT(check_script(saved(half)), HasSubstr("its parameter half is Half; all must be float32"));

  auto normed = perceptron();
  normed.register_buffer("running_mean", torch::zeros({12}));
  EXPECT_THAT(check_script(saved(normed)), HasSubstr("its buffer running_mean is a running statistic, as batch norm"));

  auto masked = perceptron();
  masked.register_buffer("mask", torch::zeros({12}, torch::kBool));
  EXPECT_THAT(check_script(saved(masked)), HasSubstr("its buffer mask is Bool; checkpoints hold float32"));
}

/// Workers ended with different parameters, and nothing said why.
TEST_F(ScriptModel, RefusesABufferThatForwardChanges) {
  auto script = perceptron("def unused(self, x):\n    return x\n");
  script.register_buffer("seen", torch::zeros({1}));
  script.register_buffer("kept", torch::ones({1}));
  script.define(R"(
def forward(self, images):
    if self.training:
        self.seen.add_(images.abs().mean())
    hidden = torch.relu(torch.matmul(images.flatten(1), self.first.t()) + self.offset)
    return torch.matmul(hidden, self.second.t()) * self.kept
)");
  EXPECT_THAT(check_script(saved(script)), HasSubstr("its forward changes its buffer seen in training"));
}

/// As a torch that has one more than this would have written it.
TEST_F(ScriptModel, NamesAnOperatorThatThisTorchDoesNotHave) {
  saved(perceptron(R"(
def forward(self, images):
    hidden = torch.selu(torch.matmul(images.flatten(1), self.first.t()) + self.offset)
    return torch.matmul(hidden, self.second.t())
)"));
  ASSERT_EQ(check_script(options()), "");
  ASSERT_EQ(
      std::system((std::string("python3 -c '") +
                   "import sys, zipfile\n"
                   "source = zipfile.ZipFile(sys.argv[1])\n"
                   "target = zipfile.ZipFile(sys.argv[2], \"w\", zipfile.ZIP_STORED)\n"
                   "for each in source.infolist():\n"
                   "    target.writestr(each.filename, source.read(each).replace(b\"torch.selu\", b\"torch.sulu\"))\n"
                   "target.close()' " +
                   directory.file("model.pt") + " " + directory.file("newer.pt"))
                      .c_str()),
      0);
  auto newer = options();
  newer.script = directory.file("newer.pt");
  EXPECT_THAT(check_script(newer),
              testing::AllOf(HasSubstr("newer.pt: it uses the operator aten::sulu, which the Torch"),
                             HasSubstr("Save it with torch " TORCH_VERSION)));
}

TEST_F(ScriptModel, SaysWhichShapesItExpects) {
  auto wanted = saved(perceptron());
  wanted.images.classes = 100;
  EXPECT_THAT(check_script(wanted),
              HasSubstr("for float32 of shape [2, 1, 28, 28] it gives [2, 10], expected logits of "
                        "shape [2, 100]"));
  wanted.images = shape_of(cluster::dataset_kind::cifar10);
  EXPECT_THAT(check_script(wanted), HasSubstr("it does not take float32 of shape [2, 3, 32, 32]: "));
}

TEST_F(ScriptModel, OfPythonTrains) {
  const std::string python = EXPORT_PYTHON;
  if (!has_torch(python))
    GTEST_SKIP() << python << " has no torch (apt-get install python3-torch)";
  ASSERT_EQ(std::system((python + " " SOURCE "/tests/unit/trainer/export_model.py " + directory.path() +
                         " residual sdpa multihead encoder rms_norm")
                            .c_str()),
            0);
  auto wanted = options();
  for (const auto* kind : {"sdpa", "multihead", "encoder", "rms_norm", "residual"}) {
    wanted.script = directory.file(std::string(kind) + ".pt");
    EXPECT_EQ(check_script(wanted), "") << kind;
  }
  const auto losses = train(build_model(wanted), 0.003);
  EXPECT_LT(losses.back(), 0.9 * losses.front());
}

} // namespace
} // namespace dynamix::trainer
