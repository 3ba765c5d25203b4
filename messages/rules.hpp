#pragma once

/// The rules between several fields of one struct, which no row of messages/fields.def can hold. They are checked after
/// the rows; a struct without an overload has none.

#include "messages/checker.hpp"

namespace dynamix::messages {

template <class T>
void check_together(checker&, const T&) {}

void check_together(checker& check, const hello& value);
void check_together(checker& check, const network_statistics& value);
void check_together(checker& check, const system_statistics& value);
void check_together(checker& check, const window_report& value);
void check_together(checker& check, const decision_counts& value);
void check_together(checker& check, const farewell& value);
void check_together(checker& check, const shard_report& value);
void check_together(checker& check, const decision& value);
void check_together(checker& check, const trajectory& value);
void check_together(checker& check, const store_operation& value);
void check_together(checker& check, const store_result& value);
void check_together(checker& check, const placement& value);
void check_together(checker& check, const worker_choice& value);
void check_together(checker& check, const shard_window& value);
void check_together(checker& check, const shard_hello& value);
void check_together(checker& check, const client_hello& value);
void check_together(checker& check, const client_welcome& value);

} // namespace dynamix::messages
