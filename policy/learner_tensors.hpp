#pragma once

/// Torch's tensors as records of a file. Includes Torch: for policy/ and trainer/.

#include "storage/tensor_file.hpp"

#include <torch/torch.h>

#include <string>

namespace dynamix::policy {

/// Of float32, float64, int64 and uint8; throws c10::Error for others.
storage::element_type element_type_of(const torch::Tensor& tensor);
/// A copy of a tensor's values, of any device.
storage::tensor_record to_record(std::string name, const torch::Tensor& tensor);
/// Whether `record` (null: missing) could be copied into `like`. Returns an empty string, or what is wrong.
std::string check_record(const storage::tensor_record* record, const std::string& name, const torch::Tensor& like);
/// A copy of the named tensor when it has the type and shape of `like` and only finite numbers. Returns an empty
/// string, or what is wrong.
std::string read_tensor(const storage::tensor_file& file, const std::string& name, const torch::Tensor& like,
                        torch::Tensor& result);

} // namespace dynamix::policy
