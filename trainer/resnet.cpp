#include "trainer/resnet.hpp"

#include "trainer/convolution.hpp"

#include <array>

namespace dynamix::trainer {

namespace {

namespace nn = torch::nn;

nn::Conv2d convolution_without_bias(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel,
                                    std::int64_t stride) {
  return nn::Conv2d(nn::Conv2dOptions(inputs, outputs, kernel).stride(stride).padding(kernel / 2).bias(false));
}

/// The sum of its input and of two (3x3, 3x3) or three (1x1, 3x3, 1x1) convolutions of it, then ReLU. Where channels or
/// size change, the input passes a 1x1 convolution.
class residual_block final : public nn::Module {
public:
  residual_block(std::int64_t inputs, std::int64_t planes, std::int64_t outputs, std::int64_t stride, bool bottleneck) {
    if (bottleneck) {
      add(inputs, planes, 1, 1);
      add(planes, planes, 3, stride);
      add(planes, outputs, 1, 1);
    } else {
      add(inputs, planes, 3, stride);
      add(planes, outputs, 3, 1);
    }
    if (stride != 1 || inputs != outputs)
      downsample_ = register_module(
          "downsample", nn::Sequential(convolution_without_bias(inputs, outputs, 1, stride), group_norm(outputs)));
  }

  torch::Tensor forward(const torch::Tensor& input) {
    auto output = input;
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      output = norms_[i](convolutions_[i](output));
      if (i + 1 < convolutions_.size())
        output = output.relu_();
    }
    // In place: no step back needs what a norm has given.
    return output.add_(downsample_.is_empty() ? input : downsample_->forward(input)).relu_();
  }

private:
  void add(std::int64_t inputs, std::int64_t outputs, std::int64_t kernel, std::int64_t stride) {
    const auto number = std::to_string(convolutions_.size() + 1);
    convolutions_.push_back(
        register_module("conv" + number, convolution_without_bias(inputs, outputs, kernel, stride)));
    norms_.push_back(register_module("norm" + number, group_norm(outputs)));
  }

  std::vector<nn::Conv2d> convolutions_;
  std::vector<group_norm_layer> norms_;
  nn::Sequential downsample_{nullptr};
};

class resnet final : public nn::Module {
public:
  resnet(const model_options& options, const std::array<int, 4>& blocks, bool bottleneck) {
    const std::int64_t expansion = bottleneck ? 4 : 1;
    auto inputs = scaled(64, options.width);
    convolution_ = register_module("conv1", convolution_without_bias(options.images.channels, inputs, 3, 1));
    norm_ = register_module("norm1", group_norm(inputs));
    for (std::size_t stage = 0; stage < blocks.size(); ++stage) {
      const auto planes = scaled(std::int64_t{64} << stage, options.width);
      nn::Sequential layer;
      for (int block = 0; block < blocks[stage]; ++block) {
        layer->push_back(std::make_shared<residual_block>(inputs, planes, planes * expansion,
                                                          stage > 0 && block == 0 ? 2 : 1, bottleneck));
        inputs = planes * expansion;
      }
      stages_.push_back(register_module("layer" + std::to_string(stage + 1), layer));
    }
    classes_ = register_module("fc", nn::Linear(inputs, options.images.classes));
  }

  torch::Tensor forward(const torch::Tensor& images) {
    auto output = norm_(convolution_(images)).relu_();
    for (auto& stage : stages_)
      output = stage->forward(output);
    return classes_(output.mean({2, 3}));
  }

private:
  nn::Conv2d convolution_{nullptr};
  group_norm_layer norm_{nullptr};
  std::vector<nn::Sequential> stages_;
  nn::Linear classes_{nullptr};
};

} // namespace

nn::Sequential build_resnet(const model_options& options) {
  const bool bottleneck = options.kind == cluster::model_kind::resnet50;
  const std::array<int, 4> blocks =
      options.kind == cluster::model_kind::resnet18 ? std::array{2, 2, 2, 2} : std::array{3, 4, 6, 3};
  nn::Sequential layers;
  layers->push_back(std::make_shared<resnet>(options, blocks, bottleneck));
  return layers;
}

} // namespace dynamix::trainer
