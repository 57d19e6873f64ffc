// An operator's questions and orders to the outbox, answered on a connection of their own. Times
// are RFC 3339 in UTC; one that can't be read is as the application wrote it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "relay/clock.h"
#include "relay/inspection.h"
#include "relay/message.h"

namespace outbox {

// One sample of the backlog. Counting costs a scan of the unfinished rows: sample, don't poll.
struct Backlog {
  std::uint64_t pending = 0;  // not leased
  std::uint64_t failed = 0;   // not leased
  std::uint64_t leased = 0;
  std::uint64_t dead_lettered = 0;
  std::optional<Duration> oldest_age;  // of the oldest row that is neither Processed nor dead
  std::vector<std::pair<std::string, std::uint64_t>> dead_by_event_type;
};

struct DeadLetterFilter {
  std::vector<std::string> ids;  // empty: any
  std::string event_type;        // empty: any
  std::string reason;            // empty: any; else a name of DeadReason
  std::size_t limit = 1000;
};

struct DeadLetter {
  std::string id;
  std::string event_type;
  std::string ordering_key;
  std::string reason;
  std::uint32_t attempts = 0;
  std::string last_error;
  std::string occurred_on;
  std::string died_on;  // empty: not known
};

// A dead letter with all that is needed to send it by other means.
struct ExportedLetter {
  DeadLetter letter;
  std::string destination;
  std::string content_type;
  std::string traceparent;
  std::string headers;  // as the application wrote them
  std::string payload;
};

// What a row is, whatever its table calls it.
// `skipped`: older than what a relay was told to begin with. `unknown`: a state that is not ours.
enum class MessageState { pending, failed, processed, dead_lettered, skipped, unknown };

const char* name_of(MessageState state);

// Which rows are meant; an empty member means any.
struct MessageFilter {
  std::vector<std::string> ids;
  std::string event_type;
  std::optional<std::string> ordering_key;
  std::optional<MessageState> state;
  bool leased = false;  // only leased ones
  std::string since;    // occurred then or later; RFC 3339
  std::string until;    // occurred earlier than that
  bool oldest_first = false;
  std::size_t limit = 100;
};

struct MessageSummary {
  std::string id;
  std::string event_type;
  std::string ordering_key;
  MessageState state = MessageState::unknown;
  bool leased = false;
  std::uint32_t attempts = 0;  // failed ones
  std::string last_error;
  std::string occurred_on;
};

// One attempt to publish, as the relay recorded it (audit.attempts).
struct AttemptRecord {
  std::string at;
  std::string outcome;
  std::string reason;
};

// What was done to a row by an operator, or what became of it.
struct AuditRecord {
  std::string id;  // of the event
  std::string at;
  std::string action;
  std::string reason;
};

// A value of a row by its column's name; nothing stands for NULL.
using NamedValue = std::pair<std::string, std::optional<std::string>>;

// A row of the same key that comes earlier.
struct RowAhead {
  std::string id;
  MessageState state = MessageState::unknown;
};

// What decides when an undecided row is sent next, as far as the database tells.
struct Outlook {
  std::string due_on;               // not before then; empty: it is due
  bool asked_to_wait = false;       // the application said so itself
  bool waits_for_recovery = false;  // due at once when the circuit closes
  std::optional<RelaySeen> holder;  // of its lease
  // The first that is undecided, and the first that is dead. Whether they hold the row back is a
  // matter of settings.
  std::optional<RowAhead> open_ahead;
  std::optional<RowAhead> dead_ahead;
  bool paused = false;    // by an operator
  bool isolated = false;  // by an operator
};

struct MessageDetail {
  MessageSummary summary;
  Outlook outlook;
  std::vector<NamedValue> columns;  // of the outbox, without the payload
  std::vector<NamedValue> beside;   // what the relay keeps beside the row
  std::string headers;              // as the application wrote them
  std::uint64_t payload_size = 0;
  std::optional<std::string> payload;  // if asked for; its beginning when it is longer than that
  std::vector<AttemptRecord> attempts;
  std::vector<AuditRecord> audit;
};

// What is over its time, and how much of it may be removed at once.
struct CleanRequest {
  std::optional<Duration> processed;      // nothing: they stay
  std::optional<Duration> dead_lettered;  // nothing: they stay
  std::optional<Duration> attempts;       // and the audit's entries; nothing: they stay
  std::size_t chunk = 500;                // rows in one transaction
  bool keyed_dead_stay = false;           // dead letters hold back the rows behind them
};

// One step of a clean-up.
struct CleanStep {
  std::uint64_t processed = 0;
  std::uint64_t dead_lettered = 0;
  std::uint64_t attempts = 0;
  std::uint64_t audit = 0;
  std::uint64_t orphans = 0;  // notes about rows that are gone
  Duration held{0};           // the database's write lock was held for so long
  Duration rest{0};           // wait so long before the next step
  bool busy = false;          // somebody else was writing: nothing was done
  bool done = false;          // nothing more is to be done in this pass

  std::uint64_t removed() const { return processed + dead_lettered + attempts + audit + orphans; }
};

// Either a value or a sentence that says what went wrong, where, and what to do.
template <class Value>
struct Answer {
  Value value{};
  std::string error;
  bool newer = false;  // the error is that what is there was made by another version
  bool ok() const { return error.empty(); }
};

// Told after each chunk how many rows are done. False: stop here.
using Progress = std::function<bool(std::uint64_t)>;

// Implemented by a database adapter. Not thread-safe: one desk, one thread. Nothing throws, but for
// what a callback throws.
class OutboxDesk {
 public:
  virtual ~OutboxDesk() = default;

  virtual Answer<Backlog> backlog() = 0;

  virtual Answer<std::vector<MessageSummary>> messages(const MessageFilter& filter) = 0;

  // The rows with that id: one, or none; several in a table that allows it. At most `payload_max`
  // bytes of each payload are loaded, none if it is 0.
  virtual Answer<std::vector<MessageDetail>> message(const std::string& id,
                                                     std::uint64_t payload_max) = 0;

  // What the audit has about events with that id, the oldest first; also when there is no such row
  // any more.
  virtual Answer<std::vector<AuditRecord>> trail(const std::string& id) = 0;

  virtual Answer<std::vector<DeadLetter>> dead_letters(const DeadLetterFilter& filter) = 0;

  // Hands out the matching dead letters one by one, in the order of the table, and reads no more of
  // them at once than memory allows. `take` returns false to stop. Returns how many it took.
  virtual Answer<std::uint64_t> export_dead_letters(
      const DeadLetterFilter& filter, const std::function<bool(const ExportedLetter&)>& take) = 0;

  // Moves the matching dead letters back to Pending as a new generation and records each in the
  // audit table with the reason. Works in chunks; returns how many were moved.
  virtual Answer<std::uint64_t> redrive(const DeadLetterFilter& filter, const std::string& reason,
                                        const Progress& progress) = 0;

  // Deletes the matching dead letters with all that is noted beside them, and records each in the
  // audit table with the reason. Never a row that is no dead letter. Works in chunks; returns how
  // many were deleted.
  virtual Answer<std::uint64_t> discard(const DeadLetterFilter& filter, const std::string& reason,
                                        const Progress& progress) = 0;

  // Isolates the broker's circuit until it is let go; recorded with its reason, and read by every
  // relay of this outbox with its next turn. Returns whether that changed anything.
  virtual Answer<bool> hold_circuit(bool hold, const std::string& reason) = 0;

  // The same for leasing as a whole: a paused relay leases nothing and settles what it holds.
  // Returns whether that changed anything.
  virtual Answer<bool> pause(bool paused, const std::string& reason) = 0;

  // Takes the next step of a clean-up: removes at most a chunk of what is over its time, in a
  // transaction that holds the write lock briefly. Call it until a step is done, resting as each
  // one says; the desk remembers where it was. Several desks may clean one outbox.
  virtual Answer<CleanStep> clean(const CleanRequest& request) = 0;
};

}  // namespace outbox
