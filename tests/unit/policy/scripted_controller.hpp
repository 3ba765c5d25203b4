#pragma once

/// A controller that does what a test says, as a learned policy would.

#include "policy/controller.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace dynamix::policy::testing {

class scripted_controller final : public controller {
public:
  using script = std::function<std::vector<choice>(const observation&)>;
  explicit scripted_controller(script propose) : script_(std::move(propose)) {}

  std::string name() const override { return "scripted"; }
  std::vector<choice> propose(const observation& own, const ruling&) override { return script_(own); }
  bool learns() const override { return true; }
  std::string adopt(const messages::policy_version& version) override {
    version_ = version.version;
    return version_ == 13 ? "unlucky" : "";
  }
  std::uint64_t version() const override { return version_; }

private:
  script script_;
  std::uint64_t version_ = 0;
};

/// Choices of these batch sizes, with numbers as a network gives them.
inline std::vector<choice> choices_of(const observation& observed, const std::vector<std::uint32_t>& batches) {
  std::vector<choice> choices;
  for (std::size_t i = 0; i < batches.size(); ++i)
    choices.push_back({.rank = observed.report->reports[i].rank,
                       .batch = batches[i],
                       .action = 1,
                       .probabilities = {0.25F, 0.75F},
                       .log_probability = -0.3F,
                       .value = 1.5F,
                       .reason = "as scripted"});
  return choices;
}

} // namespace dynamix::policy::testing
