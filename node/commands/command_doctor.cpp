#include "cluster/cluster_file.hpp"
#include "cluster/text_table.hpp"
#include "node/commands/command.hpp"
#include "node/reports/text.hpp"
#include "telemetry/survey.hpp"
#include "trainer/session.hpp"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <link.h>
#include <memory>
#include <ostream>
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
  return {"BLAS", false,
          "no OpenBLAS, MKL or BLIS is loaded; the reference BLAS trains at about half the speed. "
          "apt-get install libopenblas0-pthread"};
}

finding cuda() {
  const bool device = std::filesystem::exists("/dev/nvidiactl");
  if (!DYNAMIX_TORCH_CUDA)
    return {"CUDA", false,
            std::string("LibTorch ") + DYNAMIX_TORCH_VERSION + " is built without it" +
                (device ? ", although there is an NVIDIA device" : ", and no NVIDIA device is seen") +
                "; build against an upstream LibTorch with CUDA (CMAKE_PREFIX_PATH) to use one"};
  return {"CUDA", device,
          device ? "LibTorch has it, and there is an NVIDIA device" : "LibTorch has it, but no NVIDIA device is seen"};
}

finding data_set() {
  const cluster::cluster_file defaults;
  const auto problem = trainer::preflight(defaults).message;
  if (problem.empty())
    return {"Fashion-MNIST", true, defaults.training.data_path};
  return {"Fashion-MNIST", false, problem + "; apt-get install dataset-fashion-mnist"};
}

std::vector<finding> examine() {
  const double gibibytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE)) / (1U << 30);
  std::vector<finding> found = {{"cores", true, std::to_string(std::thread::hardware_concurrency())},
                                {"memory", true, fixed(gibibytes, 1) + " GiB"}};
  for (const auto& source : telemetry::advise(telemetry::survey_machine()))
    found.push_back({.subject = source.signal + " telemetry",
                     .good = source.level != messages::signal_source::none,
                     .detail = source.source + ": " + source.detail,
                     .command = source.command});
  found.push_back({"LibTorch", true, DYNAMIX_TORCH_VERSION});
  found.push_back(cuda());
  found.push_back(blas());
  found.push_back(data_set());
  return found;
}

int doctor(bool json, command_context& context) {
  const auto found = examine();
  if (json) {
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
  auto json = std::make_shared<bool>(false);
  auto* command =
      app.add_subcommand("doctor", "Say what this machine can measure and accelerate, and how to get the rest");
  command->add_flag("--json", *json, "Print JSON");
  command->callback([json, &context] { context.work = [json, &context] { return doctor(*json, context); }; });
}

} // namespace dynamix::node
