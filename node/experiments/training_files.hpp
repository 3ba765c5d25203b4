#pragma once

/// The files of policy training, all named after the policy that it makes:
///   OUT             the best version's parameters, with where they come from as metadata
///   OUT.training    everything needed to go on
///   OUT.csv         the learning curve
///   OUT with .html  the same as a page

#include "node/experiments/training_report.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace dynamix::node {

class training_files {
public:
  explicit training_files(std::string policy);

  const std::string& policy() const { return policy_; }
  std::string training() const { return policy_ + ".training"; }
  std::string curve() const { return policy_ + ".csv"; }
  const std::string& page() const { return page_; }

  // Each is written whole or not at all. Returned: an empty string, or what went wrong.
  std::string write_policy(std::span<const std::uint8_t> parameters, const training_origin& origin) const;
  std::string write_training(std::span<const std::uint8_t> saved, const training_origin& origin) const;
  std::string write_report(const training_origin& origin, const simulator::training_curve& curve,
                           const std::optional<simulator::validation_scores>& best) const;

  /// Reads what write_training wrote. `origin` comes without the policy's kind.
  std::string read_training(std::vector<std::uint8_t>& saved, training_origin& origin) const;
  std::string read_policy(std::vector<std::uint8_t>& parameters) const;

private:
  std::string policy_;
  std::string page_;
};

} // namespace dynamix::node
