#pragma once

/// Named tensors and metadata in the safetensors layout: 8 bytes of little-endian header length, a JSON header
/// ({"name": {"dtype", "shape", "data_offsets"}, "__metadata__": {string: string}}), then the raw data.
/// Plain data, never code. The metadata entry "crc32" (8 lower-case hexadecimal digits, always present) guards
/// the rest of the metadata and the names, types, shapes and data of the tensors.
/// Layout: huggingface/safetensors, "Format" section of its README.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dynamix::storage {

// Limits that `decode` holds a file to, and `encode` its caller.
inline constexpr std::size_t max_header_bytes = 8U << 20;
inline constexpr std::size_t max_tensors = 1U << 16;
inline constexpr std::size_t max_rank = 8;

enum class element_type : std::uint8_t { f32, f64, i64, u8 };

struct tensor_record {
  std::string name;
  element_type type = element_type::f32;
  std::vector<std::int64_t> shape;
  std::vector<std::uint8_t> data; ///< row-major, little-endian; as many bytes as type and shape say
};

struct tensor_file {
  std::map<std::string, std::string> metadata; ///< without "crc32"
  std::vector<tensor_record> tensors;          ///< unique names

  const tensor_record* find(const std::string& name) const;
};

std::size_t element_size(element_type type);

/// Whether `record` (null: there is none of that name) holds a tensor of this type and shape. Returns an empty string,
/// or what is wrong.
std::string check_tensor(const tensor_record* record, const std::string& name, element_type type,
                         std::span<const std::int64_t> shape);

/// The bytes of a file. Its names are unique and not empty, every text is UTF-8, sizes match
/// types and shapes, and the limits hold; anything else is the caller's mistake and ends the process.
std::vector<std::uint8_t> encode(const tensor_file& file) noexcept;

/// Decodes and checks the layout, the limits and the checksum. The tensors come in the order of their data. Returns an
/// empty string, or what is wrong with the bytes; then `file` is empty.
std::string decode(std::span<const std::uint8_t> bytes, tensor_file& file);

} // namespace dynamix::storage
