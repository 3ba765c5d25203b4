#pragma once

/// Text for a terminal. Numbers and names: ledger/text.hpp.

#include "ledger/text.hpp"

#include <string>

namespace dynamix::node {

using ledger::duration;
using ledger::fixed;
using ledger::grouped;
using ledger::listed;
using ledger::percent;
using ledger::printable;
using ledger::sparkline;

/// As a shell (bash) reads it back, in ASCII: quotes only where they are needed.
std::string shell_quoted(const std::string& argument);

} // namespace dynamix::node
