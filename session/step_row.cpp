#include "session/step_row.hpp"

#include <algorithm>
#include <bit>
#include <type_traits>

namespace dynamix::session {
namespace {

/// Behind the decisions. Its low byte is what is requested, and the bit above it says that there is no agent: scripts
/// alone say so, and a row has as many columns as of those who train by themselves.
constexpr std::size_t request_column = 8;
constexpr std::uint64_t without_agent = 0x100;

/// Calls number(field, most) for each field of a row, in the order of its columns. `most` bounds whole numbers.
template <class Row, class Number>
void visit_columns(Row& row, Number&& number) {
  constexpr std::uint64_t unbounded = UINT64_MAX;
  for (auto& decision : row.held) {
    number(decision.key.term, unbounded);
    number(decision.key.window, unbounded);
    number(decision.batch, messages::max_batch);
    number(decision.first_step, unbounded);
  }
  number(row.request, static_cast<std::uint64_t>(step_request::stop));
  number(row.dealt, unbounded);
  number(row.step, unbounded);
  number(row.digest, unbounded);
  number(row.weight, unbounded);
  number(row.weighted_square, unbounded);
  number(row.highest_batch, messages::max_batch);
  number(row.pace.fixed_seconds, unbounded);
  number(row.pace.sample_seconds, unbounded);
  number(row.pace.error, unbounded);
  number(row.total_batch, messages::max_global_batch);
  number(row.cores, unbounded);
}

} // namespace

step_row_numbers encode(const step_row& row) {
  step_row_numbers numbers{};
  std::size_t column = 0;
  visit_columns(row, [&]<class Field>(const Field& field, std::uint64_t) {
    if constexpr (std::is_same_v<Field, double>)
      numbers.at(column++) = std::bit_cast<std::int64_t>(field);
    else if constexpr (std::is_same_v<Field, core_use>)
      numbers.at(column++) = std::bit_cast<std::int64_t>(encode_core_use(field));
    else
      numbers.at(column++) = static_cast<std::int64_t>(field);
  });
  if (row.without_agent)
    numbers[request_column] |= static_cast<std::int64_t>(without_agent);
  return numbers;
}

step_row decode_step_row(std::span<const std::int64_t, step_row_columns> numbers) {
  step_row row;
  std::size_t column = 0;
  visit_columns(row, [&]<class Field>(Field& field, std::uint64_t most) {
    const auto bits = std::bit_cast<std::uint64_t>(numbers[column++]);
    if constexpr (std::is_same_v<Field, double>)
      field = std::bit_cast<double>(bits);
    else if constexpr (std::is_same_v<Field, core_use>)
      field = decode_core_use(bits);
    else
      field = static_cast<Field>(std::min(bits, most));
  });
  const auto said = std::bit_cast<std::uint64_t>(numbers[request_column]);
  row.without_agent = (said & without_agent) != 0;
  row.request = static_cast<step_request>(
      std::min<std::uint64_t>(said & ~without_agent, static_cast<std::uint64_t>(step_request::stop)));
  row.highest_batch = std::max(row.highest_batch, 1U);
  row.pace = policy::checked(row.pace);
  return row;
}

} // namespace dynamix::session
