#pragma once

/// An experiment: comparisons of policies, what a source claims of them, and whether it was found. Kept as
/// deployments/experiments/NAME/experiment.toml; docs/experiments.md lists the fields. Pure.

#include "node/experiments/comparison.hpp"
#include "settings/toml_reader.hpp"

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

/// One comparison: what `compare` would be asked for.
struct experiment_part {
  std::string name;
  std::vector<std::string> clusters; ///< cluster files or directories of them, as the file names them
  std::string policies;              ///< comma-separated; empty: all that `compare` takes by default
  std::uint32_t seeds = 1;           ///< [1, 1000]
  std::uint32_t episodes = 1;        ///< [1, 1000]: runs in a row, over which a policy learns
  bool simulate = false;
  std::vector<std::string> set; ///< changes of the cluster files, "section.field=value"
};

enum class finding_figure : std::uint8_t {
  seconds,       ///< mean seconds to the target over those of the other
  speed,         ///< samples per second over those of the other
  accuracy,      ///< final accuracy less that of the other, percentage points
  equal_time,    ///< the same where the shorter of both runs ends, seed by seed
  interventions, ///< share of the policy's windows in which the guard overrode the policy, percent
  plateau        ///< episode in which the reward reaches its plateau, median of the seeds in which it rises
};

/// A sentence of the source and the number that holds or refutes it: a policy of one part against one of the same part
/// or of another. Several clusters count by their median; of two parts they are taken pair by pair.
struct experiment_finding {
  std::string text;
  std::string part;
  std::string policy = "ppo";
  std::string to_part;              ///< empty: the same
  std::string to_policy = "static"; ///< or "best-rival"; of interventions and plateau without meaning
  finding_figure figure = finding_figure::seconds;
  double at_least = -std::numeric_limits<double>::infinity(); ///< as figure counts
  double at_most = std::numeric_limits<double>::infinity();

  bool bounded() const { return std::isfinite(at_least) || std::isfinite(at_most); }
};

struct experiment {
  std::string path;
  std::string title;
  std::string claim;            ///< of the source, in a sentence
  std::string note;             ///< what a reader has to know of the figures
  std::string needs;            ///< what has to be there first, beside Fashion-MNIST
  std::uint32_t minutes = 0;    ///< that it takes, about; 0: not known
  std::vector<std::string> gpu; ///< further changes of live parts with --scale gpu
  std::vector<experiment_part> parts;
  std::vector<experiment_finding> findings;
};

struct experiment_result {
  experiment of; ///< holds only when `errors` is empty
  std::vector<settings::file_error> errors;
};
experiment_result parse_experiment_text(const std::string& text, const std::string& path);
experiment_result read_experiment(const std::string& path);
/// Its fields, as the Markdown tables of docs/experiments.md.
std::string describe_experiment_markdown();

/// The outcome of one finding.
struct judged_finding {
  bool has_rows = false;        ///< of what is compared
  std::optional<double> value;  ///< none: a run failed or never reached the target
  std::optional<double> lowest; ///< over clusters, where there are several
  std::optional<double> highest;
  std::optional<bool> holds; ///< none: without a value, or the file sets no bound
};

/// The tables of one part, a cluster each.
struct part_tables {
  std::string part;
  std::vector<comparison> clusters;
};
judged_finding judge(const experiment_finding& finding, const std::vector<part_tables>& tables);

/// "finding", "found", "wanted", "holds": header first.
std::vector<std::vector<std::string>> finding_cells(const experiment& of, const std::vector<part_tables>& tables);
/// Claim and findings, for the terminal.
std::string to_text(const experiment& of, const std::vector<part_tables>& tables);
/// The same as Markdown, with the tables of all parts behind it.
std::string to_markdown(const experiment& of, const std::vector<part_tables>& tables, const std::string& command);
/// The same as a page with charts, in one file; empty where the program was built without it.
std::string to_page(const experiment& of, const std::vector<part_tables>& tables, const std::string& command);

} // namespace dynamix::node
