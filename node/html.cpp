#include "node/plot.hpp"

#include <algorithm>
#include <cctype>

namespace dynamix::node {
namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --back: #ffffff; --text: #1b1f24; --line: #d0d7de; --faint: #f6f8fa; }
@media (prefers-color-scheme: dark) {
  :root { --back: #16191d; --text: #e3e7ec; --line: #3a4149; --faint: #20252b; }
}
body { margin: 0 auto; padding: 1rem; max-width: 76rem; background: var(--back); color: var(--text);
       font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; border-bottom: 1px solid var(--line); }
svg { display: block; width: 100%; height: auto; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27rem), 1fr)); gap: 1.2rem; margin: 1rem 0; }
img { image-rendering: pixelated; }
details { margin: 1rem 0; } summary { cursor: pointer; }
ul.facts { padding: 0; list-style: none; display: flex; flex-wrap: wrap; gap: .4rem 2rem; } ul.facts b { font-size: 1.2rem; display: block; }
@media (max-width: 40rem) { body { padding: .7rem; } h2 { margin-top: 1.6rem; } }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; white-space: nowrap; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: left; }
th { background: var(--faint); } .number { text-align: right; }
pre { overflow-x: auto; padding: .7rem; background: var(--faint); }
.warning { border-left: 4px solid #d55e00; padding-left: .7rem; }
)";

/// Whether a cell stands to the right, as numbers do.
bool is_numeric(const std::string& cell) {
  return !cell.empty() && (std::isdigit(static_cast<unsigned char>(cell.front())) != 0 || cell == "-" ||
                           (cell.front() == '-' && cell.size() > 1));
}

} // namespace

std::string html_escape(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    switch (c) {
    case '&':
      safe += "&amp;";
      break;
    case '<':
      safe += "&lt;";
      break;
    case '>':
      safe += "&gt;";
      break;
    case '"':
      safe += "&quot;";
      break;
    case '\'':
      safe += "&#39;";
      break;
    default:
      safe += c;
    }
  }
  return safe;
}

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  std::string text = "<div class=\"table\"><table>\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += "<tr>";
    for (std::size_t column = 0; column < rows[i].size(); ++column) {
      const auto numeric = [column](const auto& row) { return column >= row.size() || is_numeric(row[column]); };
      const bool to_the_right = rows.size() > 1 && std::all_of(rows.begin() + 1, rows.end(), numeric);
      const std::string tag = i == 0 ? "th" : "td";
      text += "<" + tag + (to_the_right ? " class=\"number\">" : ">") + html_escape(rows[i][column]) + "</" + tag + ">";
    }
    text += "</tr>\n";
  }
  return text + "</table></div>\n";
}

std::string html_plots(const std::vector<std::string>& svgs) {
  std::string text = "<div class=\"plots\">\n";
  for (const auto& svg : svgs)
    text += svg;
  return text + "</div>\n";
}

std::string html_page(const std::string& title, const std::string& body) {
  return "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         html_escape(title) + "</title>\n<style>" + style + "</style>\n</head>\n<body>\n<h1>" + html_escape(title) +
         "</h1>\n" + body + "</body>\n</html>\n";
}

} // namespace dynamix::node
