#include "storage/tensor_file.hpp"

#include <nlohmann/json.hpp>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cstdio>
#include <cstring>
#include <fmt/ranges.h>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

namespace dynamix::storage {
namespace {

static_assert(std::endian::native == std::endian::little, "tensor data is copied without swapping its bytes");

using nlohmann::json;

constexpr auto checksum_key = "crc32";
constexpr auto metadata_key = "__metadata__";
constexpr std::size_t length_bytes = 8;
constexpr std::size_t alignment_bytes = 8;

struct type_entry {
  element_type type;
  const char* name;
  std::size_t size;
};
constexpr std::array types = {
    type_entry{element_type::f32, "F32", 4},
    type_entry{element_type::f64, "F64", 8},
    type_entry{element_type::i64, "I64", 8},
    type_entry{element_type::u8, "U8", 1},
};

const type_entry& entry_of(element_type type) {
  const auto found = std::find_if(types.begin(), types.end(), [&](const auto& entry) { return entry.type == type; });
  assert(found != types.end());
  return *found;
}

/// Bytes of a tensor, or nothing when the product does not fit.
std::optional<std::size_t> data_size(element_type type, const std::vector<std::int64_t>& shape) {
  std::size_t size = element_size(type);
  for (const auto extent : shape)
    if (extent < 0 || __builtin_mul_overflow(size, static_cast<std::size_t>(extent), &size))
      return std::nullopt;
  return size;
}

/// CRC-32 of what a file means: every text and list goes in with its length, so that no two files read the same.
class checksum {
public:
  void add(std::span<const std::uint8_t> bytes) {
    add(std::uint64_t{bytes.size()});
    if (!bytes.empty()) // zlib takes a null pointer as the wish to start again
      value_ = ::crc32_z(value_, bytes.data(), bytes.size());
  }
  void add(std::string_view text) { add({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()}); }
  void add(std::uint64_t number) {
    std::array<std::uint8_t, sizeof(number)> bytes;
    std::memcpy(bytes.data(), &number, sizeof(number));
    value_ = ::crc32_z(value_, bytes.data(), bytes.size());
  }
  std::string text() const {
    std::array<char, 9> digits;
    std::snprintf(digits.data(), digits.size(), "%08lx", value_ & 0xffffffffUL);
    return digits.data();
  }

private:
  unsigned long value_ = 0;
};

std::string checksum_of(const tensor_file& file) {
  checksum sum;
  sum.add(std::uint64_t{file.metadata.size()});
  for (const auto& [key, value] : file.metadata) {
    sum.add(key);
    sum.add(value);
  }
  std::map<std::string_view, const tensor_record*> by_name;
  for (const auto& tensor : file.tensors)
    by_name.emplace(tensor.name, &tensor);
  sum.add(std::uint64_t{by_name.size()});
  for (const auto& [name, tensor] : by_name) {
    sum.add(name);
    sum.add(std::string_view(entry_of(tensor->type).name));
    sum.add(std::uint64_t{tensor->shape.size()});
    for (const auto extent : tensor->shape)
      sum.add(static_cast<std::uint64_t>(extent));
    sum.add(std::span(tensor->data));
  }
  return sum.text();
}

json header_of(const tensor_file& file) {
  json metadata = json::object();
  for (const auto& [key, value] : file.metadata)
    metadata[key] = value;
  metadata[checksum_key] = checksum_of(file);

  json header = json::object();
  header[metadata_key] = std::move(metadata);
  std::size_t begin = 0;
  for (const auto& tensor : file.tensors) {
    const auto end = begin + tensor.data.size();
    header[tensor.name] = {
        {"dtype", entry_of(tensor.type).name}, {"shape", json::array()}, {"data_offsets", json::array({begin, end})}};
    for (const auto extent : tensor.shape)
      header[tensor.name]["shape"].push_back(static_cast<std::uint64_t>(extent));
    begin = end;
  }
  return header;
}

/// What `encode` requires of its caller.
bool well_formed(const tensor_file& file) {
  std::set<std::string_view> names = {metadata_key};
  return file.tensors.size() <= max_tensors && !file.metadata.contains(checksum_key) &&
         std::all_of(file.tensors.begin(), file.tensors.end(), [&](const auto& tensor) {
           return !tensor.name.empty() && names.insert(tensor.name).second && tensor.shape.size() <= max_rank &&
                  data_size(tensor.type, tensor.shape) == tensor.data.size();
         });
}

std::string in_quotes(const std::string& text) {
  return '"' + text.substr(0, 100) + '"';
}

std::string read_metadata(const json& entries, tensor_file& file, std::string& expected_checksum) {
  if (!entries.is_object())
    return "its metadata is not an object";
  for (const auto& [key, value] : entries.items()) {
    if (!value.is_string())
      return "its metadata entry " + in_quotes(key) + " is not a string";
    if (key == checksum_key)
      expected_checksum = value.get<std::string>();
    else
      file.metadata.emplace(key, value.get<std::string>());
  }
  return expected_checksum.empty() ? "its metadata has no crc32" : "";
}

/// A tensor, and where its bytes are.
struct placed_tensor {
  tensor_record tensor;
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Reads one entry of the header.
std::string read_entry(const std::string& name, const json& entry, placed_tensor& placed) {
  const auto about = "its tensor " + in_quotes(name) + " ";
  if (name.empty())
    return "it has a tensor without a name";
  if (!entry.is_object() || entry.size() != 3 || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets"))
    return about + "does not have exactly dtype, shape and data_offsets";
  const auto type = std::find_if(types.begin(), types.end(), [&](const auto& t) { return entry["dtype"] == t.name; });
  if (type == types.end())
    return about + "has a dtype other than F32, F64, I64 and U8";
  auto& tensor = placed.tensor;
  tensor.name = name;
  tensor.type = type->type;

  const auto is_size = [](const json& number) {
    return number.is_number_unsigned() && number.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
  };
  const auto& shape = entry["shape"];
  if (!shape.is_array() || shape.size() > max_rank || !std::all_of(shape.begin(), shape.end(), is_size))
    return fmt::format("{}has a shape that is not a list of at most {} sizes", about, max_rank);
  tensor.shape = shape.get<std::vector<std::int64_t>>();

  const auto& offsets = entry["data_offsets"];
  if (!offsets.is_array() || offsets.size() != 2 || !is_size(offsets[0]) || !is_size(offsets[1]))
    return about + "has data_offsets that are not two positions";
  placed.begin = offsets[0].get<std::size_t>();
  placed.end = offsets[1].get<std::size_t>();
  if (placed.begin > placed.end || data_size(tensor.type, tensor.shape) != placed.end - placed.begin)
    return about + "has another size than its dtype and shape say";
  return "";
}

/// Gives the tensors their bytes. They must fill the data without a gap, an overlap or a rest.
std::string take_data(std::vector<placed_tensor> placed, std::span<const std::uint8_t> data, tensor_file& file) {
  std::sort(placed.begin(), placed.end(), [](const auto& left, const auto& right) {
    return std::tie(left.begin, left.end, left.tensor.name) < std::tie(right.begin, right.end, right.tensor.name);
  });
  std::size_t position = 0;
  for (auto& [tensor, begin, end] : placed) {
    if (begin != position || end > data.size())
      return "its tensor " + in_quotes(tensor.name) + " overlaps another, leaves a gap or lies outside of the data";
    const auto bytes = data.subspan(begin, end - begin);
    tensor.data.assign(bytes.begin(), bytes.end());
    file.tensors.push_back(std::move(tensor));
    position = end;
  }
  return position == data.size() ? "" : fmt::format("{} bytes follow its last tensor", data.size() - position);
}

} // namespace

const tensor_record* tensor_file::find(const std::string& name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::size_t element_size(element_type type) {
  return entry_of(type).size;
}

std::string check_tensor(const tensor_record* record, const std::string& name, element_type type,
                         std::span<const std::int64_t> shape) {
  if (record == nullptr)
    return "it has no tensor \"" + name + "\"";
  if (record->type != type)
    return "its tensor \"" + name + "\" has another element type";
  if (!std::ranges::equal(record->shape, shape))
    return fmt::format("its tensor \"{}\" has the shape [{}], expected [{}]", name, fmt::join(record->shape, ", "),
                       fmt::join(shape, ", "));
  std::uint64_t bytes = element_size(type);
  for (const auto length : shape)
    bytes *= static_cast<std::uint64_t>(length);
  if (record->data.size() != bytes)
    return fmt::format("its tensor \"{}\" has {} bytes, expected {}", name, record->data.size(), bytes);
  return {};
}

std::vector<std::uint8_t> encode(const tensor_file& file) noexcept {
  assert(well_formed(file));
  auto header = header_of(file).dump();
  header.resize((header.size() + alignment_bytes - 1) / alignment_bytes * alignment_bytes, ' ');
  assert(header.size() <= max_header_bytes);

  const std::uint64_t header_size = header.size();
  auto size = length_bytes + header.size();
  for (const auto& tensor : file.tensors)
    size += tensor.data.size();
  std::vector<std::uint8_t> bytes(size);
  std::memcpy(bytes.data(), &header_size, length_bytes);
  auto position = std::copy(header.begin(), header.end(), bytes.begin() + length_bytes);
  for (const auto& tensor : file.tensors)
    position = std::copy(tensor.data.begin(), tensor.data.end(), position);
  return bytes;
}

std::string decode(std::span<const std::uint8_t> bytes, tensor_file& file) {
  file = {};
  std::uint64_t header_size = 0;
  if (bytes.size() < length_bytes)
    return "not a tensor file: it is shorter than its first 8 bytes";
  std::memcpy(&header_size, bytes.data(), length_bytes);
  if (header_size > max_header_bytes)
    return fmt::format("not a tensor file: its header would have {} bytes", header_size);
  if (header_size > bytes.size() - length_bytes)
    return "the tensor file is cut off in its header";

  const auto text = bytes.subspan(length_bytes, header_size);
  const auto header = json::parse(text.begin(), text.end(), nullptr, false);
  // The parser takes a zero byte for the end of its input.
  if (!header.is_object() || std::find(text.begin(), text.end(), 0) != text.end())
    return "the tensor file is damaged: its header is not JSON";
  if (!header.contains(metadata_key))
    return "the tensor file is damaged: it has no metadata";
  if (header.size() - 1 > max_tensors)
    return fmt::format("the tensor file is damaged: it has more than {} tensors", max_tensors);

  tensor_file result;
  std::string expected_checksum;
  auto error = read_metadata(header[metadata_key], result, expected_checksum);
  std::vector<placed_tensor> placed;
  for (auto entry = header.begin(); error.empty() && entry != header.end(); ++entry)
    if (entry.key() != metadata_key)
      error = read_entry(entry.key(), entry.value(), placed.emplace_back());
  if (error.empty())
    error = take_data(std::move(placed), bytes.subspan(length_bytes + header_size), result);
  if (error.empty() && checksum_of(result) != expected_checksum)
    error = "its checksum is not that of its contents";
  if (!error.empty())
    return "the tensor file is damaged: " + error;
  file = std::move(result);
  return "";
}

} // namespace dynamix::storage
