#include "trainer/compute_threads.hpp"
#include "trainer/training_module.hpp"

#include <torch/torch.h>
#include <torch/version.h>

#include <utility>

namespace dynamix::trainer {
namespace {

class linked final : public training_module {
public:
  preflight_problem preflight(const cluster::cluster_file& file) const override { return trainer::preflight(file); }

  std::unique_ptr<session> make_session(session_options options, clock& time) const override {
    return std::make_unique<session>(std::move(options), time);
  }

  step_time_measurement measure_step_times(const step_time_request& request, clock& time,
                                           const std::function<void(const std::string&)>& progress) const override {
    return trainer::measure_step_times(request, time, progress);
  }

  std::unique_ptr<policy::learner> make_learner(const cluster::cluster_file& file,
                                                const std::vector<std::uint8_t>& saved) const override {
    return policy::make_learner(file, saved);
  }

  void set_compute_threads(int threads) const override { trainer::set_compute_threads(threads); }
  std::string torch_version() const override { return TORCH_VERSION; }
  bool torch_has_cuda() const override { return at::show_config().find("USE_CUDA=ON") != std::string::npos; }
};

} // namespace

const training_module& linked_module() {
  static const linked module;
  return module;
}

} // namespace dynamix::trainer
