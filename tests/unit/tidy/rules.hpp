#pragma once

/// The rules of the house that a program can check. Each is a pure function of the tree and returns what breaks it.

#include "tests/unit/tidy/source_tree.hpp"

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

namespace dynamix::tidy {

struct finding {
  std::string path;
  std::size_t line = 0; ///< 0: the file as a whole
  std::string message;
  friend bool operator==(const finding&, const finding&) = default;
};
std::ostream& operator<<(std::ostream& out, const finding& found);

inline constexpr std::size_t file_lines_max = 600; ///< about 500 is where to look twice
inline constexpr std::size_t function_lines_max = 70;
inline constexpr std::size_t main_lines_max = 79;
inline constexpr std::size_t front_page_words_max = 900; ///< of README.md, as `wc -w` counts them
inline constexpr std::size_t front_page_lines_max = 110;

/// C++, Python and shell: at most `file_lines_max` lines. Schemas only grow, so they have no limit.
std::vector<finding> find_long_files(const source_tree& tree);

/// C++: at most `function_lines_max` lines from the first line of a function's signature to its closing brace. A
/// function is an outermost block of braces in namespaces and classes that does not follow `=`; lambdas count as part
/// of the function around them, and a test case is a function.
std::vector<finding> find_long_functions(const source_tree& tree);

/// Quoted includes start with a room's name (in tests/ a bare name is a neighbour in the same directory), and go only
/// to the rooms that the including room may know:
///
///     messages, cluster, storage, bpf -> nothing of ours      telemetry -> bpf, messages
///     replication -> messages, storage                          links -> storage
///     exchange -> storage                                       trainer -> exchange and what policy may know
///     policy -> messages/types.hpp, cluster, storage            simulator -> policy and what policy may know, and
///                                                               exchange/form_choice.hpp
///     swarm -> simulator and what simulator may know
///     actors -> all but node                                   node, tests, benchmarks -> all
///
/// A directory with C++ that this table does not name is a finding too. Generated headers (*.capnp.h) are passed over.
std::vector<finding> find_forbidden_arrows(const source_tree& tree);

/// The inner rooms of actors/ have a direction, too:
///
///     host -> aggregator, arbitrator, client, network, worker
///     aggregator -> arbitrator, network      arbitrator, swarm -> network      worker -> client
///
/// All may include the headers right in actors/, which include none of theirs.
std::vector<finding> find_forbidden_inner_arrows(const source_tree& tree);

/// CAF, Torch (with c10d and Gloo), Cap'n Proto and libraft (with libuv) are included, directly or through headers of
/// ours, only by:
///
///     CAF          actors/, messages/serialization.*, and their tests and benchmarks
///     Torch        trainer/, the learners of policy/, and their tests, benchmarks; the SDK's client/torch*.hpp with
///                  their tests, and examples/
///     c10d, Gloo   benchmarks, the tests of client/torch*.hpp, examples/
///     Cap'n Proto  messages/ and its tests
///     libraft      replication/ and its tests
std::vector<finding> find_leaked_libraries(const source_tree& tree);

/// Every arm but `unset` of the union in `struct Envelope` of messages/schema/ has a frame in
/// tests/unit/messages/golden/, named after it: windowReport -> window_report.bin.
std::vector<finding> find_missing_goldens(const source_tree& tree);

/// Words that must not be written: `using namespace caf` anywhere; a text between quotes of the log's own, which it
/// could end, where peers are heard; a wall clock or a socket header in trainer/ and
/// exchange/ (but for exchange/mesh.* and exchange/meeting.*, which are the sockets).
std::vector<finding> find_forbidden_code(const source_tree& tree);

/// Marks of unfinished work, and absolute paths of the machine that somebody worked on, in any text.
std::vector<finding> find_leftovers(const source_tree& tree);

/// A main.cpp has fewer than 80 lines.
/// What a visitor reads first is short.
std::vector<finding> find_long_front_page(const source_tree& tree);
std::vector<finding> find_long_mains(const source_tree& tree);

/// Tests whose suite or name is not in CamelCase.
std::vector<finding> find_misnamed_tests(const source_tree& tree);
/// Every line that is logged as a warning or an error begins with a name, which docs/troubleshooting.md explains in
/// backquotes.
std::vector<finding> find_unexplained_log_lines(const source_tree& tree);
/// The first code of a header is `#pragma once`.
std::vector<finding> find_unguarded_headers(const source_tree& tree);

} // namespace dynamix::tidy
