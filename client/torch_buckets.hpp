#pragma once

/// Of torch.hpp: gradients in flat tensors, as the members sum them.

#include <torch/torch.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace dynamix::detail {

/// Of parameters of one type and device.
struct bucket {
  std::vector<torch::Tensor> parameters = {};
  torch::Tensor whole = {};
  torch::Tensor values = {};  ///< of `whole`: the gradients, zeros where backward has not reached a parameter
  torch::Tensor present = {}; ///< and behind them one number for each parameter: above 0 where it has a gradient
  bool is_complete = true;    ///< all have one on this member
};

inline constexpr std::size_t bucket_bytes = std::size_t{25} << 20;

inline void fill(bucket& made, bool counts) {
  std::vector<torch::Tensor> parts;
  std::vector<double> present;
  std::int64_t numbers = 0;
  for (const auto& parameter : made.parameters) {
    const auto& gradient = parameter.grad();
    parts.push_back(gradient.defined() ? gradient.reshape({-1})
                                       : torch::zeros({parameter.numel()}, parameter.options()));
    present.push_back(counts && gradient.defined() ? 1 : 0);
    made.is_complete = made.is_complete && present.back() > 0;
    numbers += parameter.numel();
  }
  parts.push_back(torch::tensor(present, torch::kFloat64).to(made.parameters[0].options()));
  made.whole = torch::cat(parts);
  made.values = made.whole.narrow(0, 0, numbers);
  made.present = made.whole.narrow(0, numbers, static_cast<std::int64_t>(present.size()));
}

/// The same layout on all members. `counts`: this one has samples; what its stand-in has used has no gradient by that.
inline std::vector<bucket> pack(const std::vector<torch::Tensor>& parameters, bool counts) {
  std::vector<bucket> made;
  std::size_t bytes = 0;
  for (const auto& parameter : parameters) {
    if (!parameter.requires_grad())
      continue;
    if (made.empty() || made.back().parameters[0].scalar_type() != parameter.scalar_type() ||
        made.back().parameters[0].device() != parameter.device() || bytes + parameter.nbytes() > bucket_bytes) {
      made.emplace_back();
      bytes = 0;
    }
    made.back().parameters.push_back(parameter);
    bytes += parameter.nbytes();
  }
  for (auto& each : made)
    fill(each, counts);
  return made;
}

/// A parameter that no sample of the joined batch has used has no gradient: by one of zeros an optimiser with momentum
/// or weight decay moves it.
inline void unpack(bucket& of) {
  const auto present = of.is_complete ? torch::Tensor() : of.present.to(torch::kCPU, torch::kFloat64);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < of.parameters.size(); ++i) {
    auto& parameter = of.parameters[i];
    auto& gradient = parameter.mutable_grad();
    if (present.defined() && present[static_cast<std::int64_t>(i)].item<double>() <= 0) {
      gradient = torch::Tensor();
    } else {
      if (!gradient.defined())
        gradient = torch::empty_like(parameter);
      gradient.copy_(of.values.narrow(0, offset, parameter.numel()).view(parameter.sizes()));
    }
    offset += parameter.numel();
  }
}

} // namespace dynamix::detail
