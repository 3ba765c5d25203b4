#include "node/commands/command.hpp"

#include <CLI/CLI.hpp>

#include <fmt/format.h>
#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

constexpr const char* bash_script =
    R"(# Completes the commands and options of dynamix-node in bash, and files elsewhere.
_dynamix_node() {{
  local words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    words="{commands}"
  elif [[ "$2" == -* ]]; then
    case "${{COMP_WORDS[1]}}" in
{cases}    esac
  fi
  mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}}
complete -o default -F _dynamix_node dynamix-node
)";

constexpr const char* zsh_script = R"(#compdef dynamix-node
# Completes the commands and options of dynamix-node in zsh, and files elsewhere.
_dynamix_node() {{
  local -a choices
  if (( CURRENT == 2 )); then
    choices=({commands})
    _describe -t commands command choices
  elif [[ $PREFIX == -* ]]; then
    case $words[2] in
{cases}    esac
    _describe -o -t options option choices
  else
    _files
  fi
}}
if [ "$funcstack[1]" = "_dynamix_node" ]; then
  _dynamix_node "$@"
else
  compdef _dynamix_node dynamix-node
fi
)";

struct choice {
  std::string word;
  std::string about;
};

std::vector<choice> options_of(const CLI::App& command) {
  std::vector<choice> found;
  for (const auto* option : command.get_options())
    for (const auto& name : option->get_lnames())
      found.push_back({"--" + name, option->get_description()});
  return found;
}

/// Choices with blanks between them; zsh's with what each is about.
std::string joined(const std::vector<choice>& choices, bool zsh) {
  std::string text;
  for (const auto& [word, about] : choices) {
    text += text.empty() ? "" : " ";
    if (!zsh) {
      text += word;
      continue;
    }
    text += "'" + word + ":";
    for (const char letter : about)
      text += letter == '\'' ? "'\\''" : letter == '\n' ? " " : std::string(1, letter);
    text += "'";
  }
  return text;
}

int print_script(const CLI::App& app, bool zsh, command_context& context) {
  std::vector<choice> commands;
  std::string cases;
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back({command->get_name(), command->get_description()});
    const auto options = joined(options_of(*command), zsh);
    cases += fmt::format(fmt::runtime(zsh ? "      {}) choices=({}) ;;\n" : "      {}) words=\"{}\" ;;\n"),
                         command->get_name(), options);
  }
  context.out << fmt::format(fmt::runtime(zsh ? zsh_script : bash_script), fmt::arg("commands", joined(commands, zsh)),
                             fmt::arg("cases", cases));
  return exit_done;
}

} // namespace

void add_completion(CLI::App& app, command_context& context) {
  auto shell = std::make_shared<std::string>();
  auto* command = app.add_subcommand(
      "completion", "Print a shell's completion script; for bash: source <(dynamix-node completion bash)");
  command->add_option("shell", *shell, "bash or zsh")->required()->check(CLI::IsMember({"bash", "zsh"}));
  command->callback([shell, &app, &context] {
    context.work = [shell, &app, &context] { return print_script(app, *shell == "zsh", context); };
  });
}

} // namespace dynamix::node
