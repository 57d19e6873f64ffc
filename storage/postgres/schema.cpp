#include "storage/postgres/schema.h"

#include <fmt/format.h>

#include <utility>

#include "storage/postgres/sql.h"

namespace outbox::postgres {
namespace {

// {0} stands for the schema and its dot. Tables that are written at each turn are cleaned up early.
constexpr const char* kMeta = R"(CREATE TABLE IF NOT EXISTS {0}outbox_relay_meta (
  outbox text COLLATE "C" NOT NULL,  -- '' for what concerns all outboxes of this schema
  name text COLLATE "C" NOT NULL,
  value text,
  PRIMARY KEY (outbox, name));)";

constexpr const char* kEpochs = "CREATE SEQUENCE IF NOT EXISTS {0}outbox_relay_epochs;";

constexpr const char* kIncarnations = R"(-- One row for each running relay.
CREATE TABLE IF NOT EXISTS {0}outbox_relay_incarnations (
  outbox text COLLATE "C" NOT NULL,
  incarnation bigint NOT NULL,
  lease_until timestamptz NOT NULL,  -- the end of all its leases
  turn bigint NOT NULL,              -- number of its last turn
  epoch bigint NOT NULL,             -- fencing epoch of that turn
  instance_name text,
  instance_pid bigint,
  started_at timestamptz NOT NULL,
  PRIMARY KEY (outbox, incarnation))
  WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);)";

constexpr const char* kLeases = R"(CREATE TABLE IF NOT EXISTS {0}outbox_relay_leases (
  outbox text COLLATE "C" NOT NULL,
  row_key text COLLATE "C" NOT NULL,
  incarnation bigint NOT NULL,
  epoch bigint NOT NULL,
  alone boolean NOT NULL,            -- leased with nothing beside it
  noted boolean NOT NULL,            -- outbox_relay_rows has a row for it
  PRIMARY KEY (outbox, row_key))
  WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000);)";

constexpr const char* kRows =
    R"(-- What the outbox has no column for. A state here stands for the one in the outbox.
CREATE TABLE IF NOT EXISTS {0}outbox_relay_rows (
  outbox text COLLATE "C" NOT NULL,
  row_key text COLLATE "C" NOT NULL,
  state text COLLATE "C",            -- these six only where the outbox's row can't be written
  dead_letter_reason text,
  error text,
  due timestamptz,
  retry_count bigint,
  processed_on timestamptz,
  generation bigint NOT NULL DEFAULT 0,
  counted bigint NOT NULL DEFAULT 0,
  misconfigured_tries bigint NOT NULL DEFAULT 0,
  misconfigured_since timestamptz,
  last_failure text,
  last_delay_ms bigint,
  last_attempt_at timestamptz,
  outcome_unknown boolean NOT NULL DEFAULT false,
  takeovers bigint NOT NULL DEFAULT 0,
  crashes bigint NOT NULL DEFAULT 0,
  taken_from bigint,                 -- the relay that the last of these two was counted against
  waits_for_recovery_epoch bigint,
  fingerprint bigint,                -- of the event's id: the key may come to another row
  PRIMARY KEY (outbox, row_key))
  WITH (autovacuum_vacuum_scale_factor = 0.02);)";

constexpr const char* kRowsWaiting =
    "CREATE INDEX IF NOT EXISTS outbox_relay_rows_waiting\n"
    "  ON {0}outbox_relay_rows (outbox, waits_for_recovery_epoch, row_key)\n"
    "  WHERE waits_for_recovery_epoch IS NOT NULL;";

constexpr const char* kRowsState =
    "CREATE INDEX IF NOT EXISTS outbox_relay_rows_state\n"
    "  ON {0}outbox_relay_rows (outbox, state, due, row_key) WHERE state IS NOT NULL;";

constexpr const char* kBrokers = R"(CREATE TABLE IF NOT EXISTS {0}outbox_relay_brokers (
  outbox text COLLATE "C" NOT NULL,
  broker text COLLATE "C" NOT NULL,  -- empty: for all of them
  state text,                        -- open, or nothing
  reason text,
  isolated boolean NOT NULL DEFAULT false,
  paused boolean NOT NULL DEFAULT false,
  updated timestamptz,
  verdict bigint NOT NULL DEFAULT 0,
  open_until timestamptz,
  probe_by bigint,                   -- the incarnation that may probe
  probe_until timestamptz,
  PRIMARY KEY (outbox, broker));)";

// For tables that were made before the relays of an outbox shared what they know of a circuit.
constexpr const char* kVerdictColumns = R"(ALTER TABLE {0}outbox_relay_brokers
  ADD COLUMN IF NOT EXISTS verdict bigint NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS open_until timestamptz,
  ADD COLUMN IF NOT EXISTS probe_by bigint,
  ADD COLUMN IF NOT EXISTS probe_until timestamptz;)";

constexpr const char* kAttempts = R"(CREATE TABLE IF NOT EXISTS {0}outbox_relay_attempts (
  outbox text COLLATE "C" NOT NULL,
  row_key text COLLATE "C" NOT NULL,
  at timestamptz NOT NULL,
  outcome text NOT NULL,
  reason text);)";

constexpr const char* kAttemptsRow =
    "CREATE INDEX IF NOT EXISTS outbox_relay_attempts_row\n"
    "  ON {0}outbox_relay_attempts (outbox, row_key);";

constexpr const char* kAudit = R"(CREATE TABLE IF NOT EXISTS {0}outbox_relay_audit (
  outbox text COLLATE "C" NOT NULL,
  row_key text COLLATE "C",
  event_id text,
  at timestamptz NOT NULL,
  action text NOT NULL,              -- dead_letter, redrive, isolate, close
  reason text);)";

constexpr const char* kAuditRow =
    "CREATE INDEX IF NOT EXISTS outbox_relay_audit_row\n"
    "  ON {0}outbox_relay_audit (outbox, row_key);";

constexpr const char* kNotify = R"(
-- Optional: tells relays of new rows at once, where they would find them by polling. Each writer's
-- commit then takes a lock that all notifying transactions of the server share.
-- CREATE OR REPLACE FUNCTION {0}outbox_relay_notify() RETURNS trigger LANGUAGE plpgsql AS $$
-- BEGIN PERFORM pg_notify('outbox_relay', TG_TABLE_NAME); RETURN NULL; END $$;
-- CREATE OR REPLACE TRIGGER outbox_relay_notify AFTER INSERT ON {1}
--   FOR EACH STATEMENT EXECUTE FUNCTION {0}outbox_relay_notify();
)";

// The schema with its dot, to stand before a name.
std::string prefix(const std::string& schema) { return schema.empty() ? "" : quoted(schema) + "."; }

std::string table_statement(const Mapping& mapping, const std::string& table) {
  const Columns& c = mapping.columns;
  const auto q = [](const std::string& name) { return quoted(name); };
  return fmt::format(
      "CREATE TABLE IF NOT EXISTS {} (\n"
      "  {} bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,\n"
      "  {} text NOT NULL UNIQUE,\n  {} text NOT NULL,\n  {} text,\n  {} text,\n  {} text,\n"
      "  {} text,\n  {} text,\n  {} timestamptz NOT NULL DEFAULT clock_timestamp(),\n"
      "  {} timestamptz,\n  {} text NOT NULL DEFAULT {},\n  {} integer NOT NULL DEFAULT 0,\n"
      "  {} timestamptz,\n  {} text,\n  {} timestamptz,\n  {} text,\n  {} bytea NOT NULL)\n"
      "  WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);",
      table, q(c.sequence), q(c.id), q(c.event_type), q(c.ordering_key), q(c.destination),
      q(c.content_type), q(c.headers), q(c.traceparent), q(c.occurred_on), q(c.not_before),
      q(c.status), literal(mapping.states.pending), q(c.retry_count), q(c.next_attempt),
      q(c.last_error), q(c.processed_on), q(c.dead_letter_reason), q(c.payload));
}

bool exists(Connection& connection, const std::string& schema, const std::string& name) {
  return ask(connection,
             "SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n "
             "ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2",
             schema, name)
      .next();
}

std::string verdict_columns_statement(const std::string& schema) {
  return fmt::format(fmt::runtime(kVerdictColumns), prefix(schema));
}

std::string version_statement(const std::string& schema) {
  return fmt::format(
      "INSERT INTO {}outbox_relay_meta (outbox, name, value)\n"
      "  VALUES ('', 'schema_major', '{}'), ('', 'schema_minor', '0') ON CONFLICT DO NOTHING;",
      prefix(schema), kSchemaMajor);
}

void require_known_version(Connection& connection, const std::string& schema) {
  if (!exists(connection, schema, "outbox_relay_meta")) return;
  Rows rows = ask(connection, fmt::format("SELECT value FROM {}outbox_relay_meta WHERE outbox = '' "
                                          "AND name = 'schema_major'",
                                          prefix(schema)));
  const int major = rows.next() ? std::atoi(rows.text(0).c_str()) : 0;
  if (major <= kSchemaMajor) return;
  throw NewerTables(fmt::format(
      "the relay's tables in {}, schema {}, have version {}, this program knows up to {}: run a "
      "newer outbox-relay",
      connection.label(), schema, major, kSchemaMajor));
}

}  // namespace

std::vector<SchemaPart> outbox_parts(const Mapping& mapping, const std::string& schema) {
  if (mapping.foreign) return {};
  const Columns& c = mapping.columns;
  const IndexNames names = index_names(mapping);
  Table table;
  table.schema = schema;
  table.mapping = mapping;
  const Sql sql(table);
  const std::string full = prefix(schema) + quoted(mapping.table);
  std::vector<SchemaPart> parts{{mapping.table, table_statement(mapping, full)}};
  const auto index = [&](const std::string& name, const std::string& columns,
                         const std::string& where) {
    parts.push_back({name, fmt::format("CREATE INDEX IF NOT EXISTS {}\n  ON {} ({}) WHERE {};",
                                       quoted(name), full, columns, where)});
  };
  const std::string order = quoted(mapping.order);
  const std::string key = quoted(c.ordering_key);
  index(names.pending, order, sql.is_pending(""));
  index(names.failed, quoted(c.next_attempt) + ", " + order, sql.is_failed(""));
  index(names.dead, order, sql.is_dead(""));
  index(names.open_key, key + ", " + order, key + " IS NOT NULL AND " + sql.is_open(""));
  index(names.dead_key, key + ", " + order, key + " IS NOT NULL AND " + sql.is_dead(""));
  return parts;
}

bool has_verdict_columns(Connection& connection, const std::string& schema) {
  return ask(connection,
             "SELECT 1 FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n "
             "ON n.oid = c.relnamespace JOIN pg_catalog.pg_attribute AS a "
             "ON a.attrelid = c.oid AND NOT a.attisdropped WHERE n.nspname = $1 "
             "AND c.relname = 'outbox_relay_brokers' AND a.attname = 'verdict'",
             schema)
      .next();
}

std::vector<SchemaPart> relay_parts(const std::string& schema) {
  std::vector<SchemaPart> parts;
  for (const auto& [name, statement] :
       {std::pair("outbox_relay_meta", kMeta), std::pair("outbox_relay_epochs", kEpochs),
        std::pair("outbox_relay_incarnations", kIncarnations),
        std::pair("outbox_relay_leases", kLeases), std::pair("outbox_relay_rows", kRows),
        std::pair("outbox_relay_rows_waiting", kRowsWaiting),
        std::pair("outbox_relay_rows_state", kRowsState),
        std::pair("outbox_relay_brokers", kBrokers), std::pair("outbox_relay_attempts", kAttempts),
        std::pair("outbox_relay_attempts_row", kAttemptsRow),
        std::pair("outbox_relay_audit", kAudit), std::pair("outbox_relay_audit_row", kAuditRow)}) {
    parts.push_back({name, fmt::format(fmt::runtime(statement), prefix(schema))});
  }
  return parts;
}

std::vector<SchemaPart> foreign_index_parts(const Table& table) {
  if (!table.mapping.foreign) return {};
  const Sql sql(table);
  const std::string name = index_names(table.mapping).pending;
  std::string order = quoted(table.mapping.order);
  if (table.mapping.order != table.mapping.row_key())
    order += ", " + quoted(table.mapping.row_key());
  const std::string where = sql.is_pending("");
  return {{name, fmt::format("CREATE INDEX {}IF NOT EXISTS {} ON {} ({}){};", table.concurrently(),
                             quoted(name), table.qualified(), order,
                             where == "true" ? "" : " WHERE " + where)}};
}

std::string complete_ddl(const StoreSettings& settings) {
  const TableName name = table_name(settings.table);
  const Mapping mapping = mapping_of(settings);
  std::string ddl;
  for (const SchemaPart& part : outbox_parts(mapping, name.schema)) ddl += part.statement + "\n";
  if (!ddl.empty()) ddl += "\n";
  for (const SchemaPart& part : relay_parts(name.schema)) ddl += part.statement + "\n\n";
  ddl += version_statement(name.schema) + "\n";
  return ddl + fmt::format(fmt::runtime(kNotify), prefix(name.schema),
                           prefix(name.schema) + quoted(mapping.table));
}

void require_relay_tables(Connection& connection, const std::string& schema) {
  require_known_version(connection, schema);
  for (const SchemaPart& part : relay_parts(schema)) {
    if (exists(connection, schema, part.name)) continue;
    throw Unusable(
        fmt::format("{}, schema {}, lacks the relay's own {}: run outbox-relay init --apply, or "
                    "run what outbox-relay init prints",
                    connection.label(), schema, part.name));
  }
}

void apply_schema(Connection& connection, const StoreSettings& settings) {
  const Found found = find_table(connection, table_name(settings.table));
  if (found.schema.empty()) {
    throw Unusable(fmt::format("{} has no schema to create {} in: name it as schema.table",
                               connection.label(), settings.table));
  }
  Mapping mapping = mapping_of(settings);
  mapping.table = found.table;
  require_known_version(connection, found.schema);
  Transaction transaction(connection, Transaction::Kind::write);
  // Two that create at once would else meet in the catalogue.
  connection.command("SELECT pg_advisory_xact_lock(hashtextextended('outbox_relay schema', 0))");
  for (const SchemaPart& part : outbox_parts(mapping, found.schema)) {
    connection.command(part.statement);
  }
  // A table of another kind, or under another name: nothing is left of the attempt.
  require_outbox(connection, settings);
  for (const SchemaPart& part : relay_parts(found.schema)) connection.command(part.statement);
  if (!has_verdict_columns(connection, found.schema)) {
    connection.command(verdict_columns_statement(found.schema));
  }
  connection.command(version_statement(found.schema));
  transaction.commit();
}

SchemaCheck compare_schema(Connection& connection, const StoreSettings& settings) {
  SchemaCheck check;
  const Found found = find_table(connection, table_name(settings.table));
  Mapping mapping = mapping_of(settings);
  mapping.table = found.table;
  require_known_version(connection, found.schema);
  std::vector<SchemaPart> parts = outbox_parts(mapping, found.schema);
  try {
    const Table table = require_outbox(connection, settings);
    check.table_usable = true;
    for (SchemaPart& part : foreign_index_parts(table)) parts.push_back(std::move(part));
  } catch (const Unusable& error) {
    if (found.oid != 0 || mapping.foreign)
      check.missing.push_back(fmt::format("-- {}", error.what()));
  }
  for (SchemaPart& part : relay_parts(found.schema)) parts.push_back(std::move(part));
  bool lacks_version = false;
  for (const SchemaPart& part : parts) {
    if (exists(connection, found.schema, part.name)) continue;
    lacks_version = lacks_version || part.name == "outbox_relay_meta";
    check.missing.push_back(part.statement);
  }
  if (exists(connection, found.schema, "outbox_relay_brokers") &&
      !has_verdict_columns(connection, found.schema)) {
    check.missing.push_back(verdict_columns_statement(found.schema));
  }
  if (lacks_version) check.missing.push_back(version_statement(found.schema));
  return check;
}

}  // namespace outbox::postgres
