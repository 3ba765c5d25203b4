#pragma once

#include "policy/learner_tensors.hpp"
#include "storage/tensor_file.hpp"

#include <torch/torch.h>

#include <string>
#include <vector>

namespace dynamix::trainer {

using policy::check_record;
using policy::to_record;

/// A tensor on the CPU that owns a copy of the record's values.
torch::Tensor to_tensor(const storage::tensor_record& record);

/// The parameters and buffers of a model under their dotted names.
std::vector<storage::tensor_record> model_records(const torch::nn::Module& model);

/// Copies records into a model. Returns an empty string, or which name, type or shape does not match; then the model is
/// as it was.
std::string restore_model(const std::vector<storage::tensor_record>& records, torch::nn::Module& model);

/// FNV-1a over the bytes of all parameters and buffers in the model's order: equal on all ranks exactly when the models
/// are.
std::uint64_t model_checksum(const torch::nn::Module& model);

} // namespace dynamix::trainer
