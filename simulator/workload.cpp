#include "simulator/workload.hpp"

#include "simulator/toml_section.hpp"

#include <cmath>
#include <limits>

namespace dynamix::simulator {
namespace {

struct figure {
  std::string_view name;
  double workload::*value;
  cluster::range allowed;
  bool optional = false;
};

constexpr figure figures[] = {
    {"epoch_samples", &workload::epoch_samples, {1, 1e12}},
    {"gradient_mib", &workload::gradient_mib, {0, 1e6}},
    {"reference_batch", &workload::reference_batch, {1, 1e9}},
    {"phi_start", &workload::phi_start, {0, 1e9, true}},
    {"phi_epochs", &workload::phi_epochs, {0, 1e6, true}},
    {"phi_exponent", &workload::phi_exponent, {0, 10}},
    {"accuracy_start", &workload::accuracy_start, {0, 1, true, true}},
    {"accuracy_limit", &workload::accuracy_limit, {0, 1, true}},
    {"accuracy_epochs", &workload::accuracy_epochs, {0, 1e6, true}},
    {"accuracy_exponent", &workload::accuracy_exponent, {0, 10, true}},
    {"accuracy_noise", &workload::accuracy_noise, {0, 0.5}},
    {"phi_noise", &workload::phi_noise, {0, 2}},
    {"evaluation_samples", &workload::evaluation_samples, {0, 1e12}, true},
};

} // namespace

double workload::phi(double progress) const {
  return phi_start * std::pow(1 + progress / phi_epochs, phi_exponent);
}

double workload::accuracy(double progress) const {
  return accuracy_limit -
         (accuracy_limit - accuracy_start) * std::pow(1 + progress / accuracy_epochs, -accuracy_exponent);
}

double workload::loss(double accuracy) const {
  return std::log(1 / accuracy_start) * (1 - accuracy) / (1 - accuracy_start);
}

double workload::progress_for(double accuracy) const {
  if (accuracy <= accuracy_start)
    return 0;
  if (accuracy >= accuracy_limit)
    return std::numeric_limits<double>::infinity();
  const double left = (accuracy_limit - accuracy) / (accuracy_limit - accuracy_start);
  return accuracy_epochs * (std::pow(left, -1 / accuracy_exponent) - 1);
}

std::vector<cluster::file_error> read_workload(const std::string& path, workload& result) {
  std::vector<cluster::file_error> errors;
  toml_section section(path, "workload", errors);
  workload read;
  section.text("name", read.name);
  section.text("source", read.source);
  for (const auto& each : figures)
    if (each.optional)
      section.optional_number(each.name, read.*each.value, each.allowed);
    else
      section.number(each.name, read.*each.value, each.allowed);
  if (errors.empty() && read.accuracy_limit <= read.accuracy_start)
    section.complain("accuracy_limit", "is " + cluster::number_text(read.accuracy_limit) +
                                           "; it must be above workload.accuracy_start, which is " +
                                           cluster::number_text(read.accuracy_start));
  section.finish();
  if (errors.empty())
    result = std::move(read);
  return errors;
}

std::string to_toml(const workload& from) {
  std::string text =
      "[workload]\nname = " + cluster::quoted(from.name) + "\nsource = " + cluster::quoted(from.source) + "\n";
  for (const auto& each : figures)
    text += std::string(each.name) + " = " + cluster::number_text(from.*each.value) + "\n";
  return text;
}

} // namespace dynamix::simulator
