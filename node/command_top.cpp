#include "node/command.hpp"
#include "node/full_screen.hpp"
#include "node/live_output.hpp"
#include "node/top_source.hpp"
#include "node/top_view.hpp"
#include "storage/atomic_file.hpp"

#include <memory>
#include <ostream>
#include <unistd.h>

namespace dynamix::node {
namespace {

constexpr std::chrono::milliseconds interval{1000};
constexpr std::size_t plain_height = 10000;

struct top_arguments {
  std::string url = "http://127.0.0.1:8080";
  std::string run;
  std::string token_file;
};

/// The newest state; what was there before where there is none now.
std::optional<top_state> read_state(top_source& source, std::string& problem) {
  problem.clear();
  const auto text = source.read(problem);
  auto state = parse_top_state(text);
  if (problem.empty() && !state)
    problem = "the answer is not the state of a run";
  return state;
}

int print_once(top_source& source, command_context& context) {
  std::string problem;
  const auto state = read_state(source, problem);
  if (!state)
    return refuse(context.err, problem);
  for (const auto& line : draw(*state, {.width = 200, .height = plain_height, .colour = false}))
    context.out << line << "\n";
  return exit_done;
}

int watch(top_source& source, const output_style& style) {
  full_screen screen;
  std::string problem;
  std::optional<top_state> state;
  auto due = std::chrono::steady_clock::now();
  for (char key = 0; key != 'q' && key != 'Q';) {
    if (std::chrono::steady_clock::now() >= due) {
      if (auto read = read_state(source, problem))
        state = std::move(read);
      due = std::chrono::steady_clock::now() + interval;
    }
    const auto [width, height] = screen.look();
    std::vector<std::string> lines;
    if (state)
      lines = draw(*state, {.width = width, .height = height - 1, .colour = style.colour});
    lines.push_back(cut(problem.empty() ? "q quits" : problem + "  (q quits)", width));
    screen.show(lines);
    key = screen.wait(std::chrono::milliseconds(200));
  }
  return exit_done;
}

int top(const top_arguments& arguments, command_context& context) {
  std::string token;
  if (!arguments.token_file.empty()) {
    if (const auto problem = storage::read_file(arguments.token_file, 4096, token); !problem.empty())
      return refuse(context.err, "--token-file: " + problem);
    token.erase(token.find_last_not_of(" \r\n\t") + 1);
  }
  const auto source =
      arguments.run.empty() ? make_page_source(arguments.url, token) : make_ledger_source(arguments.run);
  const auto style = output_style::detect();
  if (!style.redraw || ::isatty(STDIN_FILENO) != 1)
    return print_once(*source, context);
  return watch(*source, style);
}

} // namespace

void add_top(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<top_arguments>();
  auto* command = app.add_subcommand("top", "Watch a running cluster in the terminal; q quits. Printed once where the "
                                            "output is no terminal");
  auto* url = command->add_option("--url", arguments->url, "Its page")->capture_default_str();
  command->add_option("--run", arguments->run, "Run directory to read instead, of a running or finished run")
      ->excludes(url);
  command->add_option("--token-file", arguments->token_file, "File with the page's bearer token");
  command->callback(
      [arguments, &context] { context.work = [arguments, &context] { return top(*arguments, context); }; });
}

} // namespace dynamix::node
