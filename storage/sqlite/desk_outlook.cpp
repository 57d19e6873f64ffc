#include "storage/sqlite/desk_outlook.h"

#include <fmt/format.h>

#include <utility>

#include "storage/sqlite/identifiers.h"
#include "storage/sqlite/overview.h"

namespace outbox::sqlite {
namespace {

// The rows of key ?2 before place ?3, by their id and state.
std::string ahead_sql(const Sql& sql, const std::string& from, const std::string& where) {
  const Columns& c = sql.mapping().columns;
  return fmt::format(
      "SELECT {}, coalesce(r.state, {}) FROM {} {} WHERE {} = ?2 AND {} AND {} < ?3 ORDER BY {}",
      sql.column(c.id), sql.state_name(), from, sql.side_row(), sql.value(c.ordering_key), where,
      sql.order(), sql.order());
}

bool is_undecided(MessageState state) {
  return state == MessageState::pending || state == MessageState::failed;
}

}  // namespace

std::string WaitingColumns::sql(const Sql& sql) {
  const Columns& c = sql.mapping().columns;
  return fmt::format("{}, {}, r.waits_for_recovery_epoch IS NOT NULL",
                     Desk::either(sql.value(c.next_attempt), "due"), sql.value(c.not_before));
}

WaitingColumns WaitingColumns::read(const Query::Rows& rows, int first) {
  return {.due = rows.text(first),
          .not_before = rows.text(first + 1),
          .waits_for_recovery = rows.integer(first + 2) != 0};
}

Outlooks::Outlooks(Desk& desk)
    : desk_(desk),
      open_ahead_(desk.connection.database(),
                  ahead_sql(desk.sql, desk.sql.from_open_key(), desk.sql.is_open())),
      dead_ahead_(desk.connection.database(),
                  ahead_sql(desk.sql, desk.sql.from_dead_key(), desk.sql.is_dead())) {
  read_orders(desk.connection, desk.outbox, orders_);
}

Outlook Outlooks::of(const FoundRow& row) {
  Outlook outlook;
  if (!is_undecided(row.state)) return outlook;
  if (row.leased) outlook.holder = holder_of(desk_.connection, desk_.outbox, row.key, desk_.clocks);
  outlook.paused = orders_.paused;
  outlook.isolated = orders_.isolated;
  read_due(row, outlook);
  if (row.ordering_key) read_ahead(row, outlook);
  return outlook;
}

void Outlooks::read_due(const FoundRow& row, Outlook& outlook) {
  const auto ahead = [this](const std::string& text) {
    auto time = desk_.times.read(text);
    return time && *time > desk_.clocks.wall() ? time : std::nullopt;
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
  if (due) outlook.due_on = to_text(*due);
}

// A table without a state for dead letters has them among its open rows.
void Outlooks::read_ahead(const FoundRow& row, Outlook& outlook) {
  for (Query* const query : {&open_ahead_, &dead_ahead_}) {
    auto rows = query->rows(desk_.outbox, *row.ordering_key, row.place);
    bool found = false;
    while (!found && rows.next()) {
      const MessageState state = state_named(rows.text(1));
      const bool dead = state == MessageState::dead_lettered;
      auto& ahead = dead ? outlook.dead_ahead : outlook.open_ahead;
      if (!ahead && (dead || is_undecided(state)))
        ahead = RowAhead{rendered_id(rows, 0, desk_.sql.mapping().guids), state};
      found = outlook.open_ahead && outlook.dead_ahead;
    }
  }
}

}  // namespace outbox::sqlite
