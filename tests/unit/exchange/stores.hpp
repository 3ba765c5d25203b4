#pragma once

/// Where ranks meet in tests.

#include "exchange/rendezvous.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>

namespace dynamix::exchange {

/// A store for ranks that are threads of one process.
class memory_store : public store {
public:
  void set(const std::string& key, const std::vector<std::uint8_t>& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
  }
  std::optional<std::vector<std::uint8_t>> get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    if (found == values_.end())
      return std::nullopt;
    return found->second;
  }
  std::int64_t add(const std::string& key, std::int64_t amount) override {
    const std::lock_guard lock(mutex_);
    auto& value = values_[key];
    const auto sum = (value.empty() ? 0 : std::stoll(std::string(value.begin(), value.end()))) + amount;
    const auto text = std::to_string(sum);
    value.assign(text.begin(), text.end());
    return sum;
  }
  bool check(const std::vector<std::string>& keys) override {
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(keys, [this](const auto& key) { return values_.contains(key); });
  }
  bool remove(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    return values_.erase(key) > 0;
  }
  std::int64_t count() override {
    const std::lock_guard lock(mutex_);
    return static_cast<std::int64_t>(values_.size());
  }

private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::uint8_t>> values_;
};

/// A store for ranks that are processes of one machine: a file per key. Has no counters, since a meeting needs none.
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

} // namespace dynamix::exchange
