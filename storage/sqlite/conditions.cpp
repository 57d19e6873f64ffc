#include "storage/sqlite/conditions.h"

#include <fmt/format.h>

namespace outbox::sqlite {
namespace {

// False for a state that the table does not have.
std::string is(const Mapping& mapping, const std::string& alias, const std::string& state) {
  const std::string& status = mapping.columns.status;
  if (status.empty() || state.empty()) return "0";
  return fmt::format("{}{} = {}", alias, quoted(status), state_literal(mapping, state));
}

std::string is_time_set(const Mapping& mapping, const std::string& alias, const char* test) {
  return fmt::format("{}{} IS {}", alias, quoted(mapping.columns.processed_on), test);
}

}  // namespace

std::string state_literal(const Mapping& mapping, const std::string& state) {
  return mapping.numeric_status ? state : literal(state);
}

std::string is_pending(const Mapping& mapping, const std::string& alias) {
  return mapping.holds_failed() ? is(mapping, alias, mapping.states.pending)
                                : is_open(mapping, alias);
}

std::string is_failed(const Mapping& mapping, const std::string& alias) {
  return mapping.holds_failed() ? is(mapping, alias, mapping.states.failed) : "0";
}

std::string is_processed(const Mapping& mapping, const std::string& alias) {
  if (!mapping.columns.status.empty()) return is(mapping, alias, mapping.states.processed);
  return mapping.columns.processed_on.empty() ? "0" : is_time_set(mapping, alias, "NOT NULL");
}

std::string is_dead(const Mapping& mapping, const std::string& alias) {
  return is(mapping, alias, mapping.states.dead_lettered);
}

std::string is_open(const Mapping& mapping, const std::string& alias) {
  const States& s = mapping.states;
  if (mapping.columns.status.empty()) {
    return mapping.columns.processed_on.empty() ? "1" : is_time_set(mapping, alias, "NULL");
  }
  if (s.failed.empty()) return is(mapping, alias, s.pending);
  return fmt::format("{}{} IN ({}, {})", alias, quoted(mapping.columns.status),
                     state_literal(mapping, s.pending), state_literal(mapping, s.failed));
}

}  // namespace outbox::sqlite
