#include "trainer/image_conversion.hpp"

namespace dynamix::trainer {

void convert_image(const std::uint8_t* bytes, std::size_t count, float scale, float shift, float* output) {
  for (std::size_t i = 0; i < count; ++i)
    output[i] = static_cast<float>(bytes[i]) * scale + shift;
}

} // namespace dynamix::trainer
