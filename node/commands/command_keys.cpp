#include "cluster/places.hpp"
#include "links/identity.hpp"
#include "links/key_directory.hpp"
#include "node/commands/cluster_options.hpp"
#include "node/commands/command.hpp"
#include "node/launch/keys.hpp"
#include "node/reports/text.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <memory>
#include <ostream>

namespace dynamix::node {
namespace {

struct keys_arguments {
  std::string cluster;
  std::string keys;
  std::string host;
  std::int64_t days = 365;
  std::vector<std::string> set;
};

/// What a command needs: its cluster file, where its keys are, and what to ask the room `links` for.
struct keys_task {
  cluster::cluster_file file;
  std::string directory;
  links::key_request request;
};

std::optional<keys_task> prepare(const keys_arguments& arguments, std::ostream& err) {
  auto file = load_cluster_file(arguments.cluster, err, changes_of(arguments.set));
  if (!file)
    return std::nullopt;
  auto directory = arguments.keys.empty() ? key_directory_of(*file) : arguments.keys;
  if (directory.empty())
    directory = cluster::resolve_path(*file, "keys");
  while (directory.size() > 1 && directory.ends_with('/'))
    directory.pop_back();
  auto request = key_request_of(*file);
  request.host_days = arguments.days;
  return keys_task{std::move(*file), std::move(directory), std::move(request)};
}

std::string copy_hint(const std::string& directory) {
  return fmt::format("Copy {0}/hosts/NAME to the same place on host NAME; {0}/README.txt says how.\n", directory);
}

int init(const keys_arguments& arguments, command_context& context) {
  const auto task = prepare(arguments, context.err);
  if (!task)
    return exit_refused;
  if (const auto problem = links::make_keys(task->directory, task->request); !problem.empty())
    return fail(context.err, problem);
  context.out << fmt::format("Made an authority and the certificates of {} hosts in {}, valid for {} days.\n",
                             task->request.hosts.size(), task->directory, task->request.host_days)
              << copy_hint(task->directory)
              << fmt::format(
                     "Then take {}/authority away from machines that others use: it can pretend to be any host.\n",
                     task->directory);
  if (task->file.security.keys.empty())
    context.out << fmt::format("{} does not name the directory yet; add\n    [security]\n    keys = \"{}\"\n",
                               arguments.cluster, arguments.keys.empty() ? "keys" : task->directory);
  return exit_done;
}

int issue(const keys_arguments& arguments, command_context& context) {
  const auto task = prepare(arguments, context.err);
  if (!task)
    return exit_refused;
  if (task->file.find(arguments.host) == nullptr &&
      (task->file.membership != cluster::membership_kind::open || !cluster::is_host_name(arguments.host)))
    return refuse(context.err, "--host is " + arguments.host + ", which is not a host of " + arguments.cluster);
  if (const auto problem = links::issue_keys(task->directory, arguments.host, task->request); !problem.empty())
    return fail(context.err, problem);
  context.out << fmt::format("Made a new key and certificate of host {0} in {1}/hosts/{0}, valid for {2} days.\n",
                             arguments.host, task->directory, task->request.host_days)
              << copy_hint(task->directory)
              << "The certificate before stays valid until it expires: if its key was stolen, use keys rotate.\n";
  return exit_done;
}

std::string_view told(links::rotation_step made) {
  switch (made) {
  case links::rotation_step::introduced:
    return "Step 1 of 3: hosts will accept a second authority. Copy the directories to all hosts, then run this "
           "again.\n";
  case links::rotation_step::switched:
    return "Step 2 of 3: all hosts have new keys, of the second authority, and still accept certificates of the first. "
           "Copy the directories to all hosts, then run this again.\n";
  case links::rotation_step::finished:
    break;
  }
  return "Step 3 of 3: hosts will accept certificates of the second authority alone. Copy the directories to all "
         "hosts; "
         "then what the first had signed is worthless. Connections that are open stay open: restart a host to end "
         "them.\n";
}

int rotate(const keys_arguments& arguments, command_context& context) {
  const auto task = prepare(arguments, context.err);
  if (!task)
    return exit_refused;
  links::rotation_step made{};
  if (const auto problem = links::rotate_keys(task->directory, task->request, made); !problem.empty())
    return fail(context.err, problem);
  context.out << told(made) << copy_hint(task->directory);
  return exit_done;
}

int show(const keys_arguments& arguments, command_context& context) {
  const auto task = prepare(arguments, context.err);
  if (!task)
    return exit_refused;
  std::vector<links::listed_certificate> found;
  if (const auto problem = links::list_keys(task->directory, found); !problem.empty())
    return fail(context.err, problem);
  for (const auto& [path, facts] : found)
    context.out << fmt::format("{}\n    {}\n    valid until {}\n    SHA-256 {}\n", path,
                               facts.is_authority ? facts.subject : "host " + facts.name,
                               links::time_text(facts.valid.until_seconds), facts.fingerprint);
  for (const auto& [path, facts] : found)
    if (const auto warning = links::renewal_warning(facts, task->request.now_seconds); !warning.empty())
      context.err << "warning: " << warning << "\n";
  for (const auto& host : task->request.hosts)
    if (std::ranges::find(found, host, [](const auto& each) { return each.facts.name; }) == found.end())
      context.err << fmt::format(
          "warning: host {0} has no certificate here; dynamix-node keys issue --cluster {1} --host {0}\n", host,
          shell_quoted(arguments.cluster));
  return exit_done;
}

using keys_work = int (*)(const keys_arguments&, command_context&);

CLI::App* add_one(CLI::App& keys, command_context& context, const char* name, const char* help, keys_work work,
                  const std::shared_ptr<keys_arguments>& arguments) {
  auto* command = keys.add_subcommand(name, help);
  command->add_option("--cluster", arguments->cluster, "Cluster file, which names the hosts")->required();
  command->add_option("--keys", arguments->keys,
                      "Directory of the keys (default: security.keys of the file, or keys beside it)");
  add_set(*command, arguments->set);
  add_work(*command, context, arguments, work);
  return command;
}

} // namespace

void add_keys(CLI::App& app, command_context& context) {
  auto arguments = std::make_shared<keys_arguments>();
  auto* keys = app.add_subcommand("keys", "Make and renew host keys");
  keys->require_subcommand(1);
  auto* init_command =
      add_one(*keys, context, "init", "Make an authority, and a key and certificate for each host", init, arguments);
  auto* issue_command =
      add_one(*keys, context, "issue", "Make a new key and certificate for one host", issue, arguments);
  auto* rotate_command = add_one(
      *keys, context, "rotate",
      "Replace the authority and all keys, in three steps between which the directories are copied to the hosts",
      rotate, arguments);
  add_one(*keys, context, "show", "Print names, ends of validity and fingerprints; warn of what ends within 30 days",
          show, arguments);
  issue_command
      ->add_option("--host", arguments->host,
                   "Name of the host in the cluster file, or of one that is to join an open cluster")
      ->required();
  constexpr std::int64_t days_max = 3650;
  for (auto* command : {init_command, issue_command, rotate_command})
    command->add_option("--days", arguments->days, "Days for which hosts' certificates are valid (default: 365)")
        ->check(CLI::Range(std::int64_t{1}, days_max));
}

} // namespace dynamix::node
