// The doctor's look at the server.
#include <fmt/format.h>

#include <utility>

#include "storage/mapping/findings.h"
#include "storage/postgres/doctor_checks.h"

namespace outbox::postgres {
namespace {

constexpr std::chrono::minutes kLongTransaction{5};
constexpr int kMaintainedMin = 14;  // older ones get no corrections any more

std::string setting(Connection& connection, const char* name) {
  Rows rows = ask(connection, "SELECT pg_catalog.current_setting($1, true)", name);
  return rows.next() ? rows.text(0) : "";
}

void check_version(Connection& connection, Findings& findings) {
  const int major = connection.server_version() / 10000;
  if (major >= kMaintainedMin) return;
  findings.push_back({.severity = Severity::information,
                      .code = "server_version",
                      .what = fmt::format("The server is PostgreSQL {}.", major),
                      .why = "The relay works with 12 and newer; this one gets no security "
                             "corrections any more.",
                      .fix = "Upgrade the server when you can."});
}

bool check_replica(Connection& connection, Findings& findings) {
  Rows rows = ask(connection, "SELECT pg_catalog.pg_is_in_recovery()");
  if (!rows.next() || !rows.boolean(0)) return true;
  findings.push_back(
      {.severity = Severity::error,
       .code = "read_replica",
       .what = fmt::format("{} is a read replica.", connection.label()),
       .why = "The relay writes with each turn, and refuses to work from a copy.",
       .fix = "Name the primary in store.url, or several servers: "
              "postgres://user@one,other/database. The relay takes the one that can be written "
              "to."});
  return false;
}

void check_fsync(Connection& connection, Findings& findings) {
  if (setting(connection, "fsync") != "off") return;
  findings.push_back({.severity = Severity::error,
                      .code = "fsync",
                      .what = "The server runs with fsync off.",
                      .why = "A power cut may damage the database, and undo commits whose events "
                             "were delivered already.",
                      .fix_kind = FixKind::sql,
                      .fix = "ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();"});
}

// Where a setting comes from decides how it is undone.
std::string undo_synchronous_commit(Connection& connection) {
  Rows rows = ask(connection,
                  "SELECT source, current_database()::text, current_user::text "
                  "FROM pg_catalog.pg_settings WHERE name = 'synchronous_commit'");
  const std::string source = rows.next() ? rows.text(0) : "";
  if (source == "database" || source == "database user") {
    return fmt::format("ALTER DATABASE {} SET synchronous_commit = on;", quoted(rows.text(1)));
  }
  if (source == "user") {
    return fmt::format("ALTER ROLE {} SET synchronous_commit = on;", quoted(rows.text(2)));
  }
  return "ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf();";
}

void check_synchronous_commit(Connection& connection, Findings& findings) {
  if (setting(connection, "synchronous_commit") != "off") return;
  findings.push_back(
      {.severity = Severity::warning,
       .code = "synchronous_commit",
       .what = "Sessions commit with synchronous_commit off unless they say otherwise.",
       .why = "A crash of the server may undo the application's last commits, with their events.",
       .fix_kind = FixKind::sql,
       .fix = undo_synchronous_commit(connection)});
}

void check_encoding(Connection& connection, Findings& findings) {
  const std::string encoding = setting(connection, "server_encoding");
  if (encoding == "UTF8") return;
  const bool converts = encoding != "SQL_ASCII";
  findings.push_back(
      {.severity = Severity::warning,
       .code = "encoding",
       .what = fmt::format("The database keeps its texts in {}.", encoding),
       .why = converts ? "Messages are UTF-8: a text with a byte that the server can't turn into "
                         "UTF-8 keeps the relay from reading any row, until it is corrected; and "
                         "errors with other characters can't be written down as they are."
                       : "Messages are UTF-8: a text that is none becomes a dead letter, "
                         "invalid_row, and errors with other characters can't be written down as "
                         "they are.",
       .fix = "Keep the outbox in a database WITH ENCODING 'UTF8'."});
}

void check_autovacuum(Connection& connection, Findings& findings) {
  if (setting(connection, "autovacuum") != "off") return;
  findings.push_back({.severity = Severity::warning,
                      .code = "autovacuum",
                      .what = "The server runs without autovacuum.",
                      .why = "Each delivered row leaves an old version behind; without a clean-up "
                             "the outbox and its indexes only grow.",
                      .fix_kind = FixKind::sql,
                      .fix = "ALTER SYSTEM SET autovacuum = on; SELECT pg_reload_conf();"});
}

void check_pooler(Connection& connection, Findings& findings) {
  if (connection.prepares()) return;
  findings.push_back(
      {.severity = Severity::information,
       .code = "pooler",
       .what = "A pooler, such as PgBouncer, stands between the relay and the server.",
       .why = "That works in session and in transaction mode. In the latter no notification "
              "reaches the relay: it finds new rows by polling, after relay.pollInterval at most.",
       .fix = "Name the server itself in store.url if that is too slow; a relay keeps two "
              "connections at most."});
}

// What keeps old row versions from being cleaned up, whoever it is.
constexpr const char* kOldTransactions =
    "SELECT a.pid::int8, coalesce(a.usename::text, ''), coalesce(a.application_name, ''), "
    "(extract(epoch FROM clock_timestamp() - a.xact_start) / 60)::int8, coalesce(a.state, '') "
    "FROM pg_catalog.pg_stat_activity AS a WHERE a.datname = current_database() "
    "AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend' "
    "AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL) "
    "AND a.xact_start < clock_timestamp() - $1 * interval '1 minute' ORDER BY a.xact_start LIMIT 5";

void check_idle(Connection& connection, std::chrono::minutes age, Findings& findings) {
  Rows rows = ask(connection, kOldTransactions, age.count());
  while (rows.next()) {
    findings.push_back(
        {.severity = Severity::warning,
         .code = "long_transaction",
         .what = fmt::format("A transaction of {} ({}, process {}, {}) has been open for {}.",
                             rows.text(1), rows.text(2).empty() ? "no name" : rows.text(2),
                             rows.integer(0), rows.text(4),
                             counted(static_cast<std::uint64_t>(rows.integer(3)), "minute")),
         .why = "As long as it lasts, no old version of any row is cleaned up: the outbox and its "
                "indexes grow with each delivered event.",
         .fix_kind = FixKind::sql,
         .fix = fmt::format("SELECT pg_terminate_backend({});  -- if nobody needs it any more",
                            rows.integer(0))});
  }
}

// In two-phase commit.
void check_prepared(Connection& connection, std::chrono::minutes age, Findings& findings) {
  Rows rows = ask(connection,
                  "SELECT gid, (extract(epoch FROM clock_timestamp() - prepared) / 60)::int8 "
                  "FROM pg_catalog.pg_prepared_xacts WHERE database = current_database() "
                  "AND prepared < clock_timestamp() - $1 * interval '1 minute' "
                  "ORDER BY prepared LIMIT 5",
                  age.count());
  while (rows.next()) {
    findings.push_back(
        {.severity = Severity::warning,
         .code = "prepared_transaction",
         .what =
             fmt::format("The transaction '{}' was prepared {} ago and not ended.", rows.text(0),
                         counted(static_cast<std::uint64_t>(rows.integer(1)), "minute")),
         .why = "It keeps its locks, and no old version of any row is cleaned up meanwhile.",
         .fix_kind = FixKind::sql,
         .fix =
             fmt::format("ROLLBACK PREPARED {};  -- or COMMIT PREPARED", literal(rows.text(0)))});
  }
}

// A role without this right sees no times of others' transactions.
void check_insight(Connection& connection, Findings& findings) {
  Rows rows = ask(connection,
                  "SELECT current_user::text WHERE NOT pg_catalog.pg_has_role('pg_read_all_stats', "
                  "'USAGE')");
  if (!rows.next()) return;
  findings.push_back(
      {.severity = Severity::information,
       .code = "not_checked",
       .what = fmt::format("Whether transactions of others have been open for long can't be seen "
                           "by the role {}.",
                           rows.text(0)),
       .why = "Only the doctor would need that right; the relay does not.",
       .fix_kind = FixKind::sql,
       .fix = fmt::format("GRANT pg_read_all_stats TO {};", quoted(rows.text(0)))});
}

}  // namespace

void check_transactions(Connection& connection, std::chrono::minutes age, Findings& findings) {
  check_idle(connection, age, findings);
  check_prepared(connection, age, findings);
}

bool check_server(Connection& connection, Findings& findings) {
  check_version(connection, findings);
  if (!check_replica(connection, findings)) return false;
  check_fsync(connection, findings);
  check_synchronous_commit(connection, findings);
  check_encoding(connection, findings);
  check_autovacuum(connection, findings);
  check_pooler(connection, findings);
  check_transactions(connection, kLongTransaction, findings);
  check_insight(connection, findings);
  return true;
}

}  // namespace outbox::postgres
