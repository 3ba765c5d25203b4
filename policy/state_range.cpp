#include "policy/state_range.hpp"

#include "policy/state.hpp"
#include "storage/tensor_file.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace dynamix::policy {
namespace {

std::vector<float> numbers_of(const storage::tensor_file& file, const char* name) {
  const auto* record = file.find(name);
  if (record == nullptr || record->type != storage::element_type::f32 ||
      record->data.size() != state_size() * sizeof(float))
    return {};
  std::vector<float> numbers(state_size());
  std::memcpy(numbers.data(), record->data.data(), record->data.size());
  return numbers;
}

} // namespace

state_range trained_range(std::span<const std::uint8_t> parameters) {
  storage::tensor_file file;
  if (parameters.empty() || !storage::decode(parameters, file).empty())
    return {};
  state_range range{.low = numbers_of(file, "range.low"), .high = numbers_of(file, "range.high")};
  const auto in_order = [](float low, float high) { return low <= high && std::isfinite(low) && std::isfinite(high); };
  if (range.low.empty() || range.high.empty() || !std::ranges::equal(range.low, range.high, in_order))
    return {};
  return range;
}

} // namespace dynamix::policy
