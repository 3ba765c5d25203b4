#include "node/launched_process.hpp"

namespace dynamix::node {

child_options describe_process(const launch_options& options, const cluster::host& host, bool resumed) {
  const std::string threads = std::to_string(options.file.training.threads);
  child_options child{.program = options.program,
                      .arguments = {"run", "--cluster", options.run.cluster_file(), "--name", host.name,
                                    resumed ? "--resume" : "--out", options.run.path(), "--log-to-stderr"},
                      .environment = {{"OMP_NUM_THREADS", threads}, {"OPENBLAS_NUM_THREADS", threads}},
                      .output = options.run.log(host.name)};
  for (const auto& [wanted, flag] :
       {std::pair(options.insecure, "--insecure"), std::pair(options.trace, "--trace"),
        std::pair(options.log_json, "--log-json"), std::pair(options.tensorboard, "--tensorboard")})
    if (wanted)
      child.arguments.emplace_back(flag);
  if (const auto more = options.more_arguments.find(host.name); more != options.more_arguments.end())
    child.arguments.insert(child.arguments.end(), more->second.begin(), more->second.end());
  if (const auto runner = options.command_prefix.find(host.name); runner != options.command_prefix.end()) {
    child.arguments.insert(child.arguments.begin(), runner->second.begin() + 1, runner->second.end());
    child.arguments.insert(child.arguments.begin() + static_cast<std::ptrdiff_t>(runner->second.size()) - 1,
                           child.program);
    child.program = runner->second.front();
  }
  if (const auto more = options.more_environment.find(host.name); more != options.more_environment.end())
    child.environment.insert(child.environment.end(), more->second.begin(), more->second.end());
  return child;
}

} // namespace dynamix::node
