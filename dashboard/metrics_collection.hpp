#pragma once

#include "ledger/run.hpp"

#include <cmath>
#include <prometheus/metric_family.h>
#include <utility>
#include <vector>

namespace dynamix::dashboard {

/// Metric families; a value that is not known is left out.
class collection {
public:
  void begin(const char* name, const char* help, prometheus::MetricType type) {
    families_.push_back({name, help, type, {}});
  }
  void add(double value, std::vector<prometheus::ClientMetric::Label> with = {}) {
    if (std::isnan(value))
      return;
    prometheus::ClientMetric metric;
    metric.label = std::move(with);
    (families_.back().type == prometheus::MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    families_.back().metric.push_back(std::move(metric));
  }
  void gauge(const char* name, const char* help, double value) {
    begin(name, help, prometheus::MetricType::Gauge);
    add(value);
  }
  void counter(const char* name, const char* help, double value) {
    begin(name, help, prometheus::MetricType::Counter);
    add(value);
  }
  void histogram(const char* name, const char* help, const ledger::duration_histogram& from) {
    begin(name, help, prometheus::MetricType::Histogram);
    prometheus::ClientMetric metric;
    for (std::size_t i = 0; i < from.counts.size(); ++i) {
      metric.histogram.sample_count += from.counts[i];
      if (i < ledger::duration_histogram::bounds.size())
        metric.histogram.bucket.push_back({metric.histogram.sample_count, ledger::duration_histogram::bounds[i]});
    }
    metric.histogram.sample_sum = from.sum;
    families_.back().metric.push_back(std::move(metric));
  }
  std::vector<prometheus::MetricFamily> take() { return std::move(families_); }

private:
  std::vector<prometheus::MetricFamily> families_;
};

/// What is told of every worker, by its name.
void add_worker_metrics(collection& all, const ledger::run& run);

} // namespace dynamix::dashboard
