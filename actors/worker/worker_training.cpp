#include "actors/worker/worker_training.hpp"

#include "actors/worker/client_run.hpp"
#include "actors/worker/training_run.hpp"

namespace dynamix::actors {

std::shared_ptr<worker_training> make_training(const training_options& options) {
  if (options.file->training.trainer == cluster::trainer_kind::client)
    return std::make_shared<client_run>(options);
  return std::make_shared<training_run>(options);
}

} // namespace dynamix::actors
