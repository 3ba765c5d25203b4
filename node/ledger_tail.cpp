#include "node/ledger_tail.hpp"

#include <fstream>

namespace dynamix::node {

std::vector<actors::ledger_row> ledger_tail::read() {
  std::vector<actors::ledger_row> rows;
  std::ifstream file(path_, std::ios::binary);
  if (!file.seekg(static_cast<std::streamoff>(offset_)))
    return rows;
  for (std::string line; std::getline(file, line) && !file.eof();) { // at the end: a line without its newline yet
    offset_ += line.size() + 1;
    if (auto row = actors::parse_ledger_line(line))
      rows.push_back(std::move(*row));
  }
  return rows;
}

} // namespace dynamix::node
