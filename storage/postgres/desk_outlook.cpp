#include "storage/postgres/desk_outlook.h"

#include <fmt/format.h>

#include <utility>

#include "storage/mapping/states.h"
#include "storage/mapping/times.h"
#include "storage/postgres/overview.h"

namespace outbox::postgres {
namespace {

// More than one end of a key is not looked at.
constexpr int kAheadMax = 1000;

// The rows of the key of row $2 before it, by their id and state.
std::string ahead_sql(const Sql& sql, const std::string& where) {
  const Columns& c = sql.mapping().columns;
  if (c.ordering_key.empty() || where == "false") {
    return "SELECT NULL::text, NULL::text WHERE $1 <> $1 AND $2 <> $2";
  }
  const std::string self = fmt::format("(SELECT o.{{}} FROM {} WHERE {} = {})", sql.from(),
                                       sql.row_key(), sql.as_key("$2"));
  const auto own = [&](const std::string& column) {
    return fmt::format(fmt::runtime(self), quoted(column));
  };
  const std::string order = sql.mapping().order;
  const std::string before =
      sql.order().find(", ") == std::string::npos
          ? fmt::format("{} < {}", sql.column(order), own(order))
          : fmt::format("({}, {}) < ({}, {})", sql.column(order), sql.row_key(), own(order),
                        own(sql.mapping().row_key()));
  return fmt::format("SELECT {}, {} FROM {} {} WHERE {} = {} AND {} AND {} ORDER BY {} LIMIT {}",
                     sql.text(c.id), sql.whole_state(), sql.from(), sql.side_row(),
                     sql.column(c.ordering_key), own(c.ordering_key), where, before, sql.order(),
                     kAheadMax);
}

bool is_undecided(MessageState state) {
  return state == MessageState::pending || state == MessageState::failed;
}

}  // namespace

std::string WaitingColumns::sql(const Desk& desk) {
  return fmt::format("{}, {}, r.waits_for_recovery_epoch IS NOT NULL",
                     Desk::either(desk.sql.due(), "due"),
                     desk.sql.time(desk.sql.mapping().columns.not_before));
}

WaitingColumns WaitingColumns::read(const Rows& rows, int first) {
  return {.due = rows.maybe_time(first),
          .not_before = rows.maybe_time(first + 1),
          .waits_for_recovery = rows.boolean(first + 2)};
}

Outlooks::Outlooks(Desk& desk)
    : desk_(desk),
      open_ahead_(desk.connection, ahead_sql(desk.sql, desk.sql.is_open())),
      dead_ahead_(desk.connection, ahead_sql(desk.sql, desk.sql.is_dead())) {
  read_orders(desk.connection, desk.sql, orders_);
  Rows now = ask(desk.connection, fmt::format("SELECT ({})::timestamptz", desk.now));
  if (now.next()) now_ = now.time(0);
}

Outlook Outlooks::of(const FoundRow& row) {
  Outlook outlook;
  if (!is_undecided(row.state)) return outlook;
  if (row.leased) outlook.holder = holder_of(desk_.connection, desk_.sql, row.key, desk_.now);
  outlook.paused = orders_.paused;
  outlook.isolated = orders_.isolated;
  read_due(row, outlook);
  if (row.has_ordering_key) read_ahead(row, outlook);
  return outlook;
}

void Outlooks::read_due(const FoundRow& row, Outlook& outlook) const {
  const auto ahead = [this](const std::optional<ServerTime>& time) {
    return time && *time > now_ ? time : std::nullopt;
  };
  auto due = ahead(row.waiting.not_before);
  outlook.asked_to_wait = due.has_value();
  if (row.state == MessageState::failed) {
    outlook.waits_for_recovery = row.waiting.waits_for_recovery;
    const auto again = ahead(row.waiting.due);
    if (again && (!due || *again > *due)) {
      due = again;
      outlook.asked_to_wait = false;
    }
  }
  if (due) outlook.due_on = to_text(std::chrono::floor<std::chrono::milliseconds>(*due));
}

// A table without a state for dead letters has them among its open rows.
void Outlooks::read_ahead(const FoundRow& row, Outlook& outlook) {
  for (Query* const query : {&open_ahead_, &dead_ahead_}) {
    Rows rows = query->rows(desk_.outbox, row.key);
    bool found = false;
    while (!found && rows.next()) {
      const MessageState state = state_named(rows.text(1));
      const bool dead = state == MessageState::dead_lettered;
      auto& ahead = dead ? outlook.dead_ahead : outlook.open_ahead;
      if (!ahead && (dead || is_undecided(state))) {
        ahead = RowAhead{desk_.shown_id(desk_.sql.mapping().columns.id, rows.text(0)), state};
      }
      found = outlook.open_ahead && outlook.dead_ahead;
    }
  }
}

}  // namespace outbox::postgres
