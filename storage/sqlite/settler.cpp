#include "storage/sqlite/settler.h"

#include <fmt/format.h>

#include <stdexcept>
#include <utility>

#include "storage/sqlite/identifiers.h"

namespace outbox::sqlite {
namespace {

constexpr std::size_t kUntouchableMax = 10'000;
// Leases of fewer rows that follow each other are ended one by one.
constexpr std::size_t kRunMin = 4;

// What a verdict changes in the outbox's own row. The table may lack some of the columns.
class Assignments {
 public:
  explicit Assignments(const Sql& sql) : sql_(sql) {}

  // SET takes bare column names, hence no alias before them.
  void set(const std::string& column, const std::string& value) {
    if (column.empty()) return;
    text_ += fmt::format("{}{} = {}", text_.empty() ? "" : ", ", quoted(column), value);
  }
  void set_status(const std::string& state) {
    if (!state.empty()) set(sql_.mapping().columns.status, sql_.state_literal(state));
  }
  void count() {
    const std::string column = sql_.mapping().columns.retry_count;
    if (!column.empty()) set(column, fmt::format("coalesce(?2, {}) + ?3", quoted(column)));
  }

  // Nothing if the table has no column for any of it. ?1 is the row's key. All values up to `last`
  // are bound, whether a column takes them or not; then the fingerprint of the event's id: under
  // the same key there may be another row by now.
  std::string update(int last) const {
    if (text_.empty()) return {};
    std::string bound;
    for (int i = 2; i <= last; ++i) bound += fmt::format("?{}, ", i);
    return fmt::format(
        "UPDATE {} AS o SET {} WHERE {} = ?1 AND {} AND coalesce({}1) IS NOT NULL "
        "AND (?{} = {} OR {} = ?{})",
        sql_.table(), text_, sql_.row_key(), sql_.is_open(), bound, last + 1, kAnyFingerprint,
        sql_.fingerprint(), last + 1);
  }

 private:
  const Sql& sql_;
  std::string text_;
};

std::string processed_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  Assignments row(sql);
  row.set_status(sql.mapping().states.processed);
  row.set(c.processed_on, "?2");
  row.set(c.last_error, "NULL");
  row.set(c.next_attempt, "NULL");
  return row.update(2);
}

std::string failed_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  Assignments row(sql);
  row.set_status(sql.mapping().states.failed);
  row.count();
  row.set(c.last_error, "?4");
  if (sql.mapping().holds_failed()) row.set(c.next_attempt, "?5");
  return row.update(5);
}

// A table without dead letters calls them failed.
std::string dead_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  const States& states = sql.mapping().states;
  Assignments row(sql);
  row.set_status(states.dead_lettered.empty() ? states.failed : states.dead_lettered);
  row.count();
  row.set(c.last_error, "?4");
  row.set(c.dead_letter_reason, "?5");
  if (sql.mapping().holds_failed()) row.set(c.next_attempt, "NULL");
  return row.update(5);
}

std::optional<Query> query_if(Connection& connection, const std::string& sql) {
  if (sql.empty()) return std::nullopt;
  return std::optional<Query>(std::in_place, connection.database(), sql);
}

std::string printable(const Value& key) {
  if (const auto* number = std::get_if<std::int64_t>(&key)) return fmt::format("{}", *number);
  if (const auto* text = std::get_if<std::string>(&key)) return fmt::format("'{}'", *text);
  return hex_text(std::get<Blob>(key).bytes);
}

// Errors of one row, not of the database: constraints, triggers, a value of the wrong kind.
bool is_refusal(const SQLite::Exception& error) {
  switch (error.getErrorCode() & 0xff) {
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
    case SQLITE_ERROR:
      return true;
    default:
      return false;
  }
}

}  // namespace

Settler::Settler(Connection& connection, const Sql& sql, std::string outbox, SideRows& side_rows)
    : connection_(connection),
      mapping_(sql.mapping()),
      outbox_(std::move(outbox)),
      side_rows_(side_rows),
      sizes_(connection, sql.mapping().table, sql.mapping().columns.payload),
      attempts_(connection, outbox_),
      leases_(connection, outbox_),
      mark_processed_(query_if(connection, processed_sql(sql))),
      mark_failed_(query_if(connection, failed_sql(sql))),
      mark_dead_(query_if(connection, dead_sql(sql))),
      look_(connection.database(),
            fmt::format("SELECT {}, {}, {}, {}, {}, {} FROM {} AS o WHERE {} = ?1",
                        sql.state_name(), sql.value(sql.mapping().columns.retry_count),
                        sql.column(sql.mapping().columns.id),
                        sql.column(sql.mapping().columns.event_type), sql.order(),
                        sql.fingerprint(), sql.table(), sql.row_key())),
      audit_(connection.database(),
             "INSERT INTO outbox_relay_audit (outbox, row_key, event_id, at, action, reason) "
             "VALUES (?1, ?2, ?3, ?4, 'dead_letter', ?5)"),
      savepoint_(connection.database(), "SAVEPOINT row"),
      release_savepoint_(connection.database(), "RELEASE row"),
      undo_savepoint_(connection.database(), "ROLLBACK TO row") {}

void Settler::settle(std::span<const Settlement> settlements, const Holder& holder,
                     Settled& settled) {
  items_.clear();
  for (const Settlement& settlement : settlements) {
    if (auto row = parse_row_id(settlement.row)) {
      items_.push_back({&settlement, std::move(*row)});
    } else {
      ++settled.fenced;
    }
  }
  std::span<const Item> rest = items_;
  while (!rest.empty()) {
    const auto run = rest.first(run_length(rest));
    const bool ended = end_run(run, holder);
    for (const Item& item : run) {
      const auto lease =
          ended ? EndedLease{}
                : leases_.end(item.row.key, item.settlement->lease, holder.incarnation);
      settle(item, lease, holder, settled);
    }
    rest = rest.subspan(run.size());
  }
}

// How many of the first were delivered under one lease and have keys that follow each other.
std::size_t Settler::run_length(std::span<const Item> items) {
  const auto follows = [](const Item& one, const Item& next) {
    const auto* key = std::get_if<std::int64_t>(&one.row.key);
    const auto* next_key = std::get_if<std::int64_t>(&next.row.key);
    return key != nullptr && next_key != nullptr && *key < INT64_MAX && *next_key == *key + 1 &&
           next.settlement->verdict == Verdict::delivered &&
           next.settlement->lease == one.settlement->lease;
  };
  if (items.front().settlement->verdict != Verdict::delivered) return 1;
  std::size_t length = 1;
  while (length < items.size() && follows(items[length - 1], items[length])) ++length;
  return length;
}

bool Settler::end_run(std::span<const Item> run, const Holder& holder) {
  if (run.size() < kRunMin) return false;
  return leases_.end_run(std::get<std::int64_t>(run.front().row.key), run.size(),
                         run.front().settlement->lease, holder.incarnation);
}

void Settler::settle(const Item& item, const std::optional<EndedLease>& lease, const Holder& holder,
                     Settled& settled) {
  const auto& [settlement, row] = item;
  if (lease) {
    settled.freed.push_back(row.place);
    if (settlement->verdict == Verdict::released) settled.released.push_back(row.key);
    settle_leased(row, *lease, *settlement, holder, settled);
  } else if (settlement->verdict == Verdict::delivered && is_the_same_row(row)) {
    settle_late_delivery(row, *settlement, holder, settled);
  } else {
    ++settled.fenced;
  }
}

// Whether the row found by look_ is the one that was leased.
bool Settler::names(const RowHandle& handle, const Query::Rows& rows) {
  return handle.fingerprint == kAnyFingerprint || handle.fingerprint == rows.integer(5);
}

bool Settler::is_the_same_row(const RowHandle& row) {
  auto rows = look_.rows(row.key);
  return rows.next() && names(row, rows);
}

std::uint64_t Settler::payload_bytes(const Value& row) {
  std::int64_t place = 0;
  {
    auto rows = look_.rows(row);
    if (!rows.next()) return 0;
    place = rows.integer(4);
  }
  const std::uint64_t bytes = sizes_.bytes(place);
  sizes_.close();
  return bytes;
}

// Whether the outbox's own columns can say all there is to say about such a row.
bool Settler::holds(const char* state) const {
  const std::string_view name = state;
  if (name == state::kProcessed) return mapping_.holds_processed();
  return name == state::kFailed ? mapping_.holds_failed() : mapping_.holds_dead();
}

void Settler::settle_leased(const RowHandle& handle, const EndedLease& lease,
                            const Settlement& settlement, const Holder& holder, Settled& settled) {
  if (settlement.verdict == Verdict::released && !settlement.outcome_unknown) return;
  const Value& row = handle.key;
  const auto noted = lease.noted ? side_rows_.read(row, handle.fingerprint) : std::nullopt;
  SideRow side = noted.value_or(SideRow{});
  side.fingerprint = handle.fingerprint;
  if (settlement.verdict == Verdict::released) {
    side.outcome_unknown = true;
    side_rows_.write(row, side);
    return;
  }
  note_attempt(side, settlement, holder);
  const Change change = change_for(settlement, holder);
  if (write(handle, lease.large, side, change, holder, settled) == Written::gone) {
    ++settled.fenced;
    return;
  }
  keep_side(row, side, change, noted.has_value());
  attempts_.note(row, settlement, holder.now_text);
  if (settlement.verdict == Verdict::dead) audit_death(row, change, holder);
}

// The broker has confirmed a row whose lease was lost: true all the same, unless the row has been
// decided or driven again since.
void Settler::settle_late_delivery(const RowHandle& handle, const Settlement& settlement,
                                   const Holder& holder, Settled& settled) {
  const Value& row = handle.key;
  const auto noted = side_rows_.read(row, handle.fingerprint);
  SideRow side = noted.value_or(SideRow{});
  side.fingerprint = handle.fingerprint;
  const bool decided = side.state == state::kProcessed || side.state == state::kDeadLettered;
  if (decided || side.generation != settlement.generation) {
    ++settled.fenced;
    return;
  }
  const bool large = payload_bytes(row) > kRewriteMax;
  const Change change = change_for(settlement, holder);
  if (write(handle, large, side, change, holder, settled) == Written::gone) {
    ++settled.fenced;
    return;
  }
  keep_side(row, side, change, noted.has_value());
  attempts_.note(row, settlement, holder.now_text);
  leases_.end_any(row);
  settled.freed.push_back(handle.place);
}

void Settler::note_attempt(SideRow& side, const Settlement& settlement, const Holder& holder) {
  if (settlement.verdict == Verdict::delivered) return;
  side.last_failure = settlement.kind;
  side.last_delay = settlement.delay;
  side.outcome_unknown = side.outcome_unknown || settlement.outcome_unknown;
  if (settlement.counts) ++side.counted;
  side.waits_for_recovery_epoch =
      settlement.waits_for_recovery && settlement.verdict != Verdict::dead
          ? std::optional(static_cast<std::int64_t>(holder.epoch))
          : std::nullopt;
  if (!settlement.attempted) return;
  const Moment now = side_rows_.now();
  side.last_attempt = now;
  if (settlement.kind == FailureKind::misconfigured) {
    ++side.misconfigured_tries;
    if (!side.misconfigured_since) side.misconfigured_since = now;
  } else {
    side.misconfigured_tries = 0;
    side.misconfigured_since.reset();
  }
}

Settler::Change Settler::change_for(const Settlement& settlement, const Holder& holder) {
  Change change;
  switch (settlement.verdict) {
    case Verdict::released:
      break;
    case Verdict::delivered:
      change.state = state::kProcessed;
      break;
    case Verdict::retry:
      change.charge = settlement.charge;
      [[fallthrough]];
    case Verdict::held:
      change.state = state::kFailed;
      change.error = shortened(settlement.reason);
      change.due =
          to_text(holder.now + std::chrono::ceil<std::chrono::milliseconds>(settlement.delay));
      break;
    case Verdict::dead:
      change.state = state::kDeadLettered;
      change.charge = settlement.charge;
      change.error = shortened(settlement.reason);
      change.dead_reason = name_of(settlement.dead_reason);
      break;
  }
  return change;
}

Settler::Written Settler::write(const RowHandle& handle, bool large, SideRow& side,
                                const Change& change, const Holder& holder, Settled& settled) {
  if (!holds(change.state)) {
    const Written written = write_beside(handle, side, change, holder);
    // Others who look at the table see what its columns can show. It is counted already.
    Change shown = change;
    shown.charge = 0;
    if (written == Written::beside && !large) write_in_place(handle, side, shown, holder, settled);
    return written;
  }
  if (!large) {
    const auto changed = write_in_place(handle, side, change, holder, settled);
    if (changed == 1) {
      side.state.reset();
      side.dead_letter_reason.reset();
      side.error.reset();
      side.due.reset();
      side.retry_count.reset();
      side.processed_on.reset();
      return Written::in_place;
    }
    if (changed && !side.state) {
      const Written written = write_beside(handle, side, change, holder);
      // There it is, and open: so it was not gone, but stayed as it was.
      if (written == Written::beside) isolate(handle.key, "a trigger ignores changes", settled);
      return written;
    }
  }
  return write_beside(handle, side, change, holder);
}

// How many rows were changed; nothing if the row refused.
std::optional<int> Settler::write_in_place(const RowHandle& handle, const SideRow& side,
                                           const Change& change, const Holder& holder,
                                           Settled& settled) {
  const Value& row = handle.key;
  if (const auto found = untouchable_.find(row); found != untouchable_.end()) {
    isolate(row, found->second, settled);
    return std::nullopt;
  }
  if (careful_) savepoint_.run();
  try {
    // Other columns than the payload may be what makes the row too large to be rewritten.
    const ValueLimit limit(connection_, kRewriteMax + kRewriteSlack);
    const int changed = update(handle, side, change, holder);
    if (careful_) release_savepoint_.run();
    return changed;
  } catch (const SQLite::Exception& error) {
    if (!is_refusal(error)) throw;
    // A trigger's RAISE(ROLLBACK) takes the whole transaction with it.
    if (!connection_.in_transaction()) {
      if (untouchable_.size() >= kUntouchableMax) untouchable_.clear();
      untouchable_.emplace(row, error.what());
    }
    if (!careful_ || !connection_.in_transaction()) throw NeedsCare(error.what());
    undo_savepoint_.run();
    release_savepoint_.run();
    if (!is_too_big(error)) isolate(row, error.what(), settled);
    return std::nullopt;
  }
}

void Settler::isolate(const Value& row, const std::string& error, Settled& settled) {
  ++settled.isolated;
  if (settled.isolated_error.empty()) {
    settled.isolated_error = fmt::format("row {}: {}", printable(row), error);
  }
}

// How many rows were changed: none if the table has no column for it.
int Settler::update(const RowHandle& handle, const SideRow& side, const Change& change,
                    const Holder& holder) {
  const std::string_view state = change.state;
  const Value& row = handle.key;
  const std::int64_t same = handle.fingerprint;
  if (state == state::kProcessed) {
    return mark_processed_ ? mark_processed_->run(row, holder.now_column, same) : 0;
  }
  // While a row is kept beside, its count is, too.
  const auto count = side.state ? side.retry_count : std::nullopt;
  if (state == state::kFailed) {
    return mark_failed_
               ? mark_failed_->run(row, count, change.charge, change.error, change.due, same)
               : 0;
  }
  return mark_dead_
             ? mark_dead_->run(row, count, change.charge, change.error, change.dead_reason, same)
             : 0;
}

Settler::Written Settler::write_beside(const RowHandle& handle, SideRow& side, const Change& change,
                                       const Holder& holder) {
  {
    auto rows = look_.rows(handle.key);
    if (!rows.next() || !names(handle, rows)) return Written::gone;
    const std::string present = rows.text(0);
    const bool open = present == state::kPending || present == state::kFailed;
    if (!side.state && !open) return Written::gone;
    if (!side.state) side.retry_count = rows.integer(1);
  }
  side.state = change.state;
  side.retry_count = side.retry_count.value_or(0) + change.charge;
  side.error = change.error;
  side.due = change.due;
  side.dead_letter_reason = change.dead_reason;
  side.processed_on = change.state == std::string_view(state::kProcessed)
                          ? std::optional(holder.now_text)
                          : std::nullopt;
  return Written::beside;
}

// A decided row needs no notes, but for its generation.
void Settler::keep_side(const Value& row, const SideRow& side, const Change& change, bool existed) {
  if (change.state != std::string_view(state::kProcessed)) {
    side_rows_.write(row, side);
    return;
  }
  if (!side.state && side.generation == 0) {
    if (existed) side_rows_.erase(row);
    return;
  }
  SideRow last;
  last.state = side.state;
  last.retry_count = side.retry_count;
  last.processed_on = side.processed_on;
  last.generation = side.generation;
  last.fingerprint = side.fingerprint;
  side_rows_.write(row, last);
}

void Settler::audit_death(const Value& row, const Change& change, const Holder& holder) {
  std::optional<std::string> id;
  {
    auto rows = look_.rows(row);
    if (rows.next()) id = shortened(rendered_id(rows, 2, mapping_.guids));
  }
  audit_.run(outbox_, row, id, holder.now_text,
             fmt::format("{}: {}", *change.dead_reason, change.error.value_or("")));
}

BuriedRow Settler::bury_crashed(const Value& row, std::uint32_t crashes, const Holder& holder) {
  BuriedRow buried;
  SideRow side = side_rows_.read(row, kAnyFingerprint).value_or(SideRow{});
  {
    auto rows = look_.rows(row);
    if (rows.next()) {
      side.fingerprint = static_cast<std::uint32_t>(rows.integer(5));
      buried.attempts =
          static_cast<std::uint32_t>(side.state ? side.retry_count.value_or(0) : rows.integer(1));
      buried.id = rendered_id(rows, 2, mapping_.guids);
      buried.event_type = rows.text(3);
    }
  }
  buried.error = fmt::format("{} relays died while they held only this row", crashes);
  Change change;
  change.state = state::kDeadLettered;
  change.error = buried.error;
  change.dead_reason = name_of(DeadReason::crashed);
  side.waits_for_recovery_epoch.reset();
  const bool large = payload_bytes(row) > kRewriteMax;
  Settled ignored;
  if (write({row, 0, kAnyFingerprint}, large, side, change, holder, ignored) != Written::gone) {
    side_rows_.write(row, side);
    audit_death(row, change, holder);
  }
  return buried;
}

}  // namespace outbox::sqlite
