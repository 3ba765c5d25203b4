#include "cluster/text_table.hpp"

#include <algorithm>

namespace dynamix::cluster {
namespace {

bool is_numeric(const std::string& cell) {
  return !cell.empty() && cell.find_first_not_of("0123456789+-.,%x ") == std::string::npos;
}

/// Characters rather than bytes, so that a sparkline takes its width.
std::size_t width_of(const std::string& cell) {
  return static_cast<std::size_t>(
      std::count_if(cell.begin(), cell.end(), [](unsigned char c) { return (c & 0xC0U) != 0x80U; }));
}

} // namespace

std::string text_table(const std::vector<std::vector<std::string>>& rows, std::size_t indent, heading head) {
  std::vector<std::size_t> widths;
  std::vector<bool> numeric;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t column = 0; column < rows[i].size(); ++column) {
      if (column == widths.size()) {
        widths.push_back(0);
        numeric.push_back(head == heading::first_row && rows.size() > 1);
      }
      widths[column] = std::max(widths[column], width_of(rows[i][column]));
      if (i > 0 && !is_numeric(rows[i][column]))
        numeric[column] = false;
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line(indent, ' ');
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string padding(widths[column] - width_of(row[column]), ' ');
      line += (column == 0 ? "" : "  ") + (numeric[column] ? padding + row[column] : row[column] + padding);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

} // namespace dynamix::cluster
