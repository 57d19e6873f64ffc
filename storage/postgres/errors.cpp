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

// A table or column went away or has another type, a cached plan does not fit, or a pooler has
// given the statement to another session: the server does not understand what it did before.
bool is_schema_change(const std::string& state, const std::string& text) {
  return (state.starts_with("42") && state != "42501") || state == "26000" ||
         (state == "0A000" && text.find("cached plan") != std::string::npos);
}

struct Sign {
  std::string_view text;
  std::string_view advice;
  bool lasting = true;
};
constexpr const char* kCorrectUser =
    "correct the user in store.url or the password (store.passwordFile)";
// The first that fits.
constexpr std::array kSigns{
    Sign{"certificate verify failed",
         "name the authority that issued the server's certificate: sslrootcert in store.url"},
    Sign{"does not match host name",
         "connect by a name that the server's certificate holds, or have it issued for this one"},
    Sign{"requires a valid client certificate",
         "name the relay's own certificate: sslcert and sslkey in store.url"},
    Sign{"certificate authentication failed",
         "give the relay a certificate that is issued to its user (sslcert in store.url)"},
    Sign{"server does not support SSL",
         "switch TLS on at the server (ssl = on), or do without: sslmode=disable in store.url"},
    Sign{"certificate", "correct sslrootcert, sslcert and sslkey in store.url"},
    Sign{"private key file", "correct sslkey in store.url, or the file's owner and mode"},
    Sign{"SSL", "correct the TLS settings of the server or in store.url"},
    Sign{"authentication failed", kCorrectUser},
    Sign{"no password supplied", "name a file with the password: store.passwordFile"},
    Sign{"no pg_hba.conf entry", "allow it in the server's pg_hba.conf"},
    Sign{"is not permitted to log in", "allow it: ALTER ROLE ... LOGIN"},
    Sign{"does not exist", "create it, or correct store.url"},
    Sign{"too many connections", "raise the limit: a relay needs two connections", false},
    Sign{"too many clients", "raise max_connections: a relay needs two connections", false},
    Sign{"connection slots are reserved", "raise max_connections: a relay needs two connections",
         false},
};

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

Refusal refusal_of(const std::string& text) {
  for (const Sign& sign : kSigns) {
    if (text.find(sign.text) != std::string::npos) return {std::string(sign.advice), sign.lasting};
  }
  return {};
}

// Data exceptions, constraints, what a trigger raises, a view's check option.
bool is_refusal(const ServerError& error) {
  const std::string& state = error.state;
  return state.starts_with("22") || state.starts_with("23") || state.starts_with("P0") ||
         state.starts_with("44") || state.starts_with("27") || state.starts_with("09");
}

}  // namespace outbox::postgres
