#include "ledger/line_reader.hpp"
#include "node/commands/command.hpp"
#include "node/launch/run_directory.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ostream>
#include <poll.h>
#include <unistd.h>

namespace dynamix::node {
namespace {

constexpr int look_again_ms = 100;

struct ledger_arguments {
  std::string run;
  std::uint64_t from = 0;
  bool places = false;
  bool follow = false;
};

/// Waits a little. False once nobody reads standard output any more: a broken pipe is noticed without writing.
bool is_read() {
  pollfd out{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  return ::poll(&out, 1, look_again_ms) <= 0;
}

int print_ledger(const ledger_arguments& arguments, command_context& context) {
  const run_directory run(arguments.run);
  const auto path = run.ledger();
  if (const auto problem = why_no_run(run); !problem.empty() && !arguments.follow) // else it may come yet
    return refuse(context.err, problem);
  std::error_code ignored;
  if (!arguments.follow && !std::filesystem::exists(path, ignored))
    return refuse(context.err, "there is no ledger " + path);
  ledger::line_reader lines(path);
  if (arguments.from > 0)
    lines.skip_to(arguments.from - 1); // it goes to the line behind
  auto from = arguments.from;
  do {
    for (std::string line; lines.next(line);) {
      if (lines.began_anew())
        from = 0;
      if (lines.position() <= from)
        continue;
      if (arguments.places)
        context.out << lines.position() << ' ';
      context.out << line << '\n';
    }
    context.out.flush();
    if (const auto problem = lines.take_problem(); !problem.empty())
      context.err << "dynamix-node: warning: " << problem << "\n";
  } while (arguments.follow && context.out && is_read());
  if (!arguments.follow && arguments.from > lines.size()) // as where another ledger has taken the path
    context.err << "dynamix-node: warning: --from is " << arguments.from << ", and the ledger ends at " << lines.size()
                << ": it is printed from its beginning\n";
  return context.out ? exit_done : exit_failed;
}

} // namespace

void add_ledger(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<ledger_arguments>();
  auto* command = app.add_subcommand("ledger", "Print a run's ledger, all its parts as one: a JSON object per line");
  command->add_option("--run", arguments->run, "Run directory")->required();
  command->add_option("--from", arguments->from, "Begin at this place in the ledger, in bytes")->check(refuse_number);
  command->add_flag("--places", arguments->places, "Print before each line the place of the next one");
  command->add_flag("--follow", arguments->follow,
                    "Go on with what is appended, until nobody reads the output any more");
  add_work(*command, context, arguments, print_ledger);
}

} // namespace dynamix::node
