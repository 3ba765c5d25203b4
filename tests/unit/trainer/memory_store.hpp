#pragma once

#include "trainer/store.hpp"

#include <algorithm>
#include <map>
#include <mutex>

namespace dynamix::trainer {

/// A store for ranks that are threads of one process.
class memory_store final : public store {
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

} // namespace dynamix::trainer
