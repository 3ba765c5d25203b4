#include "node/training/loaded_trainer.hpp"

#include "node/launch/child_process.hpp"
#include "node/reports/commit.hpp"

#include <climits>

#include <algorithm>
#include <array>
#include <cstdio>
#include <dlfcn.h>
#include <fmt/core.h>
#include <stdexcept>
#include <sys/auxv.h>

namespace dynamix::node {
namespace {

std::string install(const std::string& which) {
  return fmt::format("install the package {}{}, or name its {} in $DYNAMIX_TRAINER", trainer_package, which,
                     trainer_library);
}

/// $DYNAMIX_TORCH, or that of the python3 on the PATH; empty where there is none.
std::string torch_directory() {
  if (const auto* const named = ::secure_getenv("DYNAMIX_TORCH"))
    return named;
  if (::getauxval(AT_SECURE) != 0) // whoever starts a program with privileges chooses no code for it
    return {};
  constexpr auto question = "python3 -c \"import importlib.util as u; s = u.find_spec('torch'); "
                            "print(s.submodule_search_locations[0] if s else '', end='')\" 2>/dev/null";
  const std::unique_ptr<FILE, int (*)(FILE*)> answer(::popen(question, "re"), &::pclose);
  std::array<char, PATH_MAX> path{};
  return {path.data(), answer ? std::fread(path.data(), 1, path.size(), answer.get()) : 0};
}

/// Loads the PyTorch that is at hand, so that what needs its libraries finds them by their names: a package's trainer
/// knows no directory of this machine.
void load_torch() {
  const auto directory = torch_directory();
  if (directory.empty())
    return;
  // CUDA's registers itself when it is loaded; a build without it has none.
  for (const auto* name : {"libc10.so", "libtorch_cpu.so", "libc10_cuda.so", "libtorch_cuda.so"})
    ::dlopen(fmt::format("{}/lib/{}", directory, name).c_str(), RTLD_NOW | RTLD_GLOBAL);
}

/// Its symbols are its own, and what it lacks is told here, not in the middle of training. Null, with the reason.
void* open_trainer(const std::filesystem::path& place, std::string& reason) {
  if (void* const library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL))
    return library;
  const auto* const said = ::dlerror();
  reason = said == nullptr ? place.string() : said;
  if (reason.find("libtorch") == std::string::npos && reason.find("libc10") == std::string::npos)
    return nullptr;
  load_torch();
  void* const library = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    reason += "; it was built with PyTorch " DYNAMIX_TORCH_VERSION
              ": activate a virtual environment that has it, or let $DYNAMIX_TORCH name its directory";
  return library;
}

/// A symbol of C linkage, called.
template <class Result>
Result call(void* library, const char* name) {
  const auto found = reinterpret_cast<Result (*)()>(::dlsym(library, name));
  return found == nullptr ? nullptr : found();
}

std::vector<std::filesystem::path> own_places() {
  // Not where the program has privileges that who starts it has not: their library would get them.
  const auto* const named = ::secure_getenv("DYNAMIX_TRAINER");
  return trainer_places(std::filesystem::path(own_program()).parent_path(), named == nullptr ? "" : named);
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
  std::string reason;
  void* const library = open_trainer(*place, reason);
  if (library == nullptr)
    return {.problem = fmt::format("what trains cannot be loaded: {}; {}", reason, install(""))};
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

bool trainer_is_installed() {
  return std::ranges::any_of(own_places(), [](const auto& each) {
    std::error_code ignored;
    return std::filesystem::exists(each, ignored);
  });
}

const loaded_trainer& own_trainer() {
  static const auto loaded = load_trainer(own_places(), program_version());
  return loaded;
}

std::optional<cluster::file_error> refuse_learning(const cluster::cluster_file& file) {
  if (!policy::learns(file) || own_trainer().module != nullptr)
    return std::nullopt;
  return cluster::error_at(
      file, "arbitrator.mode",
      fmt::format("arbitrator.mode is \"train\", and {}; mode = \"infer\" needs nothing", own_trainer().problem));
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
