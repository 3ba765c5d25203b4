#pragma once

#include "storage/json_text.hpp"

#include <caf/all.hpp>
#include <spdlog/spdlog.h>

#include <chrono>
#include <exception>
#include <string>

namespace dynamix::actors {

/// What every actor does with an exception: log it and end with an error, so that its supervisor acts. (CAF's default
/// ends the actor without a word.) Messages that nobody expects are dropped with a line in the log.
template <class Self>
void install_handlers(Self* self, const char* name) {
  self->set_default_handler([name](caf::scheduled_actor*, caf::message_view&) -> caf::result<caf::message> {
    spdlog::warn("unexpected_message actor={}", name);
    return caf::sec::unexpected_message;
  });
  self->set_exception_handler([name](std::exception_ptr& thrown) -> caf::error {
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
      spdlog::error("actor_failed actor={} error={}", name, storage::quoted(error.what()));
    } catch (...) {
      spdlog::error("actor_failed actor={} error=unknown", name);
    }
    return caf::exit_reason::unhandled_exception;
  });
}

/// Seconds on the actor system's clock, which is virtual under the testing scheduler.
template <class Self>
double seconds_now(Self* self) {
  return std::chrono::duration<double>(self->clock().now().time_since_epoch()).count();
}

inline std::chrono::milliseconds to_milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

inline std::string to_text(const caf::error& error) {
  return caf::to_string(error);
}

} // namespace dynamix::actors
