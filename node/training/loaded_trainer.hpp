#pragma once

/// What trains, loaded where somebody trains or learns: the program itself links no Torch.

#include "trainer/training_module.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dynamix::node {

/// What the shared library is called, and the package that has it.
inline constexpr auto trainer_library = "libdynamix-trainer.so";
inline constexpr auto trainer_package = "dynamix-trainer";

struct loaded_trainer {
  const trainer::training_module* module = nullptr; ///< as long as the process lives; null: `problem` says why
  std::string problem;                              ///< a sentence for a person
};

/// Where the library of a program in `directory` may be, the first that exists counts: beside the program, as it is
/// built, or in ../lib/dynamix, as it is installed. `named` ($DYNAMIX_TRAINER) takes the place of both; empty: not
/// given.
std::vector<std::filesystem::path> trainer_places(const std::filesystem::path& directory, const std::string& named);

/// Loads the first that exists, unless it is not of `version` (program_version()).
loaded_trainer load_trainer(const std::vector<std::filesystem::path>& places, const std::string& version);

/// Whether the library of this program is there; it is not loaded.
bool trainer_is_installed();

/// That of this program, loaded once. Thread-safe.
const loaded_trainer& own_trainer();

/// Why a file whose policy learns cannot be run here; nothing where it can.
std::optional<cluster::file_error> refuse_learning(const cluster::cluster_file& file);

/// policy::make_learner for simulations, whose tensors are small and whose environments have the cores: it computes
/// with one thread. Throws std::runtime_error where there is something to learn and nothing to learn it with.
std::unique_ptr<policy::learner> make_learner(const cluster::cluster_file& file,
                                              const std::vector<std::uint8_t>& saved);

} // namespace dynamix::node
