#include "storage/sqlite/desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>

#include "storage/sqlite/schema.h"
#include "storage/sqlite/settler.h"

namespace outbox::sqlite {
namespace {

Mapping prepare(Connection& connection, const Mapping& wanted) {
  Mapping mapping = require_outbox(connection, wanted);
  require_relay_tables(connection, false);
  return mapping;
}

// The 16 bytes of a GUID in .NET's order (the first three fields little-endian); nothing if the
// text is none.
std::optional<Blob> guid_bytes(const std::string& text) {
  constexpr std::array<std::size_t, 16> kPlace{3, 2, 1,  0,  5,  4,  7,  6,
                                               8, 9, 10, 11, 12, 13, 14, 15};
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits),
               [](char letter) { return letter != '-'; });
  if (digits.size() != 2 * kPlace.size()) return std::nullopt;
  Blob blob{std::string(kPlace.size(), '\0')};
  for (std::size_t index = 0; index < kPlace.size(); ++index) {
    unsigned char byte = 0;
    const char* const begin = digits.data() + 2 * index;
    if (std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2) return std::nullopt;
    blob.bytes[kPlace[index]] = static_cast<char>(byte);
  }
  return blob;
}

}  // namespace

Desk::Desk(const std::string& path, const Mapping& mapping, const Clocks& clocks_used,
           std::chrono::milliseconds patience)
    : clocks(clocks_used),
      connection(path, patience),
      sql(connection, prepare(connection, mapping)),
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
    if (const auto guid = guid_bytes(id)) insert.run(*guid);
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

std::string Desk::either(const std::string& column, const std::string& beside) {
  return fmt::format("CASE WHEN r.state IS NULL THEN coalesce({0}, r.{1}) ELSE r.{1} END", column,
                     beside);
}

}  // namespace outbox::sqlite
