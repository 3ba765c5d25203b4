#include "trainer/tensor_records.hpp"

#include "storage/fnv1a.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace dynamix::trainer {
namespace {

torch::ScalarType scalar_type_of(storage::element_type type) {
  switch (type) {
  case storage::element_type::f32:
    return torch::kFloat32;
  case storage::element_type::f64:
    return torch::kFloat64;
  case storage::element_type::i64:
    return torch::kInt64;
  case storage::element_type::u8:
    return torch::kUInt8;
  }
  TORCH_CHECK(false, "unknown element type");
}

/// Parameters and buffers under their names, in the model's order.
torch::OrderedDict<std::string, torch::Tensor> named_tensors(const torch::nn::Module& model) {
  auto tensors = model.named_parameters();
  tensors.update(model.named_buffers());
  return tensors;
}

const storage::tensor_record* find(const std::vector<storage::tensor_record>& records, const std::string& name) {
  for (const auto& record : records)
    if (record.name == name)
      return &record;
  return nullptr;
}

} // namespace

torch::Tensor to_tensor(const storage::tensor_record& record) {
  auto tensor = torch::empty(record.shape, scalar_type_of(record.type));
  TORCH_CHECK(tensor.nbytes() == record.data.size(), "record ", record.name, " has ", record.data.size(),
              " bytes where its shape needs ", tensor.nbytes());
  std::ranges::copy(record.data, static_cast<std::uint8_t*>(tensor.data_ptr()));
  return tensor;
}

std::vector<storage::tensor_record> model_records(const torch::nn::Module& model) {
  std::vector<storage::tensor_record> records;
  for (const auto& entry : named_tensors(model))
    records.push_back(to_record(entry.key(), entry.value()));
  return records;
}

std::string restore_model(const std::vector<storage::tensor_record>& records, torch::nn::Module& model) {
  const auto tensors = named_tensors(model);
  for (const auto& entry : tensors)
    if (auto problem = check_record(find(records, entry.key()), entry.key(), entry.value()); !problem.empty())
      return problem;
  if (records.size() != tensors.size())
    return fmt::format("it has {} model tensors, expected {}", records.size(), tensors.size());
  const torch::NoGradGuard no_gradients;
  for (const auto& entry : tensors)
    torch::Tensor(entry.value()).copy_(to_tensor(*find(records, entry.key())));
  return {};
}

std::uint64_t model_checksum(const torch::nn::Module& model) {
  storage::fnv1a checksum;
  for (const auto& record : model_records(model))
    checksum.add(record.data);
  return checksum.value();
}

} // namespace dynamix::trainer
