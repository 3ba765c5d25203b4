#include "dashboard/inlined_page.hpp"
#include "tests/unit/dashboard/inlined_data.hpp"

#include <gmock/gmock.h>

#include <openssl/evp.h>

namespace dynamix::dashboard {
namespace {

using ::testing::HasSubstr;
using testing::inlined_data;
using ::testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

/// As a browser hashes what stands between the tags.
std::string sha256(const std::string& text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha256(), nullptr);
  unsigned char encoded[2 * EVP_MAX_MD_SIZE];
  const int length = EVP_EncodeBlock(encoded, digest, static_cast<int>(size));
  return {reinterpret_cast<const char*>(encoded), static_cast<std::size_t>(length)};
}

TEST(InlinedPage, LoadsNothingFromElsewhere) {
  SKIP_WITHOUT_PAGE();
  const auto page = inlined_page("{}");
  for (const char* outside : {" src=", "href=\"/", "@import", "url(", "import ", "<!-- live -->", "/metrics\""})
    EXPECT_THAT(page, Not(HasSubstr(outside))) << outside;
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("unsafe")));
  EXPECT_THAT(page, HasSubstr("Copyright (c)")) << "uPlot's licence goes with every copy";
}

TEST(InlinedPage, AllowsItsOwnScriptsAndStylesAlone) {
  SKIP_WITHOUT_PAGE();
  const auto page = inlined_page("{}");
  const auto policy_end = page.find("base-uri");
  std::size_t seen = 0;
  for (const auto* tag : {"<script>", "<script type=\"module\">", "<style>"})
    for (auto at = page.find(tag); at != std::string::npos; at = page.find(tag, at + 1)) {
      const auto begin = at + std::string(tag).size();
      const auto end = page.find(tag[1] == 's' && tag[2] == 'c' ? "</script>" : "</style>", begin);
      EXPECT_LT(page.find(sha256(page.substr(begin, end - begin))), policy_end) << page.substr(begin, 80);
      EXPECT_GT(at, policy_end) << "a policy holds for what comes behind it";
      ++seen;
    }
  EXPECT_EQ(seen, 5U) << "two styles and three scripts";
}

TEST(InlinedPage, LetsNoTextOfTheDataEndTheScript) {
  SKIP_WITHOUT_PAGE();
  const nlohmann::json data = {{"text", "</script><script>alert(1)</script><!-- <script>"}};
  const auto page = inlined_page(data.dump());
  EXPECT_EQ(inlined_data(page), data);
  EXPECT_EQ(count(page, "</script>"), count(inlined_page("{}"), "</script>"));
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</")));
}

TEST(InlinedPage, IsMadeOfAssetsThatDoNotEndTheirTag) {
  for (const auto& one : page_assets()) {
    const auto* end = one.path.ends_with(".js") ? "</script" : one.path.ends_with(".css") ? "</style" : "\xff";
    EXPECT_EQ(one.content.find(end), std::string_view::npos) << one.path;
  }
}

} // namespace
} // namespace dynamix::dashboard
