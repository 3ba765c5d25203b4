#pragma once

/// TensorBoard's event files, as far as scalars need them. Pure: bytes out. Where the format is written down:
///
///   a record   uint64 length, uint32 masked CRC of the length's 8 bytes, the data, uint32 masked CRC of the data, all
///              little-endian; mask: ((crc >> 15) | (crc << 17)) + 0xa282ead8 (TensorFlow's guide "TFRecords format
///              details", r1.10, api_guides/python/python_io.md; tensorflow/core/lib/hash/crc32c.h)
///   CRC        CRC-32C, Castagnoli's polynomial 0x1EDC6F41 reflected (RFC 3720, appendix B.4)
///   the data   one Event: 1 wall_time double, 2 step int64, 3 file_version string, 5 summary
///              (tensorflow/core/util/event.proto); Summary: 1 value, repeated; Value: 1 tag string, 2 simple_value
///              float (tensorflow/core/framework/summary.proto)
///   encoding   tag = field << 3 | wire type; 0 varint, 1 64 bits, 2 length-delimited, 5 32 bits (protobuf's encoding
///              guide)
///   the first  record of a file has file_version "brain.Event:2" (tensorflow/core/util/events_writer.cc,
///   kVersionPrefix
///              and kCurrentVersion); the name is <prefix>.out.tfevents.<seconds>.<host> (the same file)

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace dynamix::node {

struct scalar {
  std::string tag; ///< "accuracy/test"
  double value = 0;
};

std::uint32_t crc32c(std::string_view bytes);
/// A whole record around `data`.
std::string to_record(std::string_view data);
/// The first record's data.
std::string version_event(double wall_seconds);
/// Scalars of one moment; those that are not finite are left out. Empty where none is left.
std::string scalar_event(double wall_seconds, std::uint64_t step, std::span<const scalar> scalars);

} // namespace dynamix::node
