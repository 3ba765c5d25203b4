#include "trainer/model.hpp"

#include "client/random.hpp"
#include "trainer/initialisation.hpp"
#include "trainer/lenet.hpp"
#include "trainer/lstm.hpp"
#include "trainer/ncf.hpp"
#include "trainer/resnet.hpp"
#include "trainer/script_model.hpp"
#include "trainer/transformer.hpp"
#include "trainer/vgg.hpp"

#include <algorithm>
#include <stdexcept>

namespace dynamix::trainer {
namespace {

using cluster::model_kind;

struct model_row {
  model_kind kind;
  torch::nn::Sequential (*build)(const model_options& options);
  void (*draw)(torch::nn::Module& model, at::Generator& generator); ///< null: the weights come with the model
};

constexpr model_row rows[] = {
    {model_kind::lenet, build_lenet, draw_default},
    {model_kind::vgg11, build_vgg, draw_he},
    {model_kind::vgg13, build_vgg, draw_he},
    {model_kind::vgg16, build_vgg, draw_he},
    {model_kind::vgg19, build_vgg, draw_he},
    {model_kind::resnet18, build_resnet, draw_he},
    {model_kind::resnet34, build_resnet, draw_he},
    {model_kind::resnet50, build_resnet, draw_he},
    {model_kind::transformer, build_transformer, draw_transformer},
    {model_kind::lstm, build_lstm, draw_default},
    {model_kind::ncf, build_ncf, draw_default},
    {model_kind::script, build_script, nullptr},
};

} // namespace

torch::nn::Sequential build_model(const model_options& options) {
  const auto* const row = std::ranges::find(rows, options.kind, &model_row::kind);
  if (row == std::end(rows))
    throw std::logic_error("there is no such model");
  auto layers = row->build(options);
  if (row->draw != nullptr) {
    auto generator =
        at::make_generator<at::CPUGeneratorImpl>(client::derive_seed(options.seed, 0x6d6f64656cU)); // "model"
    row->draw(*layers, generator);
  }
  return layers;
}

} // namespace dynamix::trainer
