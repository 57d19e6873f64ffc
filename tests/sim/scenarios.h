// Worlds that the cases build on.
#pragma once

#include <doctest/doctest.h>

#include <string>

#include "tests/sim/model/world.h"

namespace outbox::sim {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

// One relay with default options, no fault, rows at a steady pace.
inline Scenario steady(std::size_t rows, Duration length) {
  Scenario scenario;
  scenario.profile = "of its own";
  scenario.rows = rows;
  scenario.safety = length;
  scenario.transaction_rows = 1;
  scenario.connections = 64;
  return scenario;
}

inline Episode lasting(Fault kind, Duration start, Duration length) {
  Episode episode;
  episode.kind = kind;
  episode.start = Time{} + start;
  episode.length = length;
  return episode;
}

inline void require_clean(const Report& report) {
  const std::string text =
      report.violation ? report.violation->invariant + ": " + report.violation->text : "";
  REQUIRE_MESSAGE(!report.violation.has_value(), text);
}

inline double in_seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace outbox::sim
