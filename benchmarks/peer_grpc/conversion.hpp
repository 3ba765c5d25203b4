#pragma once

#include "messages/types.hpp"

#include <star.pb.h>

namespace dynamix::benchmarks {

void fill(const messages::window_report& from, star::Report& to);
messages::window_report to_report(const star::Report& from);
void fill(const messages::decision& from, star::Decision& to);
messages::decision to_decision(const star::Decision& from);

} // namespace dynamix::benchmarks
