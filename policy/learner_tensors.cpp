#include "policy/learner_tensors.hpp"

#include <cstring>
#include <utility>

namespace dynamix::policy {
storage::element_type element_type_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
  case torch::kFloat32:
    return storage::element_type::f32;
  case torch::kFloat64:
    return storage::element_type::f64;
  case torch::kInt64:
    return storage::element_type::i64;
  case torch::kUInt8:
    return storage::element_type::u8;
  default:
    TORCH_CHECK(false, "a tensor of type ", tensor.scalar_type(), " cannot be stored");
  }
}

storage::tensor_record to_record(std::string name, const torch::Tensor& tensor) {
  const auto plain = tensor.detach().to(torch::kCPU).contiguous();
  const auto* bytes = static_cast<const std::uint8_t*>(plain.data_ptr());
  return {.name = std::move(name),
          .type = element_type_of(plain),
          .shape = plain.sizes().vec(),
          .data = {bytes, bytes + plain.nbytes()}};
}

std::string check_record(const storage::tensor_record* record, const std::string& name, const torch::Tensor& like) {
  return check_tensor(record, name, element_type_of(like), {like.sizes().begin(), like.sizes().size()});
}

std::string read_tensor(const storage::tensor_file& file, const std::string& name, const torch::Tensor& like,
                        torch::Tensor& result) {
  const auto* record = file.find(name);
  if (auto wrong = check_record(record, name, like); !wrong.empty())
    return wrong;
  const auto& data = record->data;
  result = torch::empty_like(like, torch::TensorOptions().requires_grad(false));
  if (!data.empty())
    std::memcpy(result.data_ptr(), data.data(), data.size());
  if (!result.isfinite().all().item<bool>())
    return "the tensor \"" + name + "\" has a number that is not finite";
  return {};
}

} // namespace dynamix::policy
