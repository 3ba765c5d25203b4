#include "dashboard/inlined_page.hpp"

#include "dashboard/assets.hpp"

#include <algorithm>
#include <openssl/evp.h>
#include <stdexcept>

namespace dynamix::dashboard {
namespace {

std::string base64(std::string_view bytes) {
  std::string text(4 * (bytes.size() + 2) / 3 + 1, '\0');
  const auto* begin = reinterpret_cast<const unsigned char*>(bytes.data());
  const int length =
      ::EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), begin, static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

/// How a content security policy names an inline script or style.
std::string hash_of(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  if (::EVP_Digest(text.data(), text.size(), digest, &size, ::EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("SHA-256 is not available");
  return " 'sha256-" + base64({reinterpret_cast<const char*>(digest), size}) + "'";
}

std::string_view content_of(std::string_view path) {
  const auto assets = page_assets();
  const auto found = std::ranges::find(assets, path, &asset::path);
  if (found == assets.end())
    throw std::logic_error("the page names " + std::string(path) + ", which is not built in");
  return found->content;
}

/// What stands between `from` and the next quotation mark behind it; empty where the line has no such attribute.
std::string_view attribute_of(std::string_view line, std::string_view from) {
  const auto begin = line.find(from);
  if (begin == std::string_view::npos)
    return {};
  const auto value = line.substr(begin + from.size());
  return value.substr(0, value.find('"'));
}

/// For text between tags.
std::string escaped(std::string_view text) {
  std::string safe;
  for (const char letter : text)
    safe += letter == '<' ? "&lt;" : letter == '&' ? "&amp;" : std::string(1, letter);
  return safe;
}

/// The lines of index.html with what they load in its place.
class inliner {
public:
  void add(std::string_view line) {
    if (line == "<!-- live -->")
      live_ = true;
    else if (line == "<!-- end of live -->")
      live_ = false;
    else if (!live_)
      add_kept(line);
  }

  /// With `data`, and with the policy in front of all that it is about.
  std::string finish(std::string_view data) {
    std::string json(data);
    for (auto at = json.find('<'); at != std::string::npos; at = json.find('<', at))
      json.replace(at, 1, "\\u003c"); // so that no text in it ends the script
    const auto end = text_.find("</body>");
    text_.insert(end, "<script type=\"application/json\" id=\"inlined\">" + json + "</script>\n");
    text_.insert(end,
                 "<footer class=\"muted\"><details><summary>licence of uPlot, which draws the charts</summary><pre>" +
                     escaped(content_of("/licenses.txt")) + "</pre></details></footer>\n");
    text_.insert(
        text_.find("<meta charset"),
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; script-src" +
            scripts_ + "; style-src" + styles_ + "; base-uri 'none'; form-action 'none'\">\n");
    return std::move(text_);
  }

private:
  void add_kept(std::string_view line) {
    if (const auto style = attribute_of(line, "<link rel=\"stylesheet\" href=\""); !style.empty()) {
      styles_ += hash_of(content_of(style));
      text_.append("<style>").append(content_of(style)).append("</style>\n");
    } else if (const auto script = attribute_of(line, "<script src=\""); !script.empty()) {
      scripts_ += hash_of(content_of(script));
      const bool module = line.find("type=\"module\"") != std::string_view::npos; // runs when all is parsed
      text_.append(module ? "<script type=\"module\">" : "<script>").append(content_of(script)).append("</script>\n");
    } else if (const auto icon = attribute_of(line, "<link rel=\"icon\" href=\""); !icon.empty()) {
      text_.append("<link rel=\"icon\" href=\"data:image/svg+xml;base64," + base64(content_of(icon)) + "\">\n");
    } else {
      text_.append(line).append("\n");
    }
  }

  bool live_ = false; ///< in a part that only a server's page has
  std::string text_;
  std::string scripts_;
  std::string styles_;
};

} // namespace

std::string inlined_page(std::string_view data) {
  if (page_assets().empty())
    return "";
  inliner page;
  auto rest = content_of("/index.html");
  while (!rest.empty()) {
    const auto line = rest.substr(0, rest.find('\n'));
    page.add(line);
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
  }
  return page.finish(data);
}

} // namespace dynamix::dashboard
