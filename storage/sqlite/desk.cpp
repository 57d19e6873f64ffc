#include "storage/sqlite/desk.h"

#include <fmt/format.h>

#include <utility>

#include "storage/sqlite/identifiers.h"
#include "storage/sqlite/schema.h"
#include "storage/sqlite/schema_gaps.h"
#include "storage/sqlite/settler.h"

namespace outbox::sqlite {
namespace {

Mapping prepare(Connection& connection, const Mapping& wanted, Desk::Tables tables) {
  Mapping mapping = require_outbox(connection, wanted);
  if (tables == Desk::Tables::looked_at) {
    prepare_to_look(connection, mapping);
  } else {
    require_relay_tables(connection, tables == Desk::Tables::made);
  }
  return mapping;
}

}  // namespace

Desk::Desk(const std::string& path, const Mapping& mapping, const Clocks& clocks_used,
           std::chrono::milliseconds patience, Tables tables)
    : clocks(clocks_used),
      connection(path, patience),
      sql(connection, prepare(connection, mapping, tables)),
      outbox(sql.mapping().table),
      side_rows(connection, outbox, clocks),
      times(connection, sql.mapping().times),
      audit_it(connection.database(),
               "INSERT INTO outbox_relay_audit (outbox, row_key, event_id, at, action, reason) "
               "VALUES (?1, ?2, ?3, ?4, ?5, ?6)") {}

void Desk::want(const std::vector<std::string>& ids) {
  SQLite::Database& database = connection.database();
  database.exec("CREATE TEMP TABLE IF NOT EXISTS outbox_relay_wanted (id)");
  database.exec("DELETE FROM temp.outbox_relay_wanted");
  Query insert(database, "INSERT INTO temp.outbox_relay_wanted (id) VALUES (?1)");
  for (const std::string& id : ids) {
    insert.run(id);
    if (auto guid = guid_bytes(id, sql.mapping().guids)) insert.run(Blob{std::move(*guid)});
    if (auto bytes = hex_bytes(id)) {
      insert.run(*bytes);
      insert.run(Blob{std::move(*bytes)});
    }
  }
}

std::string Desk::wanted() const {
  return fmt::format("{} IN (SELECT id FROM temp.outbox_relay_wanted)",
                     sql.column(sql.mapping().columns.id));
}

void Desk::audit(const Deed& deed) {
  audit_it.run(outbox, deed.key, deed.event_id, to_text(clocks.wall()), deed.action,
               shortened(deed.reason));
}

std::string Desk::shown_time(std::string text) {
  if (parse_time(text) && has_rfc3339_form(text)) return text;
  const auto time = times.read(text);
  return time ? to_text(*time) : text;
}

std::string Desk::either(const std::string& column, const std::string& beside) {
  return fmt::format("CASE WHEN r.state IS NULL THEN coalesce({0}, r.{1}) ELSE r.{1} END", column,
                     beside);
}

}  // namespace outbox::sqlite
