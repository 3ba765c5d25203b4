#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dynamix::trainer {

/// The contents of an IDX file of unsigned bytes (http://yann.lecun.com/exdb/mnist, "The IDX file format").
struct idx_file {
  std::vector<std::uint32_t> dimensions; ///< outermost first
  std::vector<std::uint8_t> values;      ///< row-major, as many as the dimensions say
};

/// Reads `path`, or `path`.gz when there is no such file, packed or not. `rank` is the number of dimensions that it
/// must have. Returns an empty string, or what is wrong.
std::string read_idx_file(const std::string& path, std::uint8_t rank, idx_file& file);

} // namespace dynamix::trainer
