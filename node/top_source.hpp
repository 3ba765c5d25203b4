#pragma once

/// Where `top` gets the state of a run from.

#include <memory>
#include <string>

namespace dynamix::node {

class top_source {
public:
  virtual ~top_source() = default;
  /// The state as JSON (docs/dashboard.md), without the past. Empty, with `problem`, where there is none now.
  virtual std::string read(std::string& problem) = 0;
};

/// The page of a running cluster. `token`: of a page that asks for one; empty: none.
std::unique_ptr<top_source> make_page_source(const std::string& url, const std::string& token);
/// A run directory's ledger.
std::unique_ptr<top_source> make_ledger_source(const std::string& run);

} // namespace dynamix::node
