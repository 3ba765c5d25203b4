#pragma once

#include <cstddef>
#include <cstdint>

namespace dynamix::trainer {

/// output[i] = bytes[i] * scale + shift. In a file of its own, compiled so that it vectorises.
void convert_image(const std::uint8_t* bytes, std::size_t count, float scale, float shift, float* output);

} // namespace dynamix::trainer
