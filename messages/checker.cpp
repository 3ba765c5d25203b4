#include "messages/checker.hpp"

#include "messages/validation.hpp"

#include <kj/encoding.h>

#include <algorithm>

namespace dynamix::messages {
namespace {

/// C0 and C1 controls and DEL.
bool is_control(char32_t character) {
  return character < U' ' || (character >= U'\x7f' && character < U'\xa0');
}

bool is_allowed(char32_t character, bool lines) {
  return !is_control(character) || (lines && (character == U'\n' || character == U'\t'));
}

} // namespace

void checker::size(std::string_view name, std::size_t value, std::size_t low, std::size_t high) {
  if (value < low || value > high)
    range(std::string(name) + " size", value, low, high);
}

void checker::text(std::string_view name, const std::string& value, const text_rule& rule) {
  if (value.size() < rule.low || value.size() > rule.high)
    range(std::string(name) + " length", value.size(), rule.low, rule.high);
  const auto characters = kj::encodeUtf32(kj::arrayPtr(value.data(), value.size()));
  require(!characters.hadErrors, name, "is not UTF-8");
  require(std::all_of(characters.begin(), characters.end(), [&](char32_t one) { return is_allowed(one, rule.lines); }),
          name, "holds control characters");
}

void checker::ranks(std::string_view name, const std::vector<std::uint32_t>& value) {
  require(std::ranges::adjacent_find(value, std::ranges::greater_equal{}) == value.end(), name, "does not rise");
  require(value.empty() || value.back() < max_workers, name, "holds a rank that is too high");
}

void checker::nested(std::string_view name, const std::string& fault) {
  if (!fault.empty() && fault_.empty())
    fault_ = std::string(name) + "." + fault;
}

std::string element(std::string_view name, std::size_t index) {
  return std::string(name) + "[" + std::to_string(index) + "]";
}

std::string fit_text(std::string_view text) {
  constexpr char32_t replacement = U'\xfffd';
  // Twice the limit is enough to fill it, whatever is replaced, and keeps the work bounded.
  const auto taken = text.substr(0, 2 * max_text_length);
  auto characters = kj::encodeUtf32(kj::arrayPtr(taken.data(), taken.size()));
  std::string fitted;
  for (auto character : characters) {
    const bool surrogate = character >= 0xd800 && character <= 0xdfff;
    if (surrogate || !is_allowed(character, true))
      character = replacement;
    const auto encoded = kj::decodeUtf32(kj::arrayPtr(&character, 1));
    if (fitted.size() + encoded.size() > max_text_length)
      break;
    fitted.append(encoded.cStr(), encoded.size());
  }
  return fitted;
}

} // namespace dynamix::messages
