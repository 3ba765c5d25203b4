#include "simulator/workload.hpp"

#include "settings/rows.hpp"
#include "settings/toml_reader.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <limits>

namespace dynamix::simulator {
namespace {

using settings::closed;
using settings::in;
using settings::open_low;
using settings::presence;
using settings::range;
using settings::text_row;

constexpr std::size_t workload_bytes_max = 1U << 20;

constexpr settings::text_rule workload_text_rule = {
    [](const std::string& text) { return !text.empty() && settings::is_line(text, 1000); },
    "one line of 1 to 1000 characters"};

using locator = settings::target (*)(workload&);

constexpr settings::field<workload> figure(std::string_view name, locator locate, range allowed, std::string_view doc,
                                           settings::presence needed = presence::required) {
  return settings::number_row("workload", name, locate, doc, allowed, needed);
}

constexpr settings::field<workload> all_workload_rows[] = {
    text_row("workload", "name", in<&workload::name>, "Of the workload.", workload_text_rule, presence::required),
    text_row("workload", "source", in<&workload::source>, "Where the figures come from.", workload_text_rule,
             presence::required),
    figure("epoch_samples", in<&workload::epoch_samples>, closed(1, 1e12), "Samples of an epoch."),
    figure("gradient_mib", in<&workload::gradient_mib>, closed(0, 1e6), "MiB that are exchanged a step."),
    figure("reference_batch", in<&workload::reference_batch>, closed(1, 1e9), "Global batch B_ref of the curves."),
    figure("phi_start", in<&workload::phi_start>, open_low(1e9), "phi(0), in samples."),
    figure("phi_epochs", in<&workload::phi_epochs>, open_low(1e6), "Progress over which phi grows."),
    figure("phi_exponent", in<&workload::phi_exponent>, closed(0, 10), "How fast it grows."),
    figure("accuracy_start", in<&workload::accuracy_start>, {0, 1, true, true}, "Test accuracy before training."),
    figure("accuracy_limit", in<&workload::accuracy_limit>, open_low(1), "The accuracy that training comes near."),
    figure("accuracy_epochs", in<&workload::accuracy_epochs>, open_low(1e6), "Progress over which accuracy rises."),
    figure("accuracy_exponent", in<&workload::accuracy_exponent>, open_low(10), "How fast it rises."),
    figure("accuracy_noise", in<&workload::accuracy_noise>, closed(0, 0.5), "Standard deviation of an evaluation."),
    figure("phi_noise", in<&workload::phi_noise>, closed(0, 2),
           "Standard deviation of the logarithm of a measured phi."),
    figure("evaluation_samples", in<&workload::evaluation_samples>, closed(0, 1e12),
           "Of the test set; 0: evaluations take no time.", presence::defaulted),
    figure("sparse_mib", in<&workload::sparse_mib>, closed(0, 1e6),
           "MiB of gradient_mib that are embeddings' rows, which training.compression concerns.", presence::defaulted),
    figure("row_floats", in<&workload::row_floats>, closed(1, 1e6), "Numbers in such a row.", presence::defaulted),
    figure("sample_rows", in<&workload::sample_rows>, closed(0, 1e6), "Rows that a sample touches.",
           presence::defaulted),
    figure("rows_in_use", in<&workload::rows_in_use>, closed(0, 1e9),
           "Rows r of which samples touch r (1 - exp(-sample_rows b/r)) with b samples; 0: all.", presence::defaulted),
};
constexpr std::span<const settings::field<workload>> workload_rows = all_workload_rows;

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

exchange::form_load workload::sparse_load() const {
  return {.items = static_cast<std::size_t>(sparse_mib * 1024 * 1024 / (sizeof(float) * row_floats)),
          .item_floats = static_cast<std::size_t>(row_floats)};
}

std::size_t workload::rows_of(double samples) const {
  const auto all = static_cast<double>(sparse_load().items);
  const double used = rows_in_use > 0 ? std::min(rows_in_use, all) : all;
  return used == 0 ? 0 : static_cast<std::size_t>(used * -std::expm1(-sample_rows * samples / used));
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
  auto reader = settings::toml_reader::open("workload", path, workload_bytes_max);
  workload read;
  const bool complete = reader.read_only("workload", workload_rows, read);
  if (complete && read.accuracy_limit <= read.accuracy_start)
    reader.complain("workload.accuracy_limit",
                    fmt::format("workload.accuracy_limit is {}; it must be above workload.accuracy_start, which is {}",
                                settings::number_text(read.accuracy_limit),
                                settings::number_text(read.accuracy_start)));
  if (complete && read.sparse_mib > read.gradient_mib)
    reader.complain("workload.sparse_mib",
                    fmt::format("workload.sparse_mib is {}; it must not exceed workload.gradient_mib, which is {}",
                                settings::number_text(read.sparse_mib), settings::number_text(read.gradient_mib)));
  auto errors = reader.finish();
  if (errors.empty())
    result = std::move(read);
  return errors;
}

std::string to_toml(const workload& from) {
  return "[workload]\n" + settings::to_toml(settings::show(workload_rows, from));
}

std::string describe_workload_markdown() {
  return settings::to_markdown("[workload]", settings::show(workload_rows, {}));
}

} // namespace dynamix::simulator
