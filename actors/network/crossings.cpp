#include "actors/network/crossings.hpp"

#include "actors/interfaces.hpp"

#include <caf/io/all.hpp>

#include <algorithm>
#include <charconv>
#include <type_traits>
#include <vector>

namespace dynamix::actors {
namespace {

// What a message says of itself.
void describe(const messages::hello& value, statement& said) {
  said.host = value.host;
}
void describe(const messages::shard_hello& value, statement& said) {
  said.host = value.node;
}
void describe(const messages::window_report& value, statement& said) {
  said.host = value.host;
  said.ranks = {value.rank};
}
void describe(const messages::heartbeat& value, statement& said) {
  said.ranks = {value.rank};
}
void describe(const messages::absence& value, statement& said) {
  said.ranks = {value.rank};
}
void describe(const messages::farewell& value, statement& said) {
  said.host = value.host;
  if (said.kind != statement_kind::finish)
    said.ranks = {value.rank};
}
void describe(const messages::beat_summary& value, statement& said) {
  said.host = value.node;
  for (const auto& sign : value.beats)
    said.ranks.push_back(sign.rank);
}
void describe(const messages::shard_window& value, statement& said) {
  for (const auto& report : value.reports)
    said.ranks.push_back(report.rank);
  for (const auto& choice : value.choices)
    said.ranks.push_back(choice.rank);
}
/// Whose it is the aggregator knows by the connection.
void describe(const messages::evaluation_report&, statement&) {}
void describe(const messages::welcome&, statement&) {}
/// Where a member of a generation is found is that member's to write ("generation-4/present/2"): a port in two bytes
/// and, of a host that the others do not know, its name and address (exchange/peer_links.cpp).
void describe(const messages::store_operation& value, statement& said) {
  static constexpr std::string_view presence = "/present/";
  using messages::store_verb;
  if (value.verb != store_verb::set && value.verb != store_verb::add && value.verb != store_verb::remove)
    return;
  for (const auto& key : value.keys)
    if (const auto at = key.rfind(presence); at != std::string::npos) {
      auto rank = messages::max_workers; // nobody's, where it is not a number
      std::from_chars(key.data() + at + presence.size(), key.data() + key.size(), rank);
      said.ranks.push_back(rank);
      const auto port_bytes = std::min<std::ptrdiff_t>(2, std::ssize(value.value));
      said.found_at.assign(value.value.begin() + port_bytes, value.value.end());
    }
}

/// Who may send the words of an interface that other hosts have handles of, and to which actor. A word without a kind
/// does not compile.
template <class Actor>
struct rules_of;
template <>
struct rules_of<gateway_actor> {
  static constexpr const char* receiver = actor_name::gateway;
  static statement_kind kind(atom::hello) { return statement_kind::hello; }
  static statement_kind kind(atom::attach) { return statement_kind::attach; }
  static statement_kind kind(atom::finish) { return statement_kind::finish; }
};
template <>
struct rules_of<aggregator_actor> {
  static constexpr const char* receiver = actor_name::aggregator;
  static statement_kind kind(atom::report) { return statement_kind::report; }
  static statement_kind kind(atom::beat) { return statement_kind::beat; }
  static statement_kind kind(atom::settle) { return statement_kind::settle; }
  static statement_kind kind(atom::evaluation) { return statement_kind::evaluation; }
  static statement_kind kind(atom::absent) { return statement_kind::absent; }
  static statement_kind kind(atom::farewell) { return statement_kind::farewell; }
};
template <>
struct rules_of<parent_actor> : rules_of<aggregator_actor> {
  using rules_of<aggregator_actor>::kind;
  static statement_kind kind(atom::relay) { return statement_kind::relay; }
  static statement_kind kind(atom::beats) { return statement_kind::beats; }
  static statement_kind kind(atom::window) { return statement_kind::window; }
};
template <>
struct rules_of<store_actor> {
  static constexpr const char* receiver = actor_name::store;
  static statement_kind kind(atom::apply) { return statement_kind::operation; }
};
/// Whatever comes from above is believed, whomever it is about.
template <>
struct rules_of<child_actor> {
  static constexpr const char* receiver = actor_name::aggregator;
  static constexpr statement_kind believed = statement_kind::guidance;
};
template <>
struct rules_of<worker_actor> {
  static constexpr const char* receiver = actor_name::worker;
  static constexpr statement_kind believed = statement_kind::decision;
};

template <class Actor>
concept crosses = requires {
  rules_of<Actor>::receiver;
};
template <class Actor>
concept is_believed = requires {
  rules_of<Actor>::believed;
};

std::string read_nothing(caf::binary_deserializer&, const caf::node_id&, statement&) {
  return "";
}

template <class Message>
std::string read_claims(caf::binary_deserializer& source, const caf::node_id&, statement& said) {
  Message value;
  if (source(value))
    return malformed;
  if (!value)
    return value.error().text;
  describe(*value, said);
  return "";
}

/// The same where a handle follows, which must be of an actor of that process: what is sent to it goes there.
template <class Message>
std::string read_claims_and_handle(caf::binary_deserializer& source, const caf::node_id& process, statement& said) {
  if (auto problem = read_claims<Message>(source, process, said); !problem.empty())
    return problem;
  caf::actor_id actor = 0;
  caf::node_id home;
  if (source(actor, home))
    return malformed;
  return actor == 0 || home == process ? "" : "it hands over an actor of another process";
}

template <class... Values>
struct reading_of; // of other values there is none
template <>
struct reading_of<> {
  static constexpr crossing::reading read = read_nothing;
};
template <class T>
struct reading_of<message<T>> {
  static constexpr crossing::reading read = read_claims<message<T>>;
};
template <class T, crosses Handle>
struct reading_of<message<T>, Handle> {
  static constexpr crossing::reading read = read_claims_and_handle<message<T>>;
};

/// Answers are of whoever was asked; but a handle among them is checked.
template <class... Values>
constexpr crossing::reading reading_of_answer() {
  if constexpr ((crosses<Values> || ...))
    return reading_of<Values...>::read;
  return read_nothing;
}

/// A message, or a handle of an actor that may be talked to from another host.
template <class Value>
inline constexpr bool may_cross = crosses<Value>;
template <class T>
inline constexpr bool may_cross<message<T>> = true;

template <class Value>
struct type_text {
  static std::string text() { return caf::type_name<Value>::value; }
};
template <caf::atom_value word>
struct type_text<caf::atom_constant<word>> {
  static std::string text() { return "@atom"; }
};

template <class... Values>
std::string types_of() {
  std::string text = "@<>";
  ((text += "+" + type_text<Values>::text()), ...);
  return text;
}

struct crossings {
  std::vector<crossing> requests;
  std::vector<crossing> answers = {{.types = error_answer, .read = read_nothing}};
};

template <class Actor, caf::atom_value word, class... Values, class... Results>
void add(crossings& all,
         caf::typed_mpi<caf::detail::type_list<caf::atom_constant<word>, Values...>, caf::output_tuple<Results...>>) {
  static_assert((may_cross<Values> && ...));
  using rules = rules_of<Actor>;
  crossing request{.types = types_of<caf::atom_constant<word>, Values...>(), .word = word, .receiver = rules::receiver};
  if constexpr (is_believed<Actor>) {
    request.kind = rules::believed;
    request.read = read_nothing;
  } else {
    request.kind = rules::kind(caf::atom_constant<word>{});
    request.read = reading_of<Values...>::read;
  }
  all.requests.push_back(std::move(request));
  if constexpr (!(std::is_void_v<Results> || ...)) {
    auto types = types_of<Results...>();
    if (std::ranges::find(all.answers, types, &crossing::types) == all.answers.end())
      all.answers.push_back({.types = std::move(types), .read = reading_of_answer<Results...>()});
  }
}

template <crosses Actor, class... Signatures>
void add_all(crossings& all, caf::detail::type_list<Signatures...>) {
  (add<Actor>(all, Signatures{}), ...);
}

const crossings& all_crossings() {
  static const crossings all = [] {
    crossings made;
    add_all<gateway_actor>(made, gateway_actor::signatures{});
    add_all<aggregator_actor>(made, aggregator_actor::signatures{});
    add_all<parent_actor>(made, parent_actor::signatures{});
    add_all<child_actor>(made, child_actor::signatures{});
    add_all<worker_actor>(made, worker_actor::signatures{});
    add_all<store_actor>(made, store_actor::signatures{});
    return made;
  }();
  return all;
}

} // namespace

const crossing* find_request(const std::string& types, caf::atom_value word, std::string_view receiver) {
  const auto& known = all_crossings().requests;
  const auto found = std::ranges::find_if(known, [&](const crossing& each) {
    return each.types == types && each.word == word && (receiver.empty() || each.receiver == receiver);
  });
  return found == known.end() ? nullptr : &*found;
}

const crossing* find_answer(const std::string& types) {
  const auto& known = all_crossings().answers;
  const auto found = std::ranges::find(known, types, &crossing::types);
  return found == known.end() ? nullptr : &*found;
}

} // namespace dynamix::actors
