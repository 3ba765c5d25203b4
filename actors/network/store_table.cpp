#include "actors/network/store_table.hpp"

#include <algorithm>
#include <charconv>

namespace dynamix::actors {

namespace {

/// A member announces where it is reached, in up to 512 bytes; the rest is room to spare.
constexpr std::size_t keys_a_member = 4;
constexpr std::size_t keys_beside = 64;
constexpr std::size_t bytes_a_key = 1024;

/// Counters are kept as decimal text, as c10d's own stores keep them.
std::int64_t number_in(const std::vector<std::uint8_t>& value) {
  std::int64_t number = 0;
  const auto* text = reinterpret_cast<const char*>(value.data());
  std::from_chars(text, text + value.size(), number);
  return number;
}

std::vector<std::uint8_t> text_of(std::int64_t number) {
  const auto text = std::to_string(number);
  return {text.begin(), text.end()};
}

} // namespace

store_table::store_table(std::size_t members)
    : max_keys_(keys_beside + keys_a_member * members), max_bytes_(max_keys_ * bytes_a_key) {}

messages::store_result store_table::apply(const messages::store_operation& operation) {
  using messages::store_status;
  using messages::store_verb;
  const auto& key = operation.keys.empty() ? std::string{} : operation.keys.front();
  const bool full =
      (values_.size() >= max_keys_ && !values_.contains(key)) || bytes_ + operation.value.size() > max_bytes_;
  switch (operation.verb) {
  case store_verb::set:
    if (full)
      return {.status = store_status::absent};
    bytes_ += operation.value.size() - values_[key].size();
    values_[key] = operation.value;
    return {};
  case store_verb::get: {
    const auto found = values_.find(key);
    if (found == values_.end())
      return {.status = store_status::absent};
    return {.value = found->second};
  }
  case store_verb::add: {
    if (full)
      return {.status = store_status::absent};
    auto& value = values_[key];
    // In unsigned arithmetic: a peer may send any amount.
    const auto sum = static_cast<std::int64_t>(static_cast<std::uint64_t>(number_in(value)) +
                                               static_cast<std::uint64_t>(operation.amount));
    bytes_ -= value.size();
    value = text_of(sum);
    bytes_ += value.size();
    return {.number = sum};
  }
  case store_verb::check:
    return {.number = std::ranges::all_of(operation.keys, [this](const auto& one) { return values_.contains(one); })};
  case store_verb::remove: {
    const auto found = values_.find(key);
    if (found == values_.end())
      return {.number = 0};
    bytes_ -= found->second.size();
    values_.erase(found);
    return {.number = 1};
  }
  case store_verb::count:
    return {.number = static_cast<std::int64_t>(values_.size())};
  }
  return {.status = store_status::absent};
}

} // namespace dynamix::actors
