#pragma once

/// What targets share: what must hold, and tensor files that a fuzzer can write.

#include "storage/tensor_file.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace dynamix::fuzz {

using byte_span = std::span<const std::uint8_t>;

/// Ends the process, with `what`, where it does not hold.
void require(bool holds, const char* what);

std::string text_of(byte_span bytes);

/// `file` with the right checksum and other contents: lines "m KEY VALUE" and "t NAME TYPE EXTENT...", each for what it
/// names or what is new, "d NAME" without it, an empty line, and bytes that fill the tensors again and again.
storage::tensor_file described_file(byte_span bytes, storage::tensor_file file = {});

/// Whether `storage::encode` takes the names before the empty line.
bool has_plain_names(byte_span bytes);

} // namespace dynamix::fuzz
