#pragma once

/// Values of JSON documents; null stands for what is not known.

#include "ledger/worker_course.hpp"

#include <nlohmann/json.hpp>

#include <optional>

namespace dynamix::ledger {

template <class Value>
nlohmann::ordered_json or_null(bool known, const Value& value) {
  return known ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}
template <class Value>
nlohmann::ordered_json or_null(const std::optional<Value>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
}

inline nlohmann::ordered_json time_object(const policy::time_split& time) {
  if (!is_known(time))
    return nullptr;
  return {{"compute_seconds", time.compute_seconds}, {"cpu_wait_seconds", time.cpu_wait_seconds},
          {"network_seconds", time.network_seconds}, {"barrier_seconds", time.barrier_seconds},
          {"data_seconds", time.data_seconds},       {"other_seconds", time.other_seconds}};
}

} // namespace dynamix::ledger
