#include "node/plot.hpp"
#include "node/plot_axis.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace dynamix::node {
namespace {

using namespace plot_frame;

constexpr double map_height = 220;
constexpr std::size_t columns_max = 300;
constexpr std::size_t rows_max = 1024;
constexpr std::size_t shades = 255; ///< and one for "empty"

using bytes = std::vector<std::uint8_t>;

/// Viridis (van der Walt and Smith, 2015), which colour-blind people and grey prints keep in order; nine of its
/// colours, linear in between.
std::array<std::uint8_t, 3> shade(double share) {
  static constexpr std::array<std::array<double, 3>, 9> viridis = {{{68, 1, 84},
                                                                    {71, 44, 122},
                                                                    {59, 81, 139},
                                                                    {44, 113, 142},
                                                                    {33, 144, 141},
                                                                    {39, 173, 129},
                                                                    {92, 200, 99},
                                                                    {170, 220, 50},
                                                                    {253, 231, 37}}};
  const double place = std::clamp(share, 0.0, 1.0) * (viridis.size() - 1);
  const auto lower = std::min(static_cast<std::size_t>(place), viridis.size() - 2);
  std::array<std::uint8_t, 3> colour{};
  for (std::size_t i = 0; i < 3; ++i)
    colour[i] = static_cast<std::uint8_t>(
        std::lround(std::lerp(viridis[lower][i], viridis[lower + 1][i], place - static_cast<double>(lower))));
  return colour;
}

void put_number(bytes& to, std::uint32_t number) {
  for (int shift = 24; shift >= 0; shift -= 8)
    to.push_back(static_cast<std::uint8_t>(number >> shift));
}

/// Length, type, contents, CRC-32 of the latter two (PNG specification, section 5.3).
void put_chunk(bytes& to, const char* type, const bytes& contents) {
  put_number(to, static_cast<std::uint32_t>(contents.size()));
  const auto begin = to.size();
  to.insert(to.end(), type, type + 4);
  to.insert(to.end(), contents.begin(), contents.end());
  put_number(to, static_cast<std::uint32_t>(::crc32(0, to.data() + begin, static_cast<uInt>(to.size() - begin))));
}

/// A PNG with one byte a pixel: 0 is transparent, all else a shade.
bytes encode_png(const bytes& pixels, std::size_t across, std::size_t down) {
  bytes image = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
  bytes header;
  put_number(header, static_cast<std::uint32_t>(across));
  put_number(header, static_cast<std::uint32_t>(down));
  header.insert(header.end(), {8, 3, 0, 0, 0}); // 8 bits, palette, deflate, no special filter, not interlaced
  put_chunk(image, "IHDR", header);
  bytes palette = {0, 0, 0};
  for (std::size_t i = 0; i < shades; ++i)
    for (const auto part : shade(static_cast<double>(i) / (shades - 1)))
      palette.push_back(part);
  put_chunk(image, "PLTE", palette);
  put_chunk(image, "tRNS", {0});
  bytes lines;
  for (std::size_t row = 0; row < down; ++row) {
    lines.push_back(0); // no filter
    lines.insert(lines.end(), pixels.begin() + static_cast<std::ptrdiff_t>(row * across),
                 pixels.begin() + static_cast<std::ptrdiff_t>((row + 1) * across));
  }
  uLongf size = ::compressBound(lines.size());
  bytes packed(size);
  ::compress2(packed.data(), &size, lines.data(), lines.size(), 9);
  packed.resize(size);
  put_chunk(image, "IDAT", packed);
  put_chunk(image, "IEND", {});
  return image;
}

std::string base64(const bytes& from) {
  static constexpr const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < from.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < from.size() ? from[i + j] : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j <= from.size() ? digits[group >> (18 - 6 * j) & 63U] : '=';
  }
  return text;
}

struct scale : extent {
  bool logarithmic = false;

  bool drawn(double value) const { return std::isfinite(value) && (!logarithmic || value > 0); }
  double share(double value) const {
    if (!(high > low))
      return 0.5;
    return logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  }
};

std::string draw_legend(const scale& colours, double y) {
  constexpr int steps = 48;
  constexpr double length = 160;
  const double begin = width - right - length - 60;
  std::string drawn = svg_text(begin - 8, y + 11, "end", round_number(colours.low));
  for (int i = 0; i < steps; ++i) {
    const auto colour = shade(static_cast<double>(i) / (steps - 1));
    drawn += "<rect x=\"" + coordinate(begin + length * i / steps) + "\" y=\"" + coordinate(y) + "\" width=\"" +
             coordinate(length / steps + 0.4) + "\" height=\"13\" fill=\"rgb(" + std::to_string(colour[0]) + "," +
             std::to_string(colour[1]) + "," + std::to_string(colour[2]) + ")\"/>\n";
  }
  return drawn + svg_text(begin + length + 8, y + 11, "start", round_number(colours.high));
}

} // namespace

std::string to_svg(const heat_map& from) {
  scale colours;
  colours.logarithmic = from.logarithmic;
  for (const auto& row : from.values)
    for (const double value : row)
      if (colours.drawn(value))
        colours.add(value);
  if (colours.empty())
    return svg_no_data(from.title);
  const auto rows = from.values.size();
  const auto down = std::min(rows, rows_max);
  const auto across = std::min(from.values.front().size(), columns_max);
  bytes pixels;
  for (std::size_t row = 0; row < down; ++row)
    for (std::size_t i = 0; i < across; ++i) {
      const auto& values = from.values[row * rows / down];
      const double value = values[i * values.size() / across];
      pixels.push_back(
          colours.drawn(value)
              ? static_cast<std::uint8_t>(1 + std::lround(std::clamp(colours.share(value), 0.0, 1.0) * (shades - 1)))
              : 0);
    }
  std::string drawn =
      "<image x=\"" + coordinate(left) + "\" y=\"" + coordinate(top) + "\" width=\"" +
      coordinate(width - left - right) + "\" height=\"" + coordinate(map_height) +
      "\" preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64," +
      base64(encode_png(pixels, across, down)) + "\"/>\n";
  const auto x = plot_axis::linear(from.x_low, from.x_high, 6, false);
  const double bottom = top + map_height;
  drawn += svg_level_axis(x, bottom, from.x_label) + svg_upright_label(top + map_height / 2, from.y_label) +
           svg_text(left - 8, top + 12, "end", "0") + svg_text(left - 8, bottom, "end", std::to_string(rows - 1));
  return svg_document(width, bottom + 68, from.title, drawn + draw_legend(colours, bottom + 48));
}

} // namespace dynamix::node
