#include "ledger/explanation.hpp"
#include "ledger/file.hpp"
#include "ledger/replay.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/launch/run_directory.hpp"
#include "policy/parameter_archive.hpp"

#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

struct explain_arguments {
  std::string run;
  std::uint64_t window = 0; ///< 0: the newest
  std::string worker;
  bool all = false;
  bool replay = false;
  bool json = false;
};

int replay_run(const explain_arguments& arguments, const std::vector<ledger::row>& rows, command_context& context) {
  const run_directory run(arguments.run);
  const auto file = load_cluster_file(run.cluster_file(), context.err);
  if (!file)
    return exit_refused;
  const policy::parameter_archive archive(run.policies());
  const auto result =
      ledger::replay(rows, *file, [&archive](const std::string& digest, std::vector<std::uint8_t>& parameters) {
        return archive.read(digest, parameters);
      });
  context.out << (arguments.json ? to_json(result) : to_text(result));
  return result.proven() ? exit_done : exit_failed;
}

int explain_window(const explain_arguments& arguments, command_context& context) {
  const run_directory run(arguments.run);
  auto error = why_no_run(run);
  if (!error.empty())
    return refuse(context.err, error);
  const auto rows = ledger::read_file(run.ledger(), error);
  if (!error.empty())
    return refuse(context.err, "--run: " + error);
  if (arguments.replay)
    return replay_run(arguments, rows, context);
  const auto explanation = ledger::explain(rows, arguments.window, arguments.worker, error);
  if (!error.empty())
    return refuse(context.err, error);
  if (arguments.json) {
    context.out << to_json(explanation);
    return exit_done;
  }
  context.out << to_text(explanation,
                         arguments.all ? ledger::explanation_detail::all : ledger::explanation_detail::summary);
  if (!arguments.all)
    context.out << "\n--worker NAME tells more of one worker, and --all what the policy saw.\n";
  return exit_done;
}

} // namespace

void add_explain(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<explain_arguments>();
  auto* command = app.add_subcommand("explain", "Say why batch sizes are what they are, and what came of a decision");
  command->add_option("--run", arguments->run, "Run directory")->required();
  auto* window =
      command->add_option("--window", arguments->window, "Window, from 1 (default: the newest that was decided)")
          ->check(refuse_number)
          ->check([](const std::string& text) {
            return text.find_first_not_of('0') == std::string::npos ? std::string("windows are counted from 1")
                                                                    : std::string();
          });
  auto* worker = command->add_option("--worker", arguments->worker, "Only this worker (default: all)");
  command->add_flag("--all", arguments->all,
                    "Also what the policy saw of each worker, and the probabilities of its actions");
  command
      ->add_flag("--replay", arguments->replay,
                 "Decide every window of the ledger again and compare; exit code 1 where one comes out differently")
      ->excludes(window)
      ->excludes(worker);
  command->add_flag("--json", arguments->json, "Print JSON: an object for each worker, or the replay's verdict");
  add_work(*command, context, arguments, explain_window);
}

} // namespace dynamix::node
