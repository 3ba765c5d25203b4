/// libFuzzer's entry points: fuzz --target=NAME [libFuzzer's options] CORPUS...

#include "tests/fuzz/targets.hpp"

#include <cstdio>
#include <cstdlib>

namespace {

const dynamix::fuzz::target* chosen = nullptr;

} // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  constexpr std::string_view option = "--target=";
  for (int i = 1; i < *count; ++i)
    if (const std::string_view text = (*arguments)[i]; text.starts_with(option))
      chosen = dynamix::fuzz::find_target(text.substr(option.size()));
  if (chosen != nullptr)
    return 0;
  std::fputs("--target= must name one of:", stderr);
  for (const auto& one : dynamix::fuzz::targets())
    std::fprintf(stderr, " %.*s", static_cast<int>(one.name.size()), one.name.data());
  std::fputs("\n", stderr);
  std::exit(2);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  chosen->run({data, size});
  return 0;
}
