#pragma once

#include "dashboard/assets.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace dynamix::dashboard::testing {

/// What a page of one file holds for its script to show. Null, with a failure, where it holds nothing that is whole.
inline nlohmann::json inlined_data(const std::string& page) {
  const std::string open = "<script type=\"application/json\" id=\"inlined\">";
  const auto begin = page.find(open);
  const auto end = page.find("</script>", begin);
  if (begin == std::string::npos || end == std::string::npos) {
    ADD_FAILURE() << "nothing is inlined";
    return nullptr;
  }
  const auto data = nlohmann::json::parse(page.substr(begin + open.size(), end - begin - open.size()), nullptr, false);
  EXPECT_FALSE(data.is_discarded()) << "what is inlined is no JSON";
  return data;
}

/// Skips a test of pages in a build without them.
#define SKIP_WITHOUT_PAGE()                                                                                            \
  if (::dynamix::dashboard::page_assets().empty())                                                                     \
  GTEST_SKIP() << "built with -DDYNAMIX_DASHBOARD=OFF"

} // namespace dynamix::dashboard::testing
