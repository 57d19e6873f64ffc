#include "storage/sqlite/schema.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "storage/sqlite/conditions.h"
#include "storage/sqlite/dialect.h"

namespace outbox::sqlite {
namespace {

constexpr mode_t kFileMode = 0660;  // the umask is taken off

constexpr const char* kRelayTables = R"(
CREATE TABLE IF NOT EXISTS outbox_relay_meta (
  outbox TEXT NOT NULL,            -- '' for what concerns all outboxes of this database
  name TEXT NOT NULL,
  value,
  PRIMARY KEY (outbox, name)) WITHOUT ROWID;

-- One row for each running relay. Times are nanoseconds of CLOCK_BOOTTIME.
CREATE TABLE IF NOT EXISTS outbox_relay_incarnations (
  outbox TEXT NOT NULL,
  incarnation INTEGER NOT NULL,
  boot_id TEXT NOT NULL,
  lease_until INTEGER NOT NULL,    -- the end of all its leases
  turn INTEGER NOT NULL,           -- number of its last turn
  epoch INTEGER NOT NULL,          -- fencing epoch of that turn
  lock_path TEXT,                  -- file beside the database that it keeps locked while it lives
  lock_dev INTEGER,
  lock_inode INTEGER,
  instance_name TEXT,
  instance_pid INTEGER,
  started_at TEXT NOT NULL,
  PRIMARY KEY (outbox, incarnation)) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS outbox_relay_leases (
  outbox TEXT NOT NULL,
  row_key NOT NULL,
  incarnation INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  alone INTEGER NOT NULL,          -- leased with nothing beside it
  large INTEGER NOT NULL,          -- too large to be rewritten
  noted INTEGER NOT NULL,          -- outbox_relay_rows has a row for it
  PRIMARY KEY (outbox, row_key)) WITHOUT ROWID;

-- What the outbox has no column for. A state here stands for the one in the outbox.
CREATE TABLE IF NOT EXISTS outbox_relay_rows (
  outbox TEXT NOT NULL,
  row_key NOT NULL,
  state TEXT,                      -- these six only where the outbox's row can't be written
  dead_letter_reason TEXT,
  error TEXT,
  due TEXT,
  retry_count INTEGER,
  processed_on TEXT,
  generation INTEGER NOT NULL DEFAULT 0,
  counted INTEGER NOT NULL DEFAULT 0,
  misconfigured_tries INTEGER NOT NULL DEFAULT 0,
  misconfigured_since TEXT,
  last_failure TEXT,
  last_delay_ms INTEGER,
  last_attempt_at TEXT,
  boot INTEGER,                    -- which boot the next two count from
  misconfigured_since_boot INTEGER,
  last_attempt_boot INTEGER,
  outcome_unknown INTEGER NOT NULL DEFAULT 0,
  takeovers INTEGER NOT NULL DEFAULT 0,
  crashes INTEGER NOT NULL DEFAULT 0,
  waits_for_recovery_epoch INTEGER,
  fingerprint INTEGER,             -- of the event's id: the key may come to another row
  PRIMARY KEY (outbox, row_key)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS outbox_relay_rows_waiting
  ON outbox_relay_rows (outbox, waits_for_recovery_epoch, row_key)
  WHERE waits_for_recovery_epoch IS NOT NULL;
CREATE INDEX IF NOT EXISTS outbox_relay_rows_state
  ON outbox_relay_rows (outbox, state, due, row_key) WHERE state IS NOT NULL;

CREATE TABLE IF NOT EXISTS outbox_relay_brokers (
  outbox TEXT NOT NULL,
  broker TEXT NOT NULL,
  state TEXT,
  reason TEXT,
  isolated INTEGER NOT NULL DEFAULT 0,
  paused INTEGER NOT NULL DEFAULT 0,
  updated TEXT,
  verdict INTEGER NOT NULL DEFAULT 0,
  boot INTEGER,                    -- which boot the times below count from
  open_until INTEGER,
  probe_by INTEGER,                -- the incarnation that may probe
  probe_until INTEGER,
  PRIMARY KEY (outbox, broker)) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS outbox_relay_attempts (
  outbox TEXT NOT NULL,
  row_key NOT NULL,
  at TEXT NOT NULL,
  outcome TEXT NOT NULL,
  reason TEXT);
CREATE INDEX IF NOT EXISTS outbox_relay_attempts_row ON outbox_relay_attempts (outbox, row_key);

CREATE TABLE IF NOT EXISTS outbox_relay_audit (
  outbox TEXT NOT NULL,
  row_key,
  event_id TEXT,
  at TEXT NOT NULL,
  action TEXT NOT NULL,            -- dead_letter, redrive, isolate, close
  reason TEXT);
CREATE INDEX IF NOT EXISTS outbox_relay_audit_row ON outbox_relay_audit (outbox, row_key);
)";

std::string meta_ddl() {
  return fmt::format(
      "INSERT OR IGNORE INTO outbox_relay_meta (outbox, name, value)\n"
      "  VALUES ('', 'schema_major', {}), ('', 'schema_minor', 0);\n",
      kSchemaMajor);
}

bool has_table(Connection& connection, const std::string& name) {
  Query find(connection.database(),
             "SELECT 1 FROM main.sqlite_schema WHERE type='table' AND name=?");
  auto rows = find.rows(name);
  return rows.next();
}

std::string collation_of(Connection& connection, const std::string& table,
                         const std::string& column) {
  const char* collation = nullptr;
  sqlite3_table_column_metadata(connection.database().getHandle(), "main", table.c_str(),
                                column.c_str(), nullptr, &collation, nullptr, nullptr, nullptr);
  return collation == nullptr ? "BINARY" : collation;
}

// Whether no two rows have values in that column that a comparison takes for the same.
bool is_unique(Connection& connection, const std::string& table, const TableColumn& column) {
  if (column.rowid) return true;
  Query find(connection.database(),
             "SELECT 1 FROM pragma_index_list(?1, 'main') AS l WHERE l.\"unique\" "
             "AND NOT l.partial AND (SELECT count(*) FROM pragma_index_xinfo(l.name, 'main') "
             "WHERE key) = 1 AND EXISTS (SELECT 1 FROM pragma_index_xinfo(l.name, 'main') "
             "WHERE key AND lower(name) = lower(?2) AND upper(coll) = upper(?3))");
  auto rows = find.rows(table, column.name, collation_of(connection, table, column.name));
  return rows.next();
}

// Without AUTOINCREMENT SQLite gives the number of a row that was deleted to the next one, and what
// was noted of the first would be taken for the second.
bool may_come_again(Connection& connection, const std::string& table, const TableColumn& key) {
  int autoincrement = 0;
  sqlite3_table_column_metadata(connection.database().getHandle(), "main", table.c_str(),
                                key.name.c_str(), nullptr, nullptr, nullptr, nullptr,
                                &autoincrement);
  return key.rowid && autoincrement == 0;
}

void require_rowid(Connection& connection, const std::string& table) {
  Query find(connection.database(),
             "SELECT type = 'table' AND wr = 0 FROM pragma_table_list(?1) WHERE schema = 'main'");
  auto rows = find.rows(table);
  if (rows.next() && rows.integer(0) != 0) return;
  throw Unusable(fmt::format(
      "{} in {} must be a table with a rowid: a view or a table WITHOUT ROWID keeps no order of "
      "inserts",
      table, connection.path()));
}

// A settlement finds its row by nothing else.
void require_key(Connection& connection, const Mapping& mapping,
                 const std::vector<TableColumn>& columns) {
  const std::string key = mapping.row_key();
  for (const TableColumn& column : columns) {
    if (column.name != key) continue;
    const bool is_order = key == mapping.order;
    if (mapping.foreign && may_come_again(connection, mapping.table, column)) {
      throw Unusable(fmt::format(
          "the numbers in column {} of the table {} in {} may be given out again, since it has no "
          "AUTOINCREMENT: what the relay notes of a deleted row would be taken for a new one; map "
          "store.columns.id to another column that is unique",
          key, mapping.table, connection.path()));
    }
    if (mapping.columns.sequence.empty() ? is_unique(connection, mapping.table, column)
                                         : is_order) {
      return;
    }
  }
  if (!mapping.columns.sequence.empty()) {
    throw Unusable(
        fmt::format("the table {} in {} must be a table whose column {} is its INTEGER PRIMARY KEY",
                    mapping.table, connection.path(), key));
  }
  throw Unusable(fmt::format(
      "the column {} of the table {} in {} may repeat: CREATE UNIQUE INDEX {} ON {} ({});", key,
      mapping.table, connection.path(), quoted(mapping.table + "_" + key), quoted(mapping.table),
      quoted(key)));
}

// Columns that came after the first version of their table.
struct LateColumn {
  const char* table;
  const char* name;
  const char* type;
};
constexpr LateColumn kLateColumns[] = {
    {"outbox_relay_rows", "fingerprint", "INTEGER"},
    {"outbox_relay_brokers", "verdict", "INTEGER NOT NULL DEFAULT 0"},
    {"outbox_relay_brokers", "boot", "INTEGER"},
    {"outbox_relay_brokers", "open_until", "INTEGER"},
    {"outbox_relay_brokers", "probe_by", "INTEGER"},
    {"outbox_relay_brokers", "probe_until", "INTEGER"},
};

bool has_column(Connection& connection, const LateColumn& wanted) {
  const auto columns = columns_of(connection, wanted.table);
  return std::any_of(columns.begin(), columns.end(),
                     [&](const TableColumn& column) { return column.name == wanted.name; });
}

// Inside a write transaction.
void create_relay_tables(Connection& connection) {
  connection.database().exec(relay_ddl());
  for (const LateColumn& late : kLateColumns) {
    if (has_column(connection, late)) continue;
    connection.database().exec(
        fmt::format("ALTER TABLE {} ADD COLUMN {} {}", late.table, late.name, late.type));
  }
}

void create_file(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
  if (file >= 0) {
    ::close(file);
    return;
  }
  if (errno == EEXIST) return;
  throw Unusable(fmt::format("cannot create {}: {}", path, std::strerror(errno)));
}

}  // namespace

bool relay_tables_complete(Connection& connection) {
  for (const char* table : {"outbox_relay_meta", "outbox_relay_incarnations", "outbox_relay_leases",
                            "outbox_relay_rows", "outbox_relay_brokers", "outbox_relay_attempts",
                            "outbox_relay_audit"}) {
    if (!has_table(connection, table)) return false;
  }
  return std::all_of(std::begin(kLateColumns), std::end(kLateColumns),
                     [&](const LateColumn& late) { return has_column(connection, late); });
}

void require_known_version(Connection& connection) {
  if (!has_table(connection, "outbox_relay_meta")) return;
  Query find(connection.database(),
             "SELECT value FROM outbox_relay_meta WHERE outbox = '' AND name = 'schema_major'");
  auto rows = find.rows();
  const std::int64_t major = rows.next() ? rows.integer(0) : 0;
  if (major <= kSchemaMajor) return;
  throw NewerTables(
      fmt::format("the relay's tables in {} have version {}, this program knows up to {}: run a "
                  "newer outbox-relay",
                  connection.path(), major, kSchemaMajor));
}

std::vector<std::string> tables_of(Connection& connection) {
  Query list(connection.database(),
             "SELECT name FROM main.sqlite_schema WHERE type = 'table' "
             "AND lower(name) NOT LIKE 'sqlite\\_%' ESCAPE '\\' "
             "AND lower(name) NOT LIKE 'outbox\\_relay\\_%' ESCAPE '\\' ORDER BY name");
  std::vector<std::string> names;
  auto rows = list.rows();
  while (rows.next()) names.push_back(rows.text(0));
  return names;
}

std::vector<TableColumn> columns_of(Connection& connection, const std::string& table) {
  // An INTEGER PRIMARY KEY is the rowid, but for PRIMARY KEY DESC, which gets an index.
  Query list(connection.database(),
             "SELECT name, type, pk = 1 AND upper(type) = 'INTEGER' AND (SELECT count(*) FROM "
             "pragma_table_xinfo(?1, 'main') WHERE pk > 0) = 1 AND NOT EXISTS (SELECT 1 FROM "
             "pragma_index_list(?1, 'main') WHERE origin = 'pk'), hidden IN (2, 3) "
             "FROM pragma_table_xinfo(?1, 'main')");
  std::vector<TableColumn> result;
  auto rows = list.rows(table);
  while (rows.next()) {
    result.push_back({rows.text(0), rows.text(1), rows.integer(2) != 0, rows.integer(3) != 0});
  }
  return result;
}

std::string outbox_ddl(const Mapping& mapping) {
  if (mapping.foreign) return {};
  const Columns& c = mapping.columns;
  const IndexNames names = index_names(mapping);
  const std::string table = quoted(mapping.table);
  std::string ddl = fmt::format(
      "CREATE TABLE IF NOT EXISTS {} (\n"
      "  {} INTEGER PRIMARY KEY AUTOINCREMENT,\n"
      "  {} TEXT NOT NULL UNIQUE,\n  {} TEXT NOT NULL,\n  {} TEXT,\n  {} TEXT,\n  {} TEXT,\n"
      "  {} TEXT,\n  {} TEXT,\n"
      "  {} TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),\n  {} TEXT,\n"
      "  {} TEXT NOT NULL DEFAULT {},\n  {} INTEGER NOT NULL DEFAULT 0,\n"
      "  {} TEXT,\n  {} TEXT,\n  {} TEXT,\n  {} TEXT,\n"
      "  {} BLOB NOT NULL);\n",
      table, c.sequence, c.id, c.event_type, c.ordering_key, c.destination, c.content_type,
      c.headers, c.traceparent, c.occurred_on, c.not_before, c.status,
      literal(mapping.states.pending), c.retry_count, c.next_attempt, c.last_error, c.processed_on,
      c.dead_letter_reason, c.payload);
  const auto index = [&](const std::string& name, const std::string& columns,
                         const std::string& where) {
    ddl += fmt::format("CREATE INDEX IF NOT EXISTS {}\n  ON {} ({}) WHERE {};\n", quoted(name),
                       table, columns, where);
  };
  const std::string keyed = c.ordering_key + " IS NOT NULL AND ";
  index(names.pending, mapping.order, is_pending(mapping, ""));
  index(names.failed, c.next_attempt + ", " + mapping.order, is_failed(mapping, ""));
  index(names.dead, mapping.order, is_dead(mapping, ""));
  index(names.open_key, c.ordering_key + ", " + mapping.order, keyed + is_open(mapping, ""));
  index(names.dead_key, c.ordering_key + ", " + mapping.order, keyed + is_dead(mapping, ""));
  return ddl;
}

std::string relay_ddl() { return kRelayTables + std::string("\n") + meta_ddl(); }

std::string complete_ddl(const Mapping& mapping) {
  if (mapping.foreign) return relay_ddl();
  return "PRAGMA journal_mode=WAL;\n\n" + outbox_ddl(mapping) + relay_ddl();
}

Mapping require_outbox(Connection& connection, Mapping mapping) {
  std::string name;
  {
    Query find(connection.database(),
               "SELECT name FROM main.sqlite_schema WHERE type IN ('table', 'view') "
               "AND lower(name) = lower(?)");
    auto rows = find.rows(mapping.table);
    if (rows.next()) name = rows.text(0);
  }
  if (name.empty()) {
    throw Unusable(fmt::format("{} has no table {} yet: the application creates it{}",
                               connection.path(), mapping.table,
                               mapping.foreign ? "" : " (outbox-relay init prints it)"));
  }
  mapping.table = name;
  require_rowid(connection, name);
  const std::vector<TableColumn> columns = columns_of(connection, name);
  mapping = resolved(std::move(mapping), columns);
  require_key(connection, mapping, columns);
  if (connection.database().execAndGet("PRAGMA encoding").getString() != "UTF-8") {
    throw Unusable(
        fmt::format("{} keeps its texts in UTF-16: the relay needs UTF-8", connection.path()));
  }
  connection.require_wal();
  return mapping;
}

void require_relay_tables(Connection& connection, bool may_create) {
  require_known_version(connection);
  if (relay_tables_complete(connection)) return;
  if (!may_create) {
    throw Unusable(
        fmt::format("{} lacks the relay's own tables, and store.createRelayTables is off: run "
                    "outbox-relay init --apply",
                    connection.path()));
  }
  Transaction transaction(connection, Transaction::Kind::write);
  create_relay_tables(connection);
  transaction.commit();
}

void apply_schema(const std::string& path, const Mapping& mapping) {
  if (!mapping.foreign) create_file(path);
  Connection connection(path, std::chrono::seconds(5));
  if (!mapping.foreign) connection.database().exec("PRAGMA journal_mode=WAL");
  require_known_version(connection);
  Transaction transaction(connection, Transaction::Kind::write);
  connection.database().exec(outbox_ddl(mapping));
  // A table of another kind, or under another name: nothing is left of the attempt.
  require_outbox(connection, mapping);
  create_relay_tables(connection);
  transaction.commit();
}

}  // namespace outbox::sqlite
