// What the commands that look after an installation ask of the adapters: is it all as it should be,
// who is at work, what went wrong of late. Answers are values for people and scripts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "relay/publisher.h"

namespace outbox {

enum class Severity { information, warning, error };

const char* name_of(Severity severity);

// What a fix is: words for a person, a command for the shell, or statements for the database.
enum class FixKind { advice, command, sql };

const char* name_of(FixKind kind);

// One thing that was noticed. The code is part of the public contract; the sentences are not.
struct Finding {
  Severity severity = Severity::information;
  std::string code{};  // such as "journal_mode"
  std::string what{};  // what was seen, and where
  std::string why{};   // why it matters
  FixKind fix_kind = FixKind::advice;
  std::string fix{};         // empty: there is nothing to do
  bool unreachable = false;  // what lies behind it could not be looked at
};

// How the database's schema compares with what this program wants.
struct SchemaCheck {
  bool table_usable = false;         // the outbox is there, and the relay could work with it
  std::vector<std::string> missing;  // statements that make it as it should be, in order; where
                                     // none can, a comment that says what a person has to do
};

// A relay that has left its mark at the outbox.
struct RelaySeen {
  enum class Life { alive, dead, unknown };
  std::string host{};
  std::int64_t process = 0;
  std::string started_at{};
  std::uint64_t leases = 0;
  Life life = Life::unknown;
};

const char* name_of(RelaySeen::Life life);

struct RecentError {
  std::string event_type{};
  std::string id{};
  std::uint32_t attempts = 0;
  std::string error{};
  bool dead = false;  // a dead letter; else it will be tried again
};

// What stands in the store besides the backlog.
struct StoreOverview {
  std::vector<RelaySeen> relays;
  std::vector<RecentError> errors;  // the latest of each kind first, as far as that is known
  bool isolated = false;            // an operator holds the circuit open
  bool paused = false;
  std::string reason;  // the operator's
};

// One step on the way to a broker.
struct BrokerStep {
  std::string name;  // resolve, connect, tls, answer
  bool done = false;
  std::string what;
};

// What came of connecting to a broker without giving it anything to deliver.
struct BrokerTest {
  std::vector<BrokerStep> steps;  // in order, up to the first that failed
  bool reached = false;           // the broker answered in its own protocol
  // What the relay would make of such an answer. None: it says nothing about an event's.
  std::optional<Outcome> outcome = Outcome::transport;
  std::vector<Finding> findings;
};

const char* name_of(Outcome outcome);

// What an outcome means for a row and for the circuit, in one sentence.
const char* meaning_of(Outcome outcome);

}  // namespace outbox
