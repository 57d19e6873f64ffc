#include "storage/postgres/desk_dead_letters.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

#include "storage/mapping/states.h"
#include "storage/postgres/savepoint.h"

namespace outbox::postgres {
namespace {

constexpr std::size_t kFoundAtOnce = 5000;
// A transaction treats so many rows, for so long: until then it keeps locks on them.
constexpr std::size_t kChunk = 100;
constexpr const char* kNotify = "SELECT pg_catalog.pg_notify('outbox_relay', '')";
constexpr auto kWorkMax = std::chrono::milliseconds{50};

struct FoundDead {
  Position position;
  std::string key;
  std::int64_t fingerprint = 0;
  DeadLetter letter;
};

// When a row was given up: as the audit has it; failing that, when it was last sent.
std::string died_on_sql(const Sql& sql) {
  return fmt::format(
      "coalesce((SELECT max(a.at) FROM {} AS a WHERE a.outbox = $1 AND a.row_key = {} "
      "AND a.action = 'dead_letter'), r.last_attempt_at)",
      sql.audit(), sql.key_text());
}

// Dead letters by $2 event type and $3 reason, at most $4; of the ids in $5; behind $6, $7, $8.
std::string find_sql(const Desk& desk, const std::string& chosen, bool onwards) {
  const Sql& sql = desk.sql;
  const Columns& c = sql.mapping().columns;
  const std::string reason = Desk::either(sql.text(c.dead_letter_reason), "dead_letter_reason");
  const std::string columns = fmt::format(
      "{} AS p1, {} AS p2, {} AS place, {} AS tie, {} AS key, {} AS id, {} AS type, {} AS okey, "
      "{} AS reason, ({})::int8 AS attempts, {} AS error, {} AS occurred, {} AS fingerprint, "
      "{} AS died",
      sql.column(sql.mapping().order), sql.row_key(), sql.place(), sql.tie(), sql.key_text(),
      sql.text(c.id), sql.text(c.event_type), sql.text(c.ordering_key), reason,
      Desk::either(sql.value(c.retry_count), "retry_count"),
      Desk::either(sql.text(c.last_error), "error"), desk.readable(c.occurred_on),
      sql.fingerprint(), rfc3339(died_on_sql(sql)));
  std::string filter = fmt::format("($2 = '' OR {}) AND ($3 = '' OR {} = $3)",
                                   desk.equals(c.event_type, "$2"), reason);
  if (!chosen.empty()) filter += " AND " + chosen;
  if (onwards) filter += " AND " + Desk::behind(sql, "$6", "$7", "$8");
  return fmt::format(
      "SELECT place, tie, key, id, type, okey, reason, attempts, error, occurred, fingerprint, "
      "died FROM ({}) AS d ORDER BY p1, p2 LIMIT $4",
      desk.select_dead(columns, filter, fmt::format("ORDER BY {} LIMIT $4", sql.order())));
}

std::vector<FoundDead> find_dead(Desk& desk, const DeadLetterFilter& filter,
                                 const std::optional<Position>& after, std::size_t limit) {
  desk.connection.begin_work();
  const bool choose = !filter.ids.empty();
  const Wanted wanted = desk.wanted(filter.ids, "$5");
  const Columns& c = desk.sql.mapping().columns;
  const Position from = after.value_or(Position{});
  std::vector<FoundDead> result;
  Transaction look(desk.connection, Transaction::Kind::read);
  Rows rows =
      ask(desk.connection, find_sql(desk, choose ? wanted.condition : "", after.has_value()),
          desk.outbox, filter.event_type, filter.reason, limit, wanted.ids, from.place, from.tie,
          from.key);
  while (rows.next()) {
    FoundDead found;
    found.position = {rows.integer(0), rows.text(1), rows.text(2)};
    found.key = rows.text(2);
    found.letter.id = desk.shown_id(c.id, rows.text(3));
    found.letter.event_type = rows.text(4);
    found.letter.ordering_key = desk.shown_id(c.ordering_key, rows.text(5));
    found.letter.reason = rows.text(6);
    found.letter.attempts =
        static_cast<std::uint32_t>(std::clamp<std::int64_t>(rows.integer(7), 0, UINT32_MAX));
    found.letter.last_error = rows.text(8);
    found.letter.occurred_on = desk.shown_time(rows.text(9));
    found.fingerprint = rows.integer(10);
    found.letter.died_on = rows.text(11);
    result.push_back(std::move(found));
  }
  look.commit();
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
  const std::string open = sql.mapping().holds_dead() ? "false" : sql.is_open();
  return fmt::format("UPDATE {} SET {} WHERE {} = {} AND ({} OR {})", sql.from(), assignments,
                     sql.row_key(), sql.as_key("$1"), sql.is_dead(), open);
}

// What was true of earlier attempts stays true; a row that took relays down stays alone.
std::string write_side_sql(const Sql& sql) {
  return fmt::format(
      "INSERT INTO {} AS r (outbox, row_key, state, retry_count, generation, outcome_unknown, "
      "takeovers, fingerprint) VALUES ($1, $2, $3, $4, $5, $6, $7, $8) "
      "ON CONFLICT (outbox, row_key) DO UPDATE SET state = excluded.state, "
      "dead_letter_reason = NULL, error = NULL, due = NULL, retry_count = excluded.retry_count, "
      "processed_on = NULL, generation = excluded.generation, counted = 0, "
      "misconfigured_tries = 0, misconfigured_since = NULL, last_failure = NULL, "
      "last_delay_ms = NULL, last_attempt_at = NULL, "
      "outcome_unknown = excluded.outcome_unknown, takeovers = excluded.takeovers, crashes = 0, "
      "taken_from = NULL, waits_for_recovery_epoch = NULL, fingerprint = excluded.fingerprint",
      sql.rows());
}

// Treats single rows, inside a write transaction.
class Hand {
 public:
  Hand(Desk& desk, const Treatment& treatment)
      : desk_(desk),
        treatment_(treatment),
        look_(desk.connection,
              fmt::format("SELECT {}, {}, coalesce(r.generation, 0), "
                          "coalesce(r.outcome_unknown, false), coalesce(r.takeovers, 0) "
                          "FROM {} {} WHERE {} = {}{}",
                          desk.sql.whole_state(), desk.sql.state_name(), desk.sql.from(),
                          desk.sql.side_row(), desk.sql.row_key(), desk.sql.as_key("$2"),
                          desk.locked())),
        // Under the row's lock, but also only from the state that it was seen in.
        remove_(
            desk.connection,
            fmt::format("DELETE FROM {} WHERE {} = {} AND coalesce({}, '') = $2", desk.sql.from(),
                        desk.sql.row_key(), desk.sql.as_key("$1"), desk.sql.state_name())),
        write_side_(desk.connection, write_side_sql(desk.sql)),
        forget_side_(
            desk.connection,
            fmt::format("DELETE FROM {} WHERE outbox = $1 AND row_key = $2", desk.sql.rows())),
        forget_attempts_(
            desk.connection,
            fmt::format("DELETE FROM {} WHERE outbox = $1 AND row_key = $2", desk.sql.attempts())) {
    const std::string revive = revive_sql(desk.sql);
    if (!revive.empty()) revive_.emplace(desk.connection, revive);
  }

  // False if the row is no dead letter any more, or refuses (noted in `treated`).
  bool treat(const FoundDead& found, Treated& treated) {
    Rows rows = look_.rows(desk_.outbox, found.key);
    if (!rows.next() || rows.text(0) != state::kDeadLettered) return false;
    const bool redrives = treatment_.kind == Treatment::Kind::redrive;
    if (redrives) {
      revive(found, rows);
    } else if (!discard(found, rows.text(1), treated)) {
      return false;
    }
    desk_.audit({redrives ? "redrive" : "discard", treatment_.reason, found.key, found.letter.id});
    return true;
  }

 private:
  void revive(const FoundDead& found, const Rows& before) {
    const bool pending_by_itself =
        desk_.sql.mapping().holds_dead() && before.text(1) == state::kPending;
    std::string refusal;
    const bool in_place =
        !pending_by_itself && revive_ &&
        carefully(
            desk_.connection, [&] { return revive_->run(found.key) == 1; }, refusal);
    std::optional<std::string> state;
    std::optional<std::int64_t> retry_count;
    if (!pending_by_itself && !in_place) {
      state = state::kPending;
      retry_count = 0;
    }
    write_side_.run(desk_.outbox, found.key, state, retry_count, before.integer(2) + 1,
                    before.boolean(3), before.integer(4), found.fingerprint);
  }

  bool discard(const FoundDead& found, const std::string& own_state, Treated& treated) {
    std::string refusal;
    if (!carefully(
            desk_.connection, [&] { return remove_.run(found.key, own_state) == 1; }, refusal)) {
      if (refusal.empty()) return false;
      ++treated.refused;
      if (treated.refusal.empty()) treated.refusal = std::move(refusal);
      return false;
    }
    forget_side_.run(desk_.outbox, found.key);
    forget_attempts_.run(desk_.outbox, found.key);
    return true;
  }

  Desk& desk_;
  const Treatment& treatment_;
  Query look_;
  std::optional<Query> revive_;  // nothing if the table has no columns for it
  Query remove_;
  Query write_side_;
  Query forget_side_;
  Query forget_attempts_;
};

std::string export_sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  return fmt::format("SELECT {}, {}, {}, {}, {} FROM {} WHERE {} = {}", sql.text(c.destination),
                     sql.text(c.content_type), sql.text(c.traceparent), sql.text(c.headers),
                     sql.payload(), sql.from(), sql.row_key(), sql.as_key("$1"));
}

}  // namespace

std::vector<DeadLetter> list_dead_letters(Desk& desk, const DeadLetterFilter& filter) {
  std::vector<DeadLetter> letters;
  for (FoundDead& found : find_dead(desk, filter, std::nullopt, filter.limit)) {
    letters.push_back(std::move(found.letter));
  }
  return letters;
}

void export_dead_letters(Desk& desk, const DeadLetterFilter& filter,
                         const std::function<bool(const ExportedLetter&)>& take,
                         std::uint64_t& taken) {
  Query read(desk.connection, export_sql(desk.sql));
  std::optional<Position> after;
  while (taken < filter.limit) {
    const auto found =
        find_dead(desk, filter, after, std::min<std::size_t>(kFoundAtOnce, filter.limit - taken));
    if (found.empty()) return;
    for (const FoundDead& each : found) {
      desk.connection.begin_work();
      Transaction look(desk.connection, Transaction::Kind::read);
      Rows rows = read.rows(each.key);
      look.commit();
      if (!rows.next()) continue;
      ExportedLetter letter;
      letter.letter = each.letter;
      letter.destination = rows.text(0);
      letter.content_type = rows.text(1);
      letter.traceparent = rows.text(2);
      letter.headers = rows.text(3);
      letter.payload = rows.text(4);
      if (!take(letter)) return;
      ++taken;
    }
    after = found.back().position;
  }
}

void treat_dead_letters(Desk& desk, const DeadLetterFilter& filter, const Treatment& treatment,
                        const Progress& progress, Treated& treated) {
  using HoldClock = std::chrono::steady_clock;
  Hand hand(desk, treatment);
  const bool redrives = treatment.kind == Treatment::Kind::redrive;
  std::optional<Position> after;
  while (treated.done < filter.limit) {
    // Found without locks; each row is looked at again under its own.
    const auto found = find_dead(desk, filter, after,
                                 std::min<std::size_t>(kFoundAtOnce, filter.limit - treated.done));
    if (found.empty()) return;
    after = found.back().position;
    std::span<const FoundDead> rest(found);
    while (!rest.empty()) {
      desk.connection.begin_work();
      Transaction transaction(desk.connection, Transaction::Kind::write);
      const auto begun = HoldClock::now();
      std::size_t looked_at = 0;
      std::uint64_t done = 0;
      while (looked_at < std::min(kChunk, rest.size()) && HoldClock::now() - begun < kWorkMax) {
        done += hand.treat(rest[looked_at++], treated) ? 1 : 0;
      }
      // As if they had been inserted anew. Told when it is committed.
      if (done > 0 && redrives) ask(desk.connection, kNotify);
      transaction.commit();
      treated.done += done;
      rest = rest.subspan(looked_at);
      if (progress && !progress(treated.done)) return;
    }
  }
}

}  // namespace outbox::postgres
