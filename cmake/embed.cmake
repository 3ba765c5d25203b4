# Writes OUT, a C++ source with dynamix::dashboard::page_assets(), from FILES: path on the server|file, separated by commas.
#   cmake -DOUT=... -DFILES=/style.css|style.css,... -P embed.cmake
set(arrays "")
set(table "")
string(REPLACE "," ";" FILES "${FILES}")
list(LENGTH FILES count)
foreach(entry ${FILES})
  string(REPLACE "|" ";" entry "${entry}")
  list(GET entry 0 path)
  list(GET entry 1 file)
  string(REGEX MATCH "[^.]*$" ending "${path}")
  set(type_of_html "text/html; charset=utf-8")
  set(type_of_css "text/css; charset=utf-8")
  set(type_of_js "text/javascript; charset=utf-8")
  set(type_of_svg "image/svg+xml")
  set(type_of_txt "text/plain; charset=utf-8")
  file(READ ${file} bytes HEX)
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(MAKE_C_IDENTIFIER "asset${path}" name)
  string(APPEND arrays "constexpr unsigned char ${name}[] = {${bytes}0};\n")
  string(APPEND table "    asset{\"${path}\", \"${type_of_${ending}}\", text(${name}, ${size})},\n")
endforeach()
file(WRITE ${OUT} "#include \"dashboard/assets.hpp\"

#include <array>

namespace dynamix::dashboard {
namespace {

${arrays}
std::string_view text(const unsigned char* bytes, std::size_t size) {
  return {reinterpret_cast<const char*>(bytes), size};
}

} // namespace

std::span<const asset> page_assets() {
  static const std::array<asset, ${count}> table = {
${table}  };
  return table;
}

} // namespace dynamix::dashboard
")
