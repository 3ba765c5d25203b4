#include "storage/json_text.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace dynamix::storage {
namespace {

template <class T>
std::string alone(const T& value) {
  return json_text().value(value).take();
}

TEST(JsonText, MembersAndElementsAreSeparated) {
  json_text text;
  text.open_object().member("a", 1U).key("b").open_array().value(true).value("x").close_array();
  text.column("c", std::vector<int>{-1, 2}, [](int one) { return one; }).key("d").open_object().close_object();
  EXPECT_EQ(text.close_object().take(), R"({"a":1,"b":[true,"x"],"c":[-1,2],"d":{}})");
}

TEST(JsonText, IndentsWithTwoBlanksWhereItIsAskedTo) {
  json_text text(json_layout::indented);
  text.open_object().member("a", 1U).key("b").open_array().value(true).open_object().member("c", "x").close_object();
  text.close_array().key("d").open_array().close_array().key("e").open_object().close_object();
  const auto written = text.close_object().take();
  EXPECT_EQ(written, nlohmann::ordered_json::parse(written).dump(2));
  EXPECT_EQ(json_text(json_layout::indented).value(1U).take(), "1");
}

TEST(JsonText, EveryTextIsReadBack) {
  for (const std::string text : {"", "plain ~", "a \"quoted\" \\ word", "line\nbreak\ttab", "\x01\x1f\x7f", "Käse 你"})
    EXPECT_EQ(nlohmann::json::parse(alone(text)), text) << text;
  EXPECT_EQ(alone("no \xff text"), "\"no \xef\xbf\xbd text\"") << "invalid UTF-8 is replaced";
}

TEST(JsonText, ExactNumbersAreReadBackBitByBit) {
  std::mt19937_64 bits(7);
  for (int i = 0; i < 10'000; ++i) {
    const auto wide = std::bit_cast<double>(bits());
    const auto narrow = std::bit_cast<float>(static_cast<std::uint32_t>(bits()));
    if (!std::isfinite(wide) || !std::isfinite(narrow))
      continue;
    EXPECT_EQ(nlohmann::json::parse(json_text().exact(wide).take()).get<double>(), wide);
    EXPECT_EQ(static_cast<float>(nlohmann::json::parse(json_text().exact(narrow).take()).get<double>()), narrow);
  }
  EXPECT_EQ(json_text().exact(0.1F).take(), "0.1");
  EXPECT_EQ(json_text().exact(std::numeric_limits<double>::quiet_NaN()).take(), "null");
  EXPECT_EQ(json_text().exact(std::numeric_limits<float>::infinity()).take(), "null");
}

TEST(JsonText, OtherNumbersHaveSixDigits) {
  EXPECT_EQ(alone(1.0 / 3), "0.333333");
  EXPECT_EQ(alone(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(alone(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(alone(-std::numeric_limits<double>::infinity()), "null");
}

} // namespace
} // namespace dynamix::storage
