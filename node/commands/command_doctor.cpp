#include "cluster/cluster_file.hpp"
#include "cluster/text_table.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/launch/keys.hpp"
#include "node/launch/probe.hpp"
#include "node/reports/text.hpp"
#include "node/training/loaded_trainer.hpp"
#include "telemetry/cgroup_limits.hpp"
#include "telemetry/survey.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <link.h>
#include <memory>
#include <ostream>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace dynamix::node {
namespace {

struct finding {
  std::string subject;
  bool good = true;
  std::string detail;  ///< what there is, and how to get the rest
  std::string command; ///< that would improve it, to be typed as it is
};

/// The path of the first loaded library whose path contains one of `names`.
std::string loaded_library(std::vector<std::string> names) {
  std::pair<std::vector<std::string>, std::string> search{std::move(names), {}};
  dl_iterate_phdr(
      [](dl_phdr_info* library, std::size_t, void* data) {
        auto& [wanted, found] = *static_cast<decltype(search)*>(data);
        const std::string path = library->dlpi_name;
        for (const auto& name : wanted)
          if (path.find(name) != std::string::npos)
            found = path;
        return found.empty() ? 0 : 1;
      },
      &search);
  return search.second;
}

finding blas() {
  const std::string fast = loaded_library({"openblas", "libmkl", "libblis"});
  if (!fast.empty())
    return {"BLAS", true, fast};
  if (loaded_library({"libblas"}).empty())
    return {"BLAS", true, "the one that LibTorch was built with"}; // as pip's was, with MKL
  return {"BLAS", false,
          "no OpenBLAS, MKL or BLIS is loaded; the reference BLAS trains at about half the speed. "
          "apt-get install libopenblas0-pthread"};
}

finding cuda(const trainer::training_module& module) {
  const bool device = std::filesystem::exists("/dev/nvidiactl");
  if (!module.torch_has_cuda())
    return {
        "CUDA", false,
        "LibTorch " + module.torch_version() + " is built without it" +
            (device ? ", although there is an NVIDIA device" : ", and no NVIDIA device is seen") +
            "; to use one, build on a PyTorch that has it (activate its virtual environment, or -DDYNAMIX_TORCH=...)"};
  return {"CUDA", device,
          device ? "LibTorch has it, and there is an NVIDIA device" : "LibTorch has it, but no NVIDIA device is seen"};
}

finding data_set(const trainer::training_module& module) {
  const cluster::cluster_file defaults;
  const auto problem = module.preflight(defaults).message;
  if (problem.empty())
    return {"Fashion-MNIST", true, defaults.training.data_path};
  return {"Fashion-MNIST", false, problem + "; apt-get install dataset-fashion-mnist"};
}

/// That of the default route. Its driver's word; how fast links are a run measures.
finding link() {
  const auto text_of = [](const char* path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  };
  const auto interface = default_route_interface(text_of("/proc/net/route"), text_of("/proc/net/ipv6_route"));
  if (interface.empty())
    return {"link", false, "without a default route"};
  int megabits = 0;
  const bool told = std::ifstream("/sys/class/net/" + interface + "/speed") >> megabits && megabits > 0;
  return {"link", true,
          interface + (told ? fmt::format(" of {} Mbit/s by its driver's word", megabits)
                            : ", whose driver does not say how fast it is")};
}

/// What the machine has, or "0.5 of 2" where this process's control groups leave less to it.
finding share_of(const std::string& subject, double whole, double limit, int digits, const std::string& unit) {
  const bool limited = limit > 0 && limit < whole;
  return {subject, true, (limited ? fixed(limit, 1) + " of " : "") + fixed(whole, digits) + unit};
}

std::vector<finding> examine() {
  constexpr double gibibyte = 1U << 30;
  const auto limits = telemetry::read_limits(telemetry::find_own_cgroups());
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  std::vector<finding> found = {
      share_of("cores", std::thread::hardware_concurrency(), limits.cores, 0, ""),
      share_of("memory", memory / gibibyte, static_cast<double>(limits.memory_bytes) / gibibyte, 1, " GiB"), link()};
  for (const auto& source : telemetry::advise(telemetry::survey_machine()))
    found.push_back({.subject = source.signal + " telemetry",
                     .good = source.level != messages::signal_source::none,
                     .detail = source.source + ": " + source.detail,
                     .command = source.command});
  const auto& loaded = own_trainer();
  if (loaded.module == nullptr) {
    found.push_back({"trainer", false, loaded.problem + "; agents and arbitrators that only decide need none"});
    return found;
  }
  found.push_back({"LibTorch", true, loaded.module->torch_version()});
  found.push_back(cuda(*loaded.module));
  found.push_back(blas());
  found.push_back(data_set(*loaded.module));
  return found;
}

/// Of the keys that the file names, as far as they are here.
finding keys(const cluster::cluster_file& file) {
  if (file.security.keys.empty())
    return {.subject = "keys", .good = false, .detail = file.path + " names none ([security] keys)"};
  const auto warnings = key_warnings(file);
  return {.subject = "keys",
          .good = warnings.empty(),
          .detail = warnings.empty() ? key_directory_of(file) : fmt::format("{}", fmt::join(warnings, "; "))};
}

struct doctor_arguments {
  bool json = false;
  std::string cluster;
};

int doctor(const doctor_arguments& arguments, command_context& context) {
  auto found = examine();
  if (!arguments.cluster.empty()) {
    const auto file = load_cluster_file(arguments.cluster, context.err, {});
    if (!file)
      return exit_refused;
    found.push_back(keys(*file));
  }
  if (arguments.json) {
    auto array = nlohmann::ordered_json::array();
    for (const auto& each : found)
      array.push_back(
          {{"subject", each.subject}, {"good", each.good}, {"detail", each.detail}, {"command", each.command}});
    context.out << array.dump(2) << "\n";
    return exit_done;
  }
  std::vector<std::vector<std::string>> rows = {{"subject", "", "detail"}};
  for (const auto& each : found) {
    rows.push_back({each.subject, each.good ? "yes" : "no", each.detail});
    if (!each.command.empty())
      rows.push_back({"", "", "better: " + each.command});
  }
  context.out << cluster::text_table(rows);
  return exit_done;
}

} // namespace

void add_doctor(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<doctor_arguments>();
  auto* command =
      app.add_subcommand("doctor", "Say what this machine can measure and accelerate, and how to get the rest");
  command->add_flag("--json", arguments->json, "Print JSON");
  command->add_option("--cluster", arguments->cluster, "Cluster file whose keys to look at too");
  add_work(*command, context, arguments, doctor);
}

} // namespace dynamix::node
