/// What libdynamix-trainer.so exports, and nothing else (exports.map).

#include "node/reports/commit.hpp"
#include "trainer/training_module.hpp"

extern "C" {

/// The version of the program whose module this is: the only thing that one of another version may ask.
const char* dynamix_trainer_version() {
  static const auto version = dynamix::node::program_version();
  return version.c_str();
}

const dynamix::trainer::training_module* dynamix_trainer_module() {
  return &dynamix::trainer::linked_module();
}
}
