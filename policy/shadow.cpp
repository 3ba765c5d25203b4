#include "policy/shadow.hpp"

#include <fmt/core.h>
#include <string>
#include <utility>

namespace dynamix::policy {
namespace {

class shadow_controller final : public controller {
public:
  explicit shadow_controller(std::unique_ptr<controller> decider) : decider_(std::move(decider)) {}

  std::string name() const override { return decider_->name(); }
  std::string adopt(const messages::policy_version& version) override { return decider_->adopt(version); }
  std::uint64_t version() const override { return decider_->version(); }
  std::string guard_view() const override { return decider_->guard_view(); }

  void survey(const observation& all, ruling& result) const override { decider_->survey(all, result); }
  std::vector<choice> propose(const observation& own, const ruling& known) override {
    return decider_->propose(own, known);
  }
  std::string untrained(const observation& own, const std::vector<choice>& choices) const override {
    return decider_->untrained(own, choices);
  }
  void rule(const observation& all, const std::vector<choice>& proposals, const std::string& untrained,
            ruling& result) override {
    decider_->rule(all, proposals, untrained, result);
  }
  void settle(const observation& own, const ruling& known, std::vector<choice>& choices) override {
    decider_->settle(own, known, choices);
    withhold(own, choices);
  }

private:
  static void withhold(const observation& observed, std::vector<choice>& choices) {
    for (std::size_t i = 0; i < choices.size(); ++i) {
      auto& made = choices[i];
      made.proposed = std::exchange(made.batch, observed.assigned[i]);
      made.action = -1;
      made.reason = fmt::format("shadow: would set {}: {}", made.proposed, made.reason);
    }
  }

  std::unique_ptr<controller> decider_;
};

} // namespace

std::unique_ptr<controller> make_shadow(std::unique_ptr<controller> decider) {
  return std::make_unique<shadow_controller>(std::move(decider));
}

} // namespace dynamix::policy
