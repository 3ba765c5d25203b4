#include "trainer/model_options.hpp"

#include "trainer/task.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>

namespace dynamix::trainer {

namespace {

using cluster::model_kind;

/// What a built-in model works on.
task task_of_model(model_kind kind) {
  switch (kind) {
  case model_kind::transformer:
  case model_kind::lstm:
    return task::next_token;
  case model_kind::ncf:
    return task::pair_ranking;
  default:
    return task::classification;
  }
}

const char* needs(model_kind kind) {
  switch (task_of_model(kind)) {
  case task::next_token:
    return "the data set text";
  case task::pair_ranking:
    return "the data set interactions or movielens";
  case task::classification:
    break;
  }
  return "a data set of images";
}

const char* offers(cluster::dataset_kind kind) {
  switch (task_of(kind)) {
  case task::next_token:
    return "has tokens, for the models transformer and lstm";
  case task::pair_ranking:
    return "has choices, for the model ncf";
  case task::classification:
    break;
  }
  return "has images";
}

/// Floats of the largest intermediate result for one sample.
double largest_result(const model_options& options) {
  const double pixels = static_cast<double>(options.images.height) * options.images.width;
  const double context = options.images.context;
  switch (options.kind) {
  case model_kind::lstm:
    return context * std::max<double>(options.images.classes, 4.0 * static_cast<double>(units_of(options)));
  case model_kind::transformer:
    return context * std::max({static_cast<double>(options.images.classes), options.heads * context,
                               4.0 * static_cast<double>(units_of(options))});
  case model_kind::resnet50:
    return 256 * options.width * pixels;
  case model_kind::lenet:
  case model_kind::ncf:
    return 1;
  case model_kind::script:
    return std::max(64 * pixels, context * std::max(1024.0, static_cast<double>(options.images.classes)));
  default:
    return 64 * options.width * pixels;
  }
}

} // namespace

model_options options_of(const cluster::training& training, std::uint64_t seed) {
  return {.kind = training.model,
          .width = training.width,
          .normalization = training.normalization,
          .images = shape_of(training),
          .seed = seed,
          .layers = training.layers,
          .heads = training.heads,
          .sampled_softmax = training.sampled_softmax,
          .script = training.model.script_path()};
}

std::int64_t units_of(const model_options& options) {
  constexpr double whole_units = 256;
  const std::int64_t multiple = options.kind == model_kind::lstm ? 8 : options.heads;
  return multiple *
         std::max<std::int64_t>(1, std::llround(whole_units * options.width / static_cast<double>(multiple)));
}

std::uint32_t evaluation_batch_of(const cluster::training& training) {
  constexpr double most = 500;
  constexpr double floats = (std::uint64_t{128} << 20U) / sizeof(float);
  return static_cast<std::uint32_t>(std::clamp(floats / largest_result(options_of(training, 0)), 1.0, most));
}

std::string check_model_fits(const cluster::training& training) {
  const model_kind model = training.model;
  if (model == model_kind::script)
    return {};
  if (task_of_model(model) != task_of(training.dataset))
    return fmt::format("{} needs {}; {} {}", cluster::to_string(model), needs(model),
                       cluster::to_string(training.dataset), offers(training.dataset));
  const auto shape = shape_of(training);
  const auto has = fmt::format("; {} has {}x{}", cluster::to_string(training.dataset), shape.height, shape.width);
  switch (model) {
  case model_kind::lenet:
    if (shape.height != shape.width || (shape.height != 28 && shape.height != 32))
      return "lenet needs images of 28x28 or 32x32 pixels" + has;
    return {};
  case model_kind::vgg11:
  case model_kind::vgg13:
  case model_kind::vgg16:
  case model_kind::vgg19:
    // Five poolings, each of which halves the image.
    if (shape.height < 32 || shape.width < 32)
      return fmt::format("{} needs images of at least 32x32 pixels{}; use lenet{}", cluster::to_string(model), has,
                         training.dataset == cluster::dataset_kind::fashion_mnist ? " or fashion-mnist-32" : "");
    return {};
  default:
    return {};
  }
}

} // namespace dynamix::trainer
