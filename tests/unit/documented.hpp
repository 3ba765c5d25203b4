#pragma once

/// What pages of docs/ copy from the program, between `<!-- WHAT: begin (..) -->` and `<!-- WHAT: end -->`.

#include "tests/temporary_directory.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace dynamix {

/// DYNAMIX_UPDATE_DOCS=1 writes it in place of comparing.
inline void expect_documented(const std::string& page, const std::string& what, const std::string& generated) {
  const auto path = std::string(DYNAMIX_SOURCE_DIRECTORY) + "/docs/" + page;
  auto text = text_of_file(path);
  const auto begin = text.find("<!-- " + what + ": begin");
  const auto end = text.find("<!-- " + what + ": end -->");
  ASSERT_LT(begin, end) << path;
  ASSERT_NE(end, std::string::npos) << path;
  const auto first = text.find('\n', begin) + 1;
  if (std::getenv("DYNAMIX_UPDATE_DOCS") != nullptr)
    std::ofstream(path) << text.replace(first, end - first, generated);
  else
    EXPECT_EQ(text.substr(first, end - first), generated);
}

} // namespace dynamix
