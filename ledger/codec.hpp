#pragma once

/// A ledger's rows as JSON, one object per line. A field that an older ledger lacks keeps its default.

#include "ledger/rows.hpp"

#include <optional>
#include <string>
#include <vector>

namespace dynamix::ledger {

/// One line without its newline.
std::string to_json_line(const row& row);
/// Nothing for a line that is torn or not ours; unknown fields are ignored.
std::optional<row> parse_line(const std::string& line);

/// Farewells and evaluations as JSON, for workers/<host>.json.
std::string to_json(const messages::farewell& farewell, const std::vector<messages::evaluation_report>& evaluations);
bool parse_worker_file(const std::string& text, messages::farewell& farewell,
                       std::vector<messages::evaluation_report>& evaluations);

} // namespace dynamix::ledger
