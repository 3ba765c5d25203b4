#pragma once

/// Named tensors and metadata in the safetensors layout: 8 bytes of little-endian header length, a JSON header
/// ({"name": {"dtype", "shape", "data_offsets"}, "__metadata__": {string: string}}), then the raw data.
/// Plain data, never code. The metadata entry "crc32" guards names, shapes and data.
/// Layout: huggingface/safetensors, "Format" section of its README.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace dynamix::storage {

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
std::vector<std::uint8_t> encode(const tensor_file& file);

/// Decodes and checks the layout, the limits and the checksum. Returns an empty string, or what is wrong with the bytes.
std::string decode(std::span<const std::uint8_t> bytes, tensor_file& file);

} // namespace dynamix::storage
