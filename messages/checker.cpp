#include "messages/checker.hpp"

#include "messages/validation.hpp"

#include <kj/encoding.h>

#include <algorithm>
#include <sstream>

namespace dynamix::messages {
namespace {

/// C0 and C1 controls and DEL.
bool is_control(char32_t character) {
  return character < U' ' || (character >= U'\x7f' && character < U'\xa0');
}

bool is_allowed(char32_t character, lines allowed) {
  return !is_control(character) || (allowed == lines::many && (character == U'\n' || character == U'\t'));
}

template <class T>
std::string out_of_range(std::string_view name, T value, T low, T high) {
  std::ostringstream out;
  out << name << " = " << value << " is not in [" << low << ", " << high << "]";
  return out.str();
}

} // namespace

void checker::require(bool holds, std::string_view name, std::string_view rule) {
  if (!holds && fault_.empty())
    fault_ = std::string(name) + " " + std::string(rule);
}

void checker::number(std::string_view name, double value, double low, double high) {
  const bool holds = value >= low && value <= high; // false for NaN
  if (!holds && fault_.empty())
    fault_ = out_of_range(name, value, low, high);
}

void checker::count(std::string_view name, std::uint64_t value, std::uint64_t low, std::uint64_t high) {
  if ((value < low || value > high) && fault_.empty())
    fault_ = out_of_range(name, value, low, high);
}

void checker::text(std::string_view name, const std::string& value, std::size_t low, std::size_t high, lines allowed) {
  count(std::string(name) + " length", value.size(), low, high);
  const auto characters = kj::encodeUtf32(kj::arrayPtr(value.data(), value.size()));
  require(!characters.hadErrors, name, "is not UTF-8");
  require(std::all_of(characters.begin(), characters.end(), [&](char32_t one) { return is_allowed(one, allowed); }),
          name, "holds control characters");
}

void checker::key(std::string_view name, decision_key value) {
  require(value.window > 0 || value.term == 0, name, "has a term but no window");
  count(std::string(name) + ".term", value.term, 0, max_counter);
  count(std::string(name) + ".window", value.window, 0, max_counter);
}

void checker::ranks(std::string_view name, const std::vector<std::uint32_t>& value, std::size_t low, std::size_t high) {
  count(std::string(name) + " size", value.size(), low, high);
  require(std::ranges::adjacent_find(value, std::ranges::greater_equal{}) == value.end(), name, "does not rise");
  require(value.empty() || value.back() < max_workers, name, "holds a rank that is too high");
}

void checker::nested(const std::string& prefix, const std::string& fault) {
  if (!fault.empty() && fault_.empty())
    fault_ = prefix + "." + fault;
}

std::string fit_text(std::string_view text) {
  constexpr char32_t replacement = U'\xfffd';
  // Twice the limit is enough to fill it, whatever is replaced, and keeps the work bounded.
  const auto taken = text.substr(0, 2 * max_text_length);
  auto characters = kj::encodeUtf32(kj::arrayPtr(taken.data(), taken.size()));
  std::string fitted;
  for (auto character : characters) {
    const bool surrogate = character >= 0xd800 && character <= 0xdfff;
    if (surrogate || !is_allowed(character, lines::many))
      character = replacement;
    const auto encoded = kj::decodeUtf32(kj::arrayPtr(&character, 1));
    if (fitted.size() + encoded.size() > max_text_length)
      break;
    fitted.append(encoded.cStr(), encoded.size());
  }
  return fitted;
}

} // namespace dynamix::messages
