#include "policy/shadow.hpp"

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

  std::vector<choice> decide(const observation& observed) override {
    auto choices = decider_->decide(observed);
    for (std::size_t i = 0; i < choices.size(); ++i) {
      auto& made = choices[i];
      made.proposed = std::exchange(made.batch, observed.assigned[i]);
      made.action = -1;
      made.reason = "shadow: would set " + std::to_string(made.proposed) + ": " + made.reason;
    }
    return choices;
  }

private:
  std::unique_ptr<controller> decider_;
};

} // namespace

std::unique_ptr<controller> make_shadow(std::unique_ptr<controller> decider) {
  return std::make_unique<shadow_controller>(std::move(decider));
}

} // namespace dynamix::policy
