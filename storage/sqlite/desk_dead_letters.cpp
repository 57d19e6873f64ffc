#include "storage/sqlite/desk_dead_letters.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <thread>
#include <utility>

#include "storage/sqlite/identifiers.h"
#include "storage/sqlite/settler.h"

namespace outbox::sqlite {
namespace {

constexpr std::size_t kFoundAtOnce = 5000;
// A transaction treats so many rows, for so long, since it holds the write lock.
constexpr std::size_t kChunk = 100;
constexpr auto kWorkMax = std::chrono::milliseconds{2};
constexpr int kRestFactor = 10;  // less than a tenth of the time is ours

struct FoundDead {
  std::int64_t place = 0;  // in the order of the table
  Value key;
  std::uint32_t fingerprint = kAnyFingerprint;
  DeadLetter letter;
};

// When a row was given up: as the audit has it; failing that, when it was last sent.
std::string died_on_sql(const Sql& sql) {
  return fmt::format(
      "coalesce((SELECT max(a.at) FROM outbox_relay_audit AS a WHERE a.outbox = ?1 "
      "AND a.row_key = {} AND a.action = 'dead_letter'), r.last_attempt_at, '')",
      sql.key_beside());
}

// Dead letters by ?2 event type and ?3 reason, after place ?4, at most ?5; only `chosen` ids.
std::string find_sql(const Desk& desk, bool chosen) {
  const Sql& sql = desk.sql;
  const Columns& c = sql.mapping().columns;
  const std::string reason = Desk::either(sql.value(c.dead_letter_reason), "dead_letter_reason");
  const std::string columns =
      fmt::format("{}, {}, {}, {}, {}, {}, {}, {}, {}, {}, {}", sql.order(), sql.row_key(),
                  sql.column(c.id), sql.column(c.event_type), sql.value(c.ordering_key), reason,
                  Desk::either(sql.value(c.retry_count), "retry_count"),
                  Desk::either(sql.value(c.last_error), "error"), sql.value(c.occurred_on),
                  sql.fingerprint(), died_on_sql(sql));
  const std::string filter =
      fmt::format("(?2 = '' OR {} = ?2) AND (?3 = '' OR {} = ?3){} AND {} > ?4 AND {}",
                  sql.column(c.event_type), reason, chosen ? " AND " + desk.wanted() : "",
                  sql.order(), sql.has_key());
  return sql.select_dead(columns, filter) + " ORDER BY 1 LIMIT ?5";
}

std::vector<FoundDead> find_dead(Desk& desk, const DeadLetterFilter& filter, std::int64_t after,
                                 std::size_t limit) {
  const bool chosen = !filter.ids.empty();
  if (chosen) desk.want(filter.ids);
  std::vector<FoundDead> result;
  Query query(desk.connection.database(), find_sql(desk, chosen));
  auto rows = query.rows(desk.outbox, filter.event_type, filter.reason, after, limit);
  while (rows.next()) {
    FoundDead found;
    found.place = rows.integer(0);
    found.key = rows.value(1).value_or(Value{});
    found.letter.id = rendered_id(rows, 2, desk.sql.mapping().guids);
    found.letter.event_type = rows.text(3);
    found.letter.ordering_key = rows.text(4);
    found.letter.reason = rows.text(5);
    found.letter.attempts =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(rows.integer(6), 0, UINT32_MAX));
    found.letter.last_error = rows.text(7);
    found.letter.occurred_on = desk.shown_time(rows.text(8));
    found.fingerprint = static_cast<std::uint32_t>(rows.integer(9));
    found.letter.died_on = rows.text(10);
    result.push_back(std::move(found));
  }
  return result;
}

// Empty if the table has no column for any of it. A table without dead letters shows them as failed
// or open rows.
std::string revive_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  std::string assignments;
  const auto set = [&](const std::string& column, const std::string& value) {
    if (column.empty()) return;
    assignments += fmt::format("{}{} = {}", assignments.empty() ? "" : ", ", quoted(column), value);
  };
  if (!c.status.empty()) set(c.status, sql.state_literal(sql.mapping().states.pending));
  set(c.retry_count, "0");
  set(c.next_attempt, "NULL");
  set(c.last_error, "NULL");
  set(c.dead_letter_reason, "NULL");
  if (assignments.empty()) return {};
  const std::string open = sql.mapping().holds_dead() ? "0" : sql.is_open();
  return fmt::format("UPDATE {} AS o SET {} WHERE {} = ?1 AND ({} OR {})", sql.table(), assignments,
                     sql.row_key(), sql.is_dead(), open);
}

// Treats single rows, inside a write transaction.
class Hand {
 public:
  Hand(Desk& desk, const Treatment& treatment)
      : desk_(desk),
        treatment_(treatment),
        sizes_(desk.connection, desk.sql.mapping().table, desk.sql.mapping().columns.payload),
        look_(desk.connection.database(),
              fmt::format("SELECT {}, {} FROM {} AS o WHERE {} = ?2", desk.sql.whole_state(),
                          desk.sql.state_name(), desk.sql.table(), desk.sql.row_key())),
        // Carries the state: whatever was thought of the row, only a dead letter goes.
        remove_(desk.connection.database(),
                fmt::format("DELETE FROM {} AS o WHERE {} = ?2 AND {} = '{}'", desk.sql.table(),
                            desk.sql.row_key(), desk.sql.whole_state(), state::kDeadLettered)),
        forget_attempts_(desk.connection.database(),
                         "DELETE FROM outbox_relay_attempts WHERE outbox = ?1 AND row_key = ?2") {
    const std::string revive = revive_sql(desk.sql);
    if (!revive.empty()) revive_.emplace(desk.connection.database(), revive);
  }

  // False if the row is no dead letter any more, or refuses (noted in `treated`).
  bool treat(const FoundDead& found, Treated& treated) {
    std::string own_state;
    {
      auto rows = look_.rows(desk_.outbox, found.key);
      if (!rows.next() || rows.text(0) != state::kDeadLettered) return false;
      own_state = rows.text(1);
    }
    switch (treatment_.kind) {
      case Treatment::Kind::redrive:
        revive(found, own_state);
        break;
      case Treatment::Kind::discard:
        if (!discard(found, treated)) return false;
        break;
    }
    const bool redriven = treatment_.kind == Treatment::Kind::redrive;
    desk_.audit({redriven ? "redrive" : "discard", treatment_.reason, found.key, found.letter.id});
    return true;
  }

 private:
  void revive(const FoundDead& found, const std::string& own_state) {
    const SideRow before = desk_.side_rows.read(found.key, found.fingerprint).value_or(SideRow{});
    SideRow side;
    side.fingerprint = found.fingerprint;
    side.generation = before.generation + 1;
    // What was true of earlier attempts stays true; a row that took relays down stays alone.
    side.outcome_unknown = before.outcome_unknown;
    side.takeovers = before.takeovers;
    const bool large = sizes_.bytes(found.place) > kRewriteMax;
    sizes_.close();
    const bool pending_by_itself = desk_.sql.mapping().holds_dead() && own_state == state::kPending;
    std::string refusal;
    // Other columns than the payload may be what makes the row too large to be rewritten.
    const ValueLimit limit(desk_.connection, kRewriteMax + kRewriteSlack);
    const bool in_place = !pending_by_itself && !large && revive_ &&
                          carefully([&] { return revive_->run(found.key) == 1; }, refusal);
    if (!pending_by_itself && !in_place) {
      side.state = state::kPending;
      side.retry_count = 0;
    }
    desk_.side_rows.write(found.key, side);
  }

  bool discard(const FoundDead& found, Treated& treated) {
    std::string refusal;
    if (!carefully([&] { return remove_.run(desk_.outbox, found.key) == 1; }, refusal)) {
      if (refusal.empty()) return false;
      ++treated.refused;
      if (treated.refusal.empty()) treated.refusal = std::move(refusal);
      return false;
    }
    desk_.side_rows.erase(found.key);
    forget_attempts_.run(desk_.outbox, found.key);
    return true;
  }

  // A row that refuses to be written spoils no other.
  template <class Change>
  bool carefully(const Change& change, std::string& refusal) {
    SQLite::Database& database = desk_.connection.database();
    database.exec("SAVEPOINT treat");
    try {
      const bool changed = change();
      database.exec("RELEASE treat");
      return changed;
    } catch (const SQLite::Exception& error) {
      if (!desk_.connection.in_transaction()) throw;
      database.exec("ROLLBACK TO treat");
      database.exec("RELEASE treat");
      refusal = error.what();
      return false;
    }
  }

  Desk& desk_;
  const Treatment& treatment_;
  SizeProbe sizes_;
  Query look_;
  std::optional<Query> revive_;  // nothing if the table has no columns for it
  Query remove_;
  Query forget_attempts_;
};

std::string export_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  return fmt::format("SELECT {}, {}, {}, {}, {} FROM {} AS o WHERE {} = ?1",
                     sql.value(c.destination), sql.value(c.content_type), sql.value(c.traceparent),
                     sql.headers(), sql.payload(), sql.table(), sql.row_key());
}

}  // namespace

std::vector<DeadLetter> list_dead_letters(Desk& desk, const DeadLetterFilter& filter) {
  std::vector<DeadLetter> letters;
  for (FoundDead& found : find_dead(desk, filter, INT64_MIN, filter.limit)) {
    letters.push_back(std::move(found.letter));
  }
  return letters;
}

void export_dead_letters(Desk& desk, const DeadLetterFilter& filter,
                         const std::function<bool(const ExportedLetter&)>& take,
                         std::uint64_t& taken) {
  Query read(desk.connection.database(), export_sql(desk.sql));
  std::int64_t after = INT64_MIN;
  while (taken < filter.limit) {
    const auto found =
        find_dead(desk, filter, after, std::min<std::size_t>(kFoundAtOnce, filter.limit - taken));
    if (found.empty()) return;
    for (const FoundDead& each : found) {
      ExportedLetter letter;
      letter.letter = each.letter;
      {
        auto rows = read.rows(each.key);
        if (!rows.next()) continue;
        letter.destination = rows.text(0);
        letter.content_type = rows.text(1);
        letter.traceparent = rows.text(2);
        letter.headers = rows.text(3);
        letter.payload = rows.text(4);
      }
      if (!take(letter)) return;
      ++taken;
    }
    after = found.back().place;
  }
}

void treat_dead_letters(Desk& desk, const DeadLetterFilter& filter, const Treatment& treatment,
                        const Progress& progress, Treated& treated) {
  using HoldClock = std::chrono::steady_clock;
  Hand hand(desk, treatment);
  std::int64_t after = INT64_MIN;
  while (treated.done < filter.limit) {
    // Found without the write lock; each row is looked at again under it.
    const auto found = find_dead(desk, filter, after,
                                 std::min<std::size_t>(kFoundAtOnce, filter.limit - treated.done));
    if (found.empty()) return;
    after = found.back().place;
    std::span<const FoundDead> rest(found);
    while (!rest.empty()) {
      Transaction transaction(desk.connection, Transaction::Kind::write);
      const auto begun = HoldClock::now();
      std::size_t looked_at = 0;
      std::uint64_t done = 0;
      while (looked_at < std::min(kChunk, rest.size()) && HoldClock::now() - begun < kWorkMax) {
        done += hand.treat(rest[looked_at++], treated) ? 1 : 0;
      }
      transaction.commit();
      treated.done += done;
      rest = rest.subspan(looked_at);
      if (progress && !progress(treated.done)) return;
      if (!rest.empty()) std::this_thread::sleep_for(kRestFactor * (HoldClock::now() - begun));
    }
  }
}

}  // namespace outbox::sqlite
