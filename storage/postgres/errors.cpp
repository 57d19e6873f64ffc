#include "storage/postgres/errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace outbox::postgres {
namespace {

bool is_one_of(const std::string& state, std::initializer_list<std::string_view> states) {
  return std::find(states.begin(), states.end(), state) != states.end();
}

// Serialization failure, deadlock, lock time-out: all of them undo the transaction.
bool is_busy(const std::string& state) { return is_one_of(state, {"40001", "40P01", "55P03"}); }

bool is_lost(const std::string& state) {
  return state.starts_with("08") ||
         is_one_of(state, {"57P01", "57P02", "57P03", "57P05", "25P03", "40003"});
}

// A table or column went away, a cached plan does not fit, or a pooler has given the statement to
// another session.
bool is_schema_change(const std::string& state, const std::string& text) {
  return is_one_of(state, {"42P01", "42703", "26000", "42P05"}) ||
         (state == "0A000" && text.find("cached plan") != std::string::npos);
}

// What an operator has to do about it; empty if it is nothing for an operator.
std::string advice_for(const std::string& state) {
  if (state == "42501") {
    return "grant it to the relay's role (outbox-relay init --grants prints what it needs)";
  }
  if (state == "25006") return "connect to the primary: the relay writes to the database";
  if (state == "3D000") return "create the database, or correct store.url";
  if (state == "3F000") return "create the schema, or correct store.table";
  if (state.starts_with("28")) {
    return "correct the user in store.url or the password (store.passwordFile), or the server's "
           "pg_hba.conf";
  }
  return {};
}

}  // namespace

void throw_server_error(const std::string& where, const std::string& text,
                        const std::string& state) {
  const std::string sentence = fmt::format("{}: {}", where, text);
  if (is_busy(state)) throw Busy(sentence);
  if (is_lost(state)) throw Lost(sentence);
  if (is_schema_change(state, text)) throw SchemaChanged(sentence);
  if (const std::string advice = advice_for(state); !advice.empty()) {
    throw Unusable(fmt::format("{}: {}", sentence, advice));
  }
  throw ServerError(sentence, state);
}

// Data exceptions, constraints, what a trigger raises, a view's check option.
bool is_refusal(const ServerError& error) {
  const std::string& state = error.state;
  return state.starts_with("22") || state.starts_with("23") || state.starts_with("P0") ||
         state.starts_with("44") || state.starts_with("27") || state.starts_with("09");
}

}  // namespace outbox::postgres
