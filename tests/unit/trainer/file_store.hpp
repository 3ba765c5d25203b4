#pragma once

#include "trainer/store.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace dynamix::trainer {

/// A store for ranks that are processes of one machine: a file a key. Has no counters, since Gloo needs none.
class file_store final : public store {
public:
  explicit file_store(std::string directory) : directory_(std::move(directory)) {}

  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    const auto path = path_of(key);
    {
      std::ofstream file(path + ".part", std::ios::binary);
      file.write(reinterpret_cast<const char*>(value.data()), static_cast<std::streamsize>(value.size()));
    }
    std::filesystem::rename(path + ".part", path);
  }
  std::optional<std::vector<std::uint8_t>> get(const std::string& key) override {
    std::ifstream file(path_of(key), std::ios::binary);
    if (!file)
      return std::nullopt;
    return std::vector<std::uint8_t>{std::istreambuf_iterator<char>(file), {}};
  }
  std::int64_t add(const std::string&, std::int64_t) override { throw store_error("the file store cannot count"); }
  bool check(const std::vector<std::string>& keys) override {
    return std::ranges::all_of(keys, [this](const auto& key) { return std::filesystem::exists(path_of(key)); });
  }
  bool remove(const std::string& key) override { return std::filesystem::remove(path_of(key)); }
  std::int64_t count() override { return std::distance(std::filesystem::directory_iterator(directory_), {}); }

private:
  std::string path_of(std::string key) const {
    std::ranges::replace(key, '/', '_');
    return directory_ + "/key_" + key;
  }

  std::string directory_;
};

} // namespace dynamix::trainer
