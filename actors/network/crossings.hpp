#pragma once

/// What may cross between hosts: made from the interfaces of actors/interfaces.hpp, so that a message without a rule of
/// who may send it, or that does not say whom it is of, does not compile.

#include "actors/network/authority.hpp"

#include <caf/all.hpp>

#include <string>
#include <string_view>

namespace dynamix::actors {

inline constexpr const char* malformed = "it is malformed";
/// The types of an answer that says that there is none.
inline constexpr const char* error_answer = "@<>+@error";

/// One message, or one answer.
struct crossing {
  /// Reads the values that follow the word, as far as they say whom they are of. Returns what is wrong with them.
  /// `process`: the sender's.
  using reading = std::string (*)(caf::binary_deserializer&, const caf::node_id& process, statement&);

  std::string types; ///< as CAF writes them before a message's values
  caf::atom_value word = caf::atom_value{};
  statement_kind kind = statement_kind::answer;
  std::string_view receiver = {}; ///< an actor's name
  reading read = nullptr;
};

/// Null: there is none such. `receiver`: empty where it is another process's actor.
const crossing* find_request(const std::string& types, caf::atom_value word, std::string_view receiver);
const crossing* find_answer(const std::string& types);

} // namespace dynamix::actors
