#include "tests/unit/tidy/rules.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

namespace dynamix::tidy {

namespace {

bool starts_with_any(std::string_view text, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const auto& prefix) { return text.starts_with(prefix); });
}

std::string count_message(std::size_t lines, std::string_view what, std::size_t most) {
  return std::to_string(lines) + " lines" + std::string(what) + "; at most " + std::to_string(most) + " are allowed";
}

/// Findings for every match of `pattern` in `text`, which is the file's own or its code.
void find_pattern(const source_file& file, const std::string& text, const std::regex& pattern,
                  const std::string& message, std::vector<finding>& found) {
  for (auto match = std::sregex_iterator(text.begin(), text.end(), pattern); match != std::sregex_iterator(); ++match)
    found.push_back({file.path, line_of(text, static_cast<std::size_t>(match->position())), message});
}

/// Whether a brace behind `head` (the code since the last `;`, `{` or `}`) opens a namespace, a type or a linkage
/// block.
bool opens_scope(const std::string& head) {
  static const std::regex scope(
      R"(^\s*(template\s*<[^(){};]*>\s*)*(inline\s+|typedef\s+|static\s+|constexpr\s+)*(namespace|class|struct|union|enum|extern)\b)");
  // Behind macros that end without a semicolon.
  static const std::regex later_scope(R"(\n\s*(namespace|class|struct|union|enum)\b[^()]*$)");
  return std::regex_search(head, scope) || std::regex_search(head, later_scope);
}

/// Whether a brace behind `head` opens a value: the last thing before it is `=`, or an `=` outside of parentheses.
bool opens_value(const std::string& head) {
  static const std::regex special(R"(operator\s*[=!<>+\-*/%&|^]+|[=!<>]=)");
  int depth = 0;
  for (const char character : std::regex_replace(head, special, " ")) {
    depth += character == '(' || character == '<' ? 1 : character == ')' || character == '>' ? -1 : 0;
    if (character == '=' && depth <= 0)
      return true;
  }
  return false;
}

/// Where the signature in code[begin, end) starts: behind blanks and access specifiers.
std::size_t start_of_signature(const std::string& code, std::size_t begin, std::size_t end) {
  static const std::regex before(R"(^\s*((public|protected|private)\s*:\s*)*)");
  std::smatch match;
  const auto first = code.begin() + static_cast<std::ptrdiff_t>(begin);
  const auto last = code.begin() + static_cast<std::ptrdiff_t>(end);
  return begin + (std::regex_search(first, last, match, before) ? static_cast<std::size_t>(match.length()) : 0);
}

/// Calls `visit(begin, end)` for the offsets of every function of `code`: its signature's first letter, its closing
/// brace.
void for_each_function(const std::string& code, const std::function<void(std::size_t, std::size_t)>& visit) {
  std::size_t head = 0;  // behind the last end of a declaration
  std::size_t depth = 0; // of braces inside the function or value that is open
  int parentheses = 0;   // open in the head; braces and semicolons in them end nothing
  bool function = false;
  for (std::size_t at = 0; at < code.size(); ++at) {
    const char character = code[at];
    if (depth > 0) {
      depth += character == '{' ? 1 : character == '}' ? -1 : 0;
      if (depth == 0 && function)
        visit(head, at);
      if (depth == 0)
        head = at + 1;
    } else if (character == '(' || character == ')') {
      parentheses += character == '(' ? 1 : -1;
    } else if (parentheses > 0) {
      continue;
    } else if (character == '#') { // a directive is not part of a signature
      at = std::min(code.find('\n', at), code.size());
      head = at;
    } else if (character == ';' || character == '}') {
      head = at + 1;
    } else if (character == '{') {
      const std::size_t start = start_of_signature(code, head, at);
      const std::string text = code.substr(start, at - start);
      depth = opens_scope(text) ? 0 : 1;
      head = depth == 0 ? at + 1 : start;
      function = !opens_value(text);
    }
  }
}

/// What a room may include of ours, as prefixes of paths. Its own files are always allowed.
const std::map<std::string, std::vector<std::string>>& arrows() {
  static const std::vector<std::string> all = {
      "messages/",   "settings/",    "cluster/", "storage/",   "bpf/",    "telemetry/", "policy/", "trainer/",
      "simulator/",  "ledger/",      "session/", "exchange/",  "actors/", "faults/",    "node/",   "tests/",
      "benchmarks/", "replication/", "swarm/",   "dashboard/", "client/", "links/"};
  static const std::map<std::string, std::vector<std::string>> table = {
      {"messages", {}},
      {"settings", {}},
      {"cluster", {"settings/", "storage/fnv1a.hpp"}},
      {"storage", {}},
      {"links", {"storage/"}},
      {"bpf", {}},
      {"cmake", {}},
      {"telemetry", {"bpf/", "messages/"}},
      {"replication", {"messages/", "storage/", "links/"}},
      {"policy",
       {"messages/types.hpp", "messages/fields.hpp", "messages/early_steps.hpp", "settings/", "cluster/", "storage/"}},
      {"exchange", {"cluster/server_plan.hpp", "storage/", "links/"}},
      {"session", {"messages/types.hpp", "messages/leave.hpp", "cluster/", "storage/", "policy/pace_tracker.hpp"}},
      {"client",
       {"messages/", "session/", "storage/", "policy/balancer.hpp", "telemetry/cgroup_limits.hpp",
        "telemetry/small_file.hpp"}},
      {"ledger",
       {"messages/types.hpp", "messages/fields.hpp", "messages/leave.hpp", "messages/loss.hpp", "cluster/", "storage/",
        "policy/"}},
      {"trainer",
       {"messages/types.hpp", "messages/loss.hpp", "cluster/", "storage/", "session/", "client/", "exchange/",
        "policy/learner.hpp", "policy/learner_tensors.hpp", "telemetry/cgroup_limits.hpp"}},
      {"simulator",
       {"messages/types.hpp", "messages/early_steps.hpp", "settings/", "cluster/", "storage/", "policy/",
        "session/step_settings.hpp", "exchange/form_choice.hpp"}},
      {"swarm", {"messages/types.hpp", "cluster/", "storage/", "policy/", "simulator/"}},
      {"actors",
       {"messages/", "cluster/", "storage/", "telemetry/", "policy/", "trainer/", "simulator/", "replication/",
        "swarm/", "ledger/", "session/", "client/", "exchange/", "links/"}},
      {"faults", {"messages/types.hpp", "session/undecided.hpp", "settings/", "cluster/", "storage/", "ledger/"}},
      {"dashboard", {"messages/types.hpp", "messages/loss.hpp", "cluster/", "storage/", "ledger/", "links/"}},
      {"node", all},
      {"examples", {}},
      {"tests", all},
      {"benchmarks", all},
  };
  return table;
}

/// Of a room with inner rooms: what each of them may include of the others. The files right in it are for all of them,
/// and include none.
const std::map<std::string, std::map<std::string, std::vector<std::string>>>& inner_arrows() {
  static const std::map<std::string, std::map<std::string, std::vector<std::string>>> table = {
      {"actors",
       {{"", {}},
        {"network", {}},
        {"client", {}},
        {"arbitrator", {"network"}},
        {"aggregator", {"arbitrator", "network"}},
        {"worker", {"client"}},
        {"swarm", {"network"}},
        {"host", {"aggregator", "arbitrator", "client", "network", "worker"}}}},
  };
  return table;
}

/// "actors/host/host.cpp" is in "host"; "actors/atoms.hpp" in none.
std::string inner_room(const std::string& path) {
  const std::size_t first = path.find('/') + 1;
  const std::size_t second = path.find('/', first);
  return second == std::string::npos ? std::string() : path.substr(first, second - first);
}

struct library_rule {
  std::string name;
  std::vector<std::string> headers; ///< prefixes of its include paths
  std::vector<std::string> users;   ///< prefixes of the files that may reach it
};

const std::array<library_rule, 8>& library_rules() {
  static const std::array<library_rule, 8> rules = {{
      {"CAF",
       {"caf/"},
       {"actors/", "messages/serialization.", "tests/unit/actors/", "tests/unit/messages/", "tests/simulation/",
        "tests/fuzz/control_target.cpp", "benchmarks/"}},
      {"Torch",
       {"torch/", "c10/", "c10d/", "ATen/", "gloo/"},
       {"trainer/", "client/torch", "policy/actor_critic.", "policy/learner.cpp", "policy/learner_tensors.",
        "policy/network_learner.", "policy/ppo", "tests/unit/trainer/", "tests/unit/client/torch_",
        "tests/unit/client/parity_test.cpp", "tests/unit/policy/", "examples/", "benchmarks/"}},
      {"c10d",
       {"torch/csrc/distributed/", "c10d/", "gloo/"},
       {"client/gloo/", "tests/unit/client/torch_", "tests/unit/client/parity_test.cpp", "examples/", "benchmarks/"}},
      {"Cap'n Proto", {"capnp/", "kj/"}, {"messages/", "tests/unit/messages/"}},
      {"libbpf",
       {"bpf/libbpf.h", "bpf/bpf.h", "bpf/bpf_", "bpf_programs/"},
       {"bpf/", "telemetry/", "tests/unit/telemetry/", "benchmarks/telemetry_cost"}},
      {"toml++", {"toml++/"}, {"settings/"}},
      {"libmicrohttpd", {"microhttpd.h"}, {"dashboard/"}},
      {"libraft",
       {"raft.h", "raft/", "uv.h"},
       {"replication/", "tests/unit/replication/", "tests/fuzz/raft_target.cpp"}},
  }};
  return rules;
}

/// Whether a file reaches an include that starts with one of `headers`, itself or through headers of ours.
bool reaches(const source_tree& tree, const source_file& file, const std::vector<std::string>& headers,
             std::set<std::string>& visited) {
  if (!visited.insert(file.path).second)
    return false;
  return std::any_of(file.includes.begin(), file.includes.end(), [&](const include_line& include) {
    const bool generated = include.path.ends_with(".capnp.h"); // by Cap'n Proto, and includes it
    if (starts_with_any(generated ? "capnp/" : include.path, headers))
      return true;
    const source_file* ours = tree.find(include.path);
    return ours != nullptr && reaches(tree, *ours, headers, visited);
  });
}

} // namespace

std::ostream& operator<<(std::ostream& out, const finding& found) {
  return out << found.path << ':' << found.line << ": " << found.message;
}

std::vector<finding> find_long_files(const source_tree& tree) {
  std::vector<finding> found;
  for (const auto& file : tree.files) {
    const bool source = file.is_cpp() || file.path.ends_with(".py") || file.path.ends_with(".sh");
    if (source && file.lines > file_lines_max)
      found.push_back({file.path, 0, count_message(file.lines, "", file_lines_max)});
  }
  return found;
}

std::vector<finding> find_long_functions(const source_tree& tree) {
  std::vector<finding> found;
  for (const auto& file : tree.files)
    for_each_function(file.code, [&](std::size_t begin, std::size_t end) {
      const std::size_t first = line_of(file.code, begin);
      const std::size_t lines = line_of(file.code, end) - first + 1;
      if (lines > function_lines_max)
        found.push_back({file.path, first, count_message(lines, " in a function", function_lines_max)});
    });
  return found;
}

std::vector<finding> find_forbidden_arrows(const source_tree& tree) {
  std::vector<finding> found;
  for (const auto& file : tree.files) {
    if (!file.is_cpp())
      continue;
    const std::string room = file.room();
    const auto allowed = arrows().find(room);
    if (allowed == arrows().end()) {
      found.push_back({file.path, 0, "\"" + room + "\" is no room of the table of arrows"});
      continue;
    }
    const std::string directory = file.path.substr(0, file.path.rfind('/') + 1);
    for (const auto& include : file.includes) {
      const bool neighbour = room == "tests" && tree.find(directory + include.path) != nullptr;
      if (neighbour || !include.quoted || include.path.ends_with(".capnp.h") || include.path.starts_with(room + "/") ||
          starts_with_any(include.path, allowed->second))
        continue;
      const bool other_room = arrows().contains(include.path.substr(0, include.path.find('/')));
      found.push_back({file.path, include.line,
                       other_room ? room + " may not include " + include.path
                                  : include.path + " is not written from the repository's root"});
    }
  }
  return found;
}

std::vector<finding> find_forbidden_inner_arrows(const source_tree& tree) {
  std::vector<finding> found;
  for (const auto& file : tree.files) {
    const auto table = inner_arrows().find(file.room());
    if (!file.is_cpp() || table == inner_arrows().end())
      continue;
    const std::string here = inner_room(file.path);
    const auto allowed = table->second.find(here);
    if (allowed == table->second.end()) {
      found.push_back({file.path, 0, "\"" + here + "\" is not an inner room of the table of arrows"});
      continue;
    }
    for (const auto& include : file.includes) {
      const std::string there = inner_room(include.path);
      if (include.path.starts_with(file.room() + "/") && !there.empty() && there != here &&
          std::find(allowed->second.begin(), allowed->second.end(), there) == allowed->second.end())
        found.push_back({file.path, include.line, file.path + " may not include " + include.path});
    }
  }
  return found;
}

std::vector<finding> find_leaked_libraries(const source_tree& tree) {
  std::vector<finding> found;
  for (const auto& rule : library_rules())
    for (const auto& file : tree.files) {
      std::set<std::string> visited;
      if (!starts_with_any(file.path, rule.users) && reaches(tree, file, rule.headers, visited))
        found.push_back({file.path, 0, "reaches a header of " + rule.name});
    }
  return found;
}

std::vector<finding> find_missing_goldens(const source_tree& tree) {
  static const std::regex arm(R"((\w+)\s*@\d+\s*:)");
  static const std::regex capital("([A-Z])");
  std::vector<finding> found;
  for (const auto& file : tree.files) {
    const std::size_t envelope = file.text.find("\nstruct Envelope {");
    if (!file.path.starts_with("messages/schema/") || envelope == std::string::npos)
      continue;
    const std::size_t end = file.text.find('}', envelope);
    const std::string body = file.text.substr(0, end);
    for (auto match = std::sregex_iterator(body.begin() + static_cast<std::ptrdiff_t>(envelope), body.end(), arm);
         match != std::sregex_iterator(); ++match) {
      std::string name = std::regex_replace(match->str(1), capital, "_$1");
      std::transform(name.begin(), name.end(), name.begin(), [](unsigned char letter) { return std::tolower(letter); });
      const std::string golden = "tests/unit/messages/golden/" + name + ".bin";
      if (name != "unset" && !std::binary_search(tree.data.begin(), tree.data.end(), golden))
        found.push_back({file.path, line_of(body, envelope + static_cast<std::size_t>(match->position())),
                         match->str(1) + " has no " + golden});
    }
  }
  return found;
}

std::vector<finding> find_forbidden_code(const source_tree& tree) {
  static const std::regex caf(R"(using\s+namespace\s+(::\s*)?caf\b)");
  static const std::regex wall_clock(R"(\bsystem_clock\b|\bgettimeofday\s*\(|\bstd::time\s*\(|\bCLOCK_REALTIME\b)");
  static const std::vector<std::string> socket_headers = {"sys/socket.h", "netinet/", "arpa/"};
  static const std::regex bare_quotes(
      R"re((?:spdlog::\w+\(|log_level::\w+,|\blog\((?:true|false),)[^;]*?=\\"\{\}\\")re");
  std::vector<finding> found;
  for (const auto& file : tree.files) {
    if (file.room() == "actors" || file.room() == "session" || file.room() == "dashboard" || file.room() == "node")
      find_pattern(file, file.text, bare_quotes, "a text that could end its field of the log: storage::quoted", found);
    find_pattern(file, file.code, caf, "using namespace caf: its atoms collide with ours", found);
    if (file.room() != "trainer" && file.room() != "exchange")
      continue;
    find_pattern(file, file.code, wall_clock, file.room() + " knows no wall clock", found);
    if (file.path.starts_with("exchange/mesh.") || file.path.starts_with("exchange/meeting."))
      continue; // the collectives' own
    for (const auto& include : file.includes)
      if (starts_with_any(include.path, socket_headers))
        found.push_back({file.path, include.line, file.room() + " knows no socket"});
  }
  return found;
}

std::vector<finding> find_leftovers(const source_tree& tree) {
  // The literals are in two parts so that this file does not break its own rule.
  static const std::regex unfinished("\\b(TO"
                                     "DO|FIX"
                                     "ME|XX"
                                     "X)\\b");
  static const std::regex machine_path("(^|[^\\w./-])/(wo"
                                       "rk|ro"
                                       "ot|ho"
                                       "me|t"
                                       "mp)/");
  std::vector<finding> found;
  for (const auto& file : tree.files) {
    find_pattern(file, file.text, unfinished, "work left undone", found);
    find_pattern(file, file.text, machine_path, "a path of one machine", found);
  }
  return found;
}

std::vector<finding> find_long_front_page(const source_tree& tree) {
  const auto* page = tree.find("README.md");
  if (page == nullptr)
    return {};
  std::vector<finding> found;
  std::istringstream text(page->text);
  const auto words = std::distance(std::istream_iterator<std::string>(text), {});
  if (const auto count = static_cast<std::size_t>(words); count > front_page_words_max)
    found.push_back(
        {page->path, 0, std::to_string(count) + " words; " + std::to_string(front_page_words_max) + " are the most"});
  if (page->lines > front_page_lines_max)
    found.push_back({page->path, 0, count_message(page->lines, "", front_page_lines_max)});
  return found;
}

std::vector<finding> find_long_mains(const source_tree& tree) {
  std::vector<finding> found;
  for (const auto& file : tree.files)
    if (file.path.ends_with("/main.cpp") && file.lines > main_lines_max)
      found.push_back({file.path, 0, count_message(file.lines, "", main_lines_max)});
  return found;
}

std::vector<finding> find_unexplained_log_lines(const source_tree& tree) {
  static const std::regex logged(R"((?:spdlog::(?:warn|error|critical)\(|log_level::(?:warning|error),))"
                                 R"(\s*(?:fmt::format\(\s*)?"([a-z]+(?:_[a-z]+)*)[ "])");
  const auto* document = tree.find("docs/troubleshooting.md");
  std::vector<finding> found;
  for (const auto& file : tree.files) {
    if (!file.is_cpp() || file.room() == "tests" || file.room() == "benchmarks")
      continue;
    for (auto at = std::sregex_iterator(file.text.begin(), file.text.end(), logged); at != std::sregex_iterator(); ++at)
      if (const auto name = (*at)[1].str(); !document || document->text.find("`" + name + "`") == std::string::npos)
        found.push_back({file.path, line_of(file.text, static_cast<std::size_t>(at->position(1))),
                         name + " is logged, and docs/troubleshooting.md does not say what to do"});
  }
  return found;
}

std::vector<finding> find_misnamed_tests(const source_tree& tree) {
  static const std::regex misnamed(R"(\b(TEST|TEST_F|TEST_P)\(\s*(\w+_\w*|[a-z]\w*|\w+,\s*(\w+_\w*|[a-z]\w*))\s*[,)])");
  std::vector<finding> found;
  for (const auto& file : tree.files)
    if (file.room() == "tests" && file.is_cpp())
      find_pattern(file, file.code, misnamed, "a test's suite and name are written in CamelCase", found);
  return found;
}

std::vector<finding> find_unguarded_headers(const source_tree& tree) {
  std::vector<finding> found;
  for (const auto& file : tree.files) {
    const std::size_t first = file.code.find_first_not_of(" \t\n");
    if (file.is_header() && (first == std::string::npos || !file.code.substr(first).starts_with("#pragma once\n")))
      found.push_back({file.path, 0, "does not begin with #pragma once"});
  }
  return found;
}

} // namespace dynamix::tidy
