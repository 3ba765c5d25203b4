/// The built-in models against torchvision's, PyTorch's, or a plain restatement in Python, with the same weights.

#include "storage/atomic_file.hpp"
#include "tests/temporary_directory.hpp"
#include "tests/unit/has_torch.hpp"
#include "trainer/model.hpp"
#include "trainer/tensor_records.hpp"

#include <gtest/gtest.h>

#include <cstdlib>

namespace dynamix::trainer {
namespace {

using cluster::model_kind;
using cluster::normalization_kind;

constexpr dataset_shape images = {.channels = 3, .height = 32, .width = 32, .classes = 10};

TEST(Reference, ModelsGiveWhatTheirPythonCounterpartsGive) {
  if (!has_torch(PYTHON))
    GTEST_SKIP() << PYTHON << " has no torch (apt-get install python3-torch)";
  const temporary_directory directory;
  std::string files;
  for (const auto& options : {
           model_options{.images = shape_of(cluster::dataset_kind::fashion_mnist)}, // lenet
           model_options{.kind = model_kind::ncf, .images = {.classes = 5, .users = 40, .items = 30}},
           model_options{.kind = model_kind::vgg13, .width = 0.125, .images = images},
           model_options{.kind = model_kind::vgg11, .width = 0.25, .images = images},
           model_options{
               .kind = model_kind::vgg16, .width = 0.125, .normalization = normalization_kind::group, .images = images},
           model_options{.kind = model_kind::vgg19, .width = 0.125, .images = images},
           model_options{.kind = model_kind::resnet18, .images = images},
           model_options{.kind = model_kind::resnet34, .width = 0.25, .images = images},
           model_options{.kind = model_kind::resnet50, .width = 0.25, .images = images},
           model_options{
               .kind = model_kind::transformer, .width = 0.125, .images = {.classes = 50, .context = 12}, .layers = 3},
           model_options{
               .kind = model_kind::lstm, .width = 0.125, .images = {.classes = 50, .context = 12}, .layers = 2},
       }) {
    auto model = build_model(options);
    torch::manual_seed(5);
    {
      const torch::NoGradGuard no_gradients;
      for (auto& parameter : model->parameters())
        if (parameter.dim() == 1) // norms and biases begin as ones and zeros
          parameter.add_(0.1 * torch::randn_like(parameter));
    }
    const auto inputs = options.images.context > 0 ? torch::randint(50, {2, 12})
                        : options.images.users > 0
                            ? torch::randint(30, {7, 6})
                            : torch::randn({2, options.images.channels, options.images.height, options.images.width});
    const auto logits = model->forward(inputs);
    logits.square().mean().backward();
    storage::tensor_file file{.metadata = {{"model", std::string(cluster::to_string(options.kind))},
                                           {"width", std::to_string(options.width)},
                                           {"layers", std::to_string(options.layers)},
                                           {"heads", std::to_string(options.heads)}},
                              .tensors = model_records(*model)};
    file.tensors.push_back(to_record("inputs", inputs));
    file.tensors.push_back(to_record("logits", logits));
    for (const auto& parameter : model->named_parameters()) {
      const auto& gradient = parameter.value().grad();
      file.tensors.push_back(
          to_record("gradient of " + parameter.key(), gradient.is_sparse() ? gradient.to_dense() : gradient));
    }
    const auto path = directory.file(std::to_string(files.size()));
    ASSERT_EQ(storage::write_file_atomically(path, storage::encode(file)), "");
    files += " " + path;
  }
  const auto said = directory.file("said");
  EXPECT_EQ(std::system((std::string(PYTHON) + " " + SOURCE + "/tests/unit/trainer/reference_models.py" + files +
                         " > " + said + " 2>&1")
                            .c_str()),
            0);
  std::string text;
  EXPECT_EQ(storage::read_file(said, 1 << 20, text), "");
  std::printf("%s", text.c_str());
}

} // namespace
} // namespace dynamix::trainer
