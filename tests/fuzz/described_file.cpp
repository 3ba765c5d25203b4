#include "tests/fuzz/described_file.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <utility>

namespace dynamix::fuzz {

void require(bool holds, const char* what) {
  if (holds)
    return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

std::string text_of(byte_span bytes) {
  return {bytes.begin(), bytes.end()};
}

storage::tensor_file described_file(byte_span bytes, storage::tensor_file file) {
  const auto text = text_of(bytes);
  const auto end = std::min(text.find("\n\n"), text.size());
  const auto fill = text.substr(std::min(end + 2, text.size()));
  const auto remove = [&](const std::string& name) {
    std::erase_if(file.tensors, [&](const auto& record) { return record.name == name; });
  };
  std::istringstream lines(text.substr(0, end));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    std::string name;
    words >> kind >> name;
    if (kind == "m" && name != "crc32") {
      std::getline(words >> std::ws, file.metadata[name]);
      continue;
    }
    if (kind == "d") {
      file.metadata.erase(name);
      remove(name);
      continue;
    }
    unsigned int type = 0;
    storage::tensor_record record{.name = name};
    words >> type;
    record.type = static_cast<storage::element_type>(type % 4);
    std::size_t size = storage::element_size(record.type);
    for (std::int64_t extent = 0; record.shape.size() < storage::max_rank && words >> extent;) {
      record.shape.push_back(extent);
      size = extent < 0 || extent > 4096 || size > 65536 ? 1U << 20U : size * static_cast<std::size_t>(extent);
    }
    if (name.empty() || name == "__metadata__" || size > 65536)
      continue;
    remove(name);
    for (std::size_t i = 0; i < size; ++i)
      record.data.push_back(fill.empty() ? 0 : static_cast<std::uint8_t>(fill[i % fill.size()]));
    file.tensors.push_back(std::move(record));
  }
  return file;
}

bool has_plain_names(byte_span bytes) {
  const auto text = text_of(bytes);
  return std::ranges::all_of(text.substr(0, text.find("\n\n")), [](char one) { return one >= 0; });
}

} // namespace dynamix::fuzz
