#include "node/training/loaded_trainer.hpp"

#include "node/launch/child_process.hpp"
#include "node/reports/commit.hpp"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <fmt/core.h>
#include <stdexcept>

namespace dynamix::node {
namespace {

std::string install(const std::string& which) {
  return fmt::format("install the package {}{}, or name its {} in $DYNAMIX_TRAINER", trainer_package, which,
                     trainer_library);
}

/// A symbol of C linkage, called.
template <class Result>
Result call(void* library, const char* name) {
  const auto found = reinterpret_cast<Result (*)()>(::dlsym(library, name));
  return found == nullptr ? nullptr : found();
}

} // namespace

std::vector<std::filesystem::path> trainer_places(const std::filesystem::path& directory, const std::string& named) {
  if (!named.empty())
    return {named};
  return {directory / trainer_library, directory.parent_path() / "lib" / "dynamix" / trainer_library};
}

loaded_trainer load_trainer(const std::vector<std::filesystem::path>& places, const std::string& version) {
  std::error_code ignored;
  const auto place =
      std::ranges::find_if(places, [&](const auto& each) { return std::filesystem::exists(each, ignored); });
  if (place == places.end()) {
    std::string looked_for;
    for (const auto& each : places)
      looked_for += (looked_for.empty() ? "" : " and no ") + each.string();
    return {.problem = fmt::format("what trains is not installed: there is no {}; {}", looked_for, install(""))};
  }
  // Its symbols are its own, and what it lacks is told here, not in the middle of training.
  void* const library = ::dlopen(place->c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const auto* const reason = ::dlerror();
    return {.problem = fmt::format("what trains cannot be loaded: {}; {}", reason == nullptr ? place->string() : reason,
                                   install(""))};
  }
  // Nothing else of it is looked at before: another version's interface is another.
  const auto* const its_version = call<const char*>(library, "dynamix_trainer_version");
  const auto* const module = its_version != nullptr && its_version == version
                                 ? call<const trainer::training_module*>(library, "dynamix_trainer_module")
                                 : nullptr;
  if (module == nullptr)
    return {.problem = fmt::format("{} is of {}, not of {}; {}", place->string(),
                                   its_version == nullptr ? "another program" : its_version, version,
                                   install(" of the same version"))};
  return {.module = module, .problem = {}};
}

const loaded_trainer& own_trainer() {
  static const auto loaded = [] {
    // Not where the program has privileges that who starts it has not: their library would get them.
    const auto* const named = ::secure_getenv("DYNAMIX_TRAINER");
    return load_trainer(
        trainer_places(std::filesystem::path(own_program()).parent_path(), named == nullptr ? "" : named),
        program_version());
  }();
  return loaded;
}

std::optional<cluster::file_error> refuse_learning(const cluster::cluster_file& file) {
  if (!policy::learns(file) || own_trainer().module != nullptr)
    return std::nullopt;
  return cluster::error_at(file, "arbitrator.mode",
                           fmt::format("arbitrator.mode is \"train\", and {}; mode = \"infer\" needs nothing",
                                       own_trainer().problem));
}

std::unique_ptr<policy::learner> make_learner(const cluster::cluster_file& file,
                                              const std::vector<std::uint8_t>& saved) {
  if (!policy::learns(file))
    return nullptr;
  const auto& loaded = own_trainer();
  if (loaded.module == nullptr)
    throw std::runtime_error(loaded.problem);
  loaded.module->set_compute_threads(1);
  return loaded.module->make_learner(file, saved);
}

} // namespace dynamix::node
