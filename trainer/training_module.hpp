#pragma once

/// All that needs Torch, behind one interface. A program that only sometimes trains loads it as a shared library
/// (node/training/). Includes no Torch.

#include "policy/learner.hpp"
#include "trainer/session.hpp"
#include "trainer/step_time_measurement.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dynamix::trainer {

/// The functions of the same names, and what Torch is there.
class training_module {
public:
  virtual ~training_module() = default;

  virtual preflight_problem preflight(const cluster::cluster_file& file) const = 0;
  virtual std::unique_ptr<session> make_session(session_options options, clock& time) const = 0;
  virtual step_time_measurement measure_step_times(const step_time_request& request, clock& time,
                                                   const std::function<void(const std::string&)>& progress) const = 0;
  virtual std::unique_ptr<policy::learner> make_learner(const cluster::cluster_file& file,
                                                        const std::vector<std::uint8_t>& saved) const = 0;
  virtual void set_compute_threads(int threads) const = 0;

  virtual std::string torch_version() const = 0; ///< "2.13.0"
  virtual bool torch_has_cuda() const = 0;       ///< built with it, whether or not there is a device
};

/// Of a program that links the trainer itself.
const training_module& linked_module();

} // namespace dynamix::trainer
