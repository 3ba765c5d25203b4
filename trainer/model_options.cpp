#include "trainer/model_options.hpp"

#include <fmt/core.h>

namespace dynamix::trainer {

model_options options_of(const cluster::training& training, std::uint64_t seed) {
  return {training.model,
          training.width,
          training.normalization,
          shape_of(training.dataset),
          seed,
          interactions_shape_of(training.interactions_scale)};
}

std::string check_model_fits(const cluster::training& training) {
  const bool chooses = training.dataset == cluster::dataset_kind::interactions;
  if (chooses != (training.model == cluster::model_kind::ncf))
    return chooses ? fmt::format("{} needs images; interactions take ncf", cluster::to_string(training.model))
                   : fmt::format("ncf needs the data set interactions; {} has images",
                                 cluster::to_string(training.dataset));
  const auto shape = shape_of(training.dataset);
  const auto has = fmt::format("; {} has {}x{}", cluster::to_string(training.dataset), shape.height, shape.width);
  switch (training.model) {
  case cluster::model_kind::lenet:
    if (shape.height != shape.width || (shape.height != 28 && shape.height != 32))
      return "lenet needs images of 28x28 or 32x32 pixels" + has;
    return {};
  case cluster::model_kind::vgg11:
    // Five poolings, each of which halves the image.
    if (shape.height < 32 || shape.width < 32)
      return "vgg11 needs images of at least 32x32 pixels" + has + "; use lenet";
    return {};
  case cluster::model_kind::ncf:
    return {};
  }
  return "unknown model";
}

} // namespace dynamix::trainer
