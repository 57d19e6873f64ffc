// What can go wrong with a PostgreSQL server, sorted by what a relay does about it.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

#include "storage/mapping/mapping.h"

namespace outbox::postgres {

// Somebody else is at work on the same rows, and nothing was done: the same may succeed soon.
struct Busy : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The connection is gone, or the server did not answer in time. What was asked of it last may have
// been done or not.
struct Lost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The server refused a statement; the transaction is undone.
struct ServerError : std::runtime_error {
  ServerError(const std::string& text, std::string sqlstate)
      : std::runtime_error(text), state(std::move(sqlstate)) {}
  std::string state;  // SQLSTATE
};

// The tables are not those that the statements were made for: open anew.
struct SchemaChanged : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws the kind of error that belongs to this SQLSTATE. `text` is what the server said, `where`
// names it.
[[noreturn]] void throw_server_error(const std::string& where, const std::string& text,
                                     const std::string& state);

// What a server that refused the connection wants, by its own words: the protocol gives no code.
struct Refusal {
  std::string advice;    // empty: nothing that we know of
  bool lasting = false;  // an operator has to mend it
};
Refusal refusal_of(const std::string& text);

// Whether the error is about values of a row (a constraint, a trigger), not about the database.
bool is_refusal(const ServerError& error);

}  // namespace outbox::postgres
