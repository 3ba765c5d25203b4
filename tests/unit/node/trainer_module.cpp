/// What commands load that a test runs in its own process: the trainer of this build.

#include <cstdlib>

namespace {

[[maybe_unused]] const int named = ::setenv("DYNAMIX_TRAINER", DYNAMIX_TRAINER_MODULE, 0);

} // namespace
