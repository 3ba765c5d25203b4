#pragma once

/// The run as Prometheus reads it. docs/metrics.md lists what there is.

#include "ledger/run.hpp"

#include <cstdint>
#include <prometheus/metric_family.h>
#include <string>
#include <vector>

namespace dynamix::dashboard {

/// Every family, also those without a value yet, so that a scraper knows them from the first scrape.
std::vector<prometheus::MetricFamily> metrics_of(const ledger::run& run, std::uint64_t unread_bytes);

/// As the text exposition format, version 0.0.4.
std::string metrics_text(const ledger::run& run, std::uint64_t unread_bytes);

} // namespace dynamix::dashboard
