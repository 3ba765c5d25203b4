#pragma once

/// Torch's tensors in a policy's file. Includes Torch: internal to policy/.

#include "storage/tensor_file.hpp"

#include <torch/torch.h>

#include <string>

namespace dynamix::policy {

/// float32, float64, int64 or uint8, on the CPU.
storage::tensor_record to_record(std::string name, const torch::Tensor& tensor);
/// A copy of the named tensor when it has the type and shape of `like` and only finite numbers. Returns an empty
/// string, or what is wrong.
std::string read_tensor(const storage::tensor_file& file, const std::string& name, const torch::Tensor& like,
                        torch::Tensor& result);

} // namespace dynamix::policy
