// Tables as nobody would make them on purpose.
#include <fmt/format.h>

#include <algorithm>

#include "storage/postgres/candidates.h"
#include "storage/postgres/detection.h"
#include "storage/postgres/doctor.h"
#include "tests/conformance/postgres_foreign_table.h"

namespace outbox::conformance {
namespace {

// Why the relay won't have such a table; empty if it will.
std::string refusal_of(ForeignTable& table) {
  try {
    table.begin();
    return {};
  } catch (const Unusable& error) {
    return error.what();
  }
}

// Turns until nothing more is leased; all that is leased is delivered.
Ids deliver_all(Turns& relay, ForeignTable& table, Duration between = 2s) {
  Ids ids;
  std::vector<Settlement> verdicts;
  for (int turns = 0; turns < 20; ++turns) {
    const Turn turn = relay.take(verdicts);
    verdicts.clear();
    for (const Message& message : turn.leased) {
      ids.push_back(message.id);
      verdicts.push_back(message.defect ? dead(message, DeadReason::invalid_row)
                                        : delivered(message));
    }
    if (verdicts.empty() && !turn.more) break;
    table.fixture().advance(between);
  }
  return ids;
}

TEST_CASE("ids of a fixed length are found again as what they are") {
  ForeignTable table(
      "CREATE TABLE {0} (id char(36) PRIMARY KEY, type varchar(20), content text, "
      "processedon timestamptz, orderingkey char(10))",
      "dotnet");
  table.run(
      "INSERT INTO {0} VALUES ('0b9c1f5e-1f1b-4c52-8a0e-4f6a3c1d9e77', 't', '1', NULL, 'k'), "
      "('short', 't', '2', NULL, 'k')");
  table.begin();
  TurnRequest request;
  request.number = 1;
  request.lease = {.limit = 10,
                   .retry_limit = 10,
                   .bytes = 1u << 20,
                   .payload_max = 1u << 20,
                   .term = std::chrono::seconds{30},
                   .ordering = Ordering::key};
  const Turn turn = done(table.store()->turn(request));
  CHECK(ids_of(turn) == Ids{"0b9c1f5e-1f1b-4c52-8a0e-4f6a3c1d9e77", "short"});
}

TEST_CASE("rows without an id are left alone, and stand in nobody's way") {
  ForeignTable table(
      "CREATE TABLE {0} (id uuid UNIQUE, type text, content jsonb, occurredon timestamptz "
      "DEFAULT now(), processedon timestamptz)",
      "dotnet");
  table.run("INSERT INTO {0} (type, content) VALUES ('t', '1')");
  table.run("INSERT INTO {0} (id, type, content) VALUES (gen_random_uuid(), 't', '2')");
  auto& connection = table.fixture().application();
  connection.begin_work();
  const auto found = postgres::detect(connection, table.settings(), table.settings().table);
  REQUIRE(found.size() == 1);
  CHECK(found[0].examples.size() == 1);
  AdoptionOrder order;
  order.since = std::chrono::sys_days{std::chrono::year{2100} / 1 / 1};
  table.begin(order);
  CHECK(table.number("SELECT count(*) FROM {0} WHERE processedon IS NULL") == 2);
  table.begin();
  Turns relay(table);
  CHECK(deliver_all(relay, table).size() == 1);
}

TEST_CASE("rows without an id are no backlog") {
  ForeignTable table(
      "CREATE TABLE {0} (id integer UNIQUE, type text, content text, processedon timestamptz)",
      "dotnet");
  table.run("INSERT INTO {0} VALUES (1, 't', '1'), (NULL, 't', '2')");
  table.begin();
  auto desk = table.desk();
  const auto backlog = desk.backlog();
  REQUIRE_MESSAGE(backlog.ok(), backlog.error);
  CHECK(backlog.value.pending == 1);
  const auto shown = desk.message("99999999999", 0);
  REQUIRE_MESSAGE(shown.ok(), shown.error);
  CHECK(shown.value.empty());
  CHECK(desk.message("1", 0).value.size() == 1);
}

TEST_CASE("a domain over another is what both stand for") {
  ForeignTable table(
      "CREATE TABLE {0} (id uuid PRIMARY KEY, type text, content text, processedon timestamptz)",
      "dotnet");
  const std::string& schema = table.fixture().schema();
  table.fixture().run(fmt::format("CREATE DOMAIN {}.one AS timestamptz", schema));
  table.fixture().run(fmt::format("CREATE DOMAIN {0}.two AS {0}.one", schema));
  table.run(fmt::format("ALTER TABLE {{0}} ALTER processedon TYPE {}.two", schema));
  table.run("INSERT INTO {0} VALUES (gen_random_uuid(), 't', '1')");
  table.begin();
  Turns relay(table);
  CHECK(deliver_all(relay, table).size() == 1);
  CHECK(table.number("SELECT count(*) FROM {0} WHERE processedon > '2000-01-01'") == 1);
}

TEST_CASE("a sequence of numbers that are no places is refused at the start") {
  ForeignTable table(
      "CREATE TABLE {0} (id text PRIMARY KEY, type text, content text, processedon timestamptz, "
      "number numeric NOT NULL UNIQUE)",
      "dotnet");
  table.settings().columns = {{"sequence", "number"}};
  table.run("INSERT INTO {0} VALUES ('a', 't', '1', NULL, 1e30)");
  CHECK(refusal_of(table).find("ALTER COLUMN \"number\" TYPE bigint") != std::string::npos);
  table.run("DELETE FROM {0}");
  for (const char* type : {"numeric(10, 1)", "numeric(19)", "real", "double precision"}) {
    table.run(fmt::format("ALTER TABLE {{0}} ALTER number TYPE {}", type));
    CHECK_MESSAGE(!refusal_of(table).empty(), type);
  }
  table.run("ALTER TABLE {0} ALTER number TYPE numeric(18)");
  table.run("INSERT INTO {0} VALUES ('a', 't', '1', NULL, 10), ('b', 't', '1', NULL, 9)");
  CHECK(refusal_of(table) == "");
  Turns relay(table);
  CHECK(deliver_all(relay, table) == Ids{"b", "a"});
}

TEST_CASE("a table is refused whose keys may stand in another one as well") {
  ForeignTable table(
      "CREATE TABLE {0} (id integer PRIMARY KEY, type text, content text, processedon timestamptz)",
      "dotnet");
  CHECK(refusal_of(table) == "");
  table.run("CREATE TABLE {0}_2026 (PRIMARY KEY (id)) INHERITS ({0})");
  CHECK(refusal_of(table).find("_2026 NO INHERIT ") != std::string::npos);
  table.run("ALTER TABLE {0}_2026 NO INHERIT {0}");
  CHECK(refusal_of(table) == "");
}

TEST_CASE("a partitioned table has to be divided by what its rows are known by") {
  ForeignTable table(
      "CREATE TABLE {0} (id integer, type text, content text, processedon timestamptz, "
      "occurredon timestamptz DEFAULT now(), PRIMARY KEY (id, occurredon)) "
      "PARTITION BY RANGE (occurredon)",
      "dotnet");
  CHECK(refusal_of(table).find("PARTITION BY RANGE (\"id\")") != std::string::npos);
  table.run("DROP TABLE {0}");
  table.run(
      "CREATE TABLE {0} (id integer PRIMARY KEY, type text, content text, processedon timestamptz) "
      "PARTITION BY HASH (id)");
  for (const char* part : {"0", "1"}) {
    table.run(
        fmt::format("CREATE TABLE {{0}}_{0} PARTITION OF {{0}} "
                    "FOR VALUES WITH (MODULUS 2, REMAINDER {0})",
                    part));
  }
  table.run("INSERT INTO {0} SELECT n, 't', '1', NULL FROM generate_series(1, 9) AS n");
  CHECK(refusal_of(table) == "");
  Turns relay(table);
  CHECK(deliver_all(relay, table).size() == 9);
  CHECK(table.number("SELECT count(*) FROM {0} WHERE processedon IS NULL") == 0);
}

TEST_CASE("a rule in the place of the relay's statements is named at the start") {
  ForeignTable table(
      "CREATE TABLE {0} (id text PRIMARY KEY, type text, content text, processedon timestamptz)",
      "dotnet");
  for (const char* event : {"UPDATE", "DELETE"}) {
    table.run(fmt::format("CREATE RULE keep AS ON {} TO {{0}} DO INSTEAD NOTHING", event));
    CHECK(refusal_of(table).find("DROP RULE \"keep\"") != std::string::npos);
    const auto findings = postgres::inspect(table.settings());
    CHECK(std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
      return finding.code == "table_unsuitable" && finding.what.find("keep") != std::string::npos;
    }));
    table.run("DROP RULE keep ON {0}");
  }
  table.run("CREATE RULE note AS ON INSERT TO {0} DO ALSO SELECT 1");
  CHECK(refusal_of(table) == "");
}

TEST_CASE("ids that are bytes are the same ones to a session that writes bytes otherwise") {
  ForeignTable table(
      "CREATE TABLE {0} (id bytea PRIMARY KEY, type text, aggregatetype text, aggregateid text, "
      "payload bytea)",
      "debezium");
  table.run("INSERT INTO {0} SELECT decode(md5('1'), 'hex'), 't', 'a', 'k', '1'");
  table.begin();
  Turns relay(table);
  CHECK(deliver_all(relay, table).size() == 1);
  const auto setting = [&](const char* value) {
    table.fixture().run(fmt::format("SELECT set_config('bytea_output', '{0}', false)", value));
    table.fixture().run(
        fmt::format("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET bytea_output = {}', "
                    "current_database()); END $$",
                    value));
  };
  setting("escape");
  Turns another(table);
  const Ids again = deliver_all(another, table);
  setting("hex");
  CHECK(again.empty());
}

TEST_CASE("functions of somebody else's that have the server's names are not called") {
  ForeignTable table(
      "CREATE TABLE {0} (id text PRIMARY KEY, type text, content text, processedon timestamptz)",
      "dotnet");
  table.run("INSERT INTO {0} VALUES ('a', 't', '1')");
  table.begin();
  const std::string& schema = table.fixture().schema();
  for (const char* function : {"octet_length(text) RETURNS int", "md5(text) RETURNS text"}) {
    table.fixture().run(
        fmt::format("CREATE FUNCTION {}.{} LANGUAGE plpgsql AS $$ BEGIN RAISE 'planted'; END $$",
                    schema, function));
  }
  const auto set_path = [&](const std::string& order) {
    table.fixture().run(
        fmt::format("DO $$ BEGIN EXECUTE format('ALTER DATABASE %I {}', "
                    "current_database()); END $$",
                    order));
  };
  set_path(fmt::format("SET search_path = {}, pg_catalog", schema));
  Turns relay(table);
  const Ids delivered = deliver_all(relay, table);
  auto desk = table.desk();
  const auto shown = desk.message("a", 10);
  set_path("RESET search_path");
  CHECK(delivered == Ids{"a"});
  REQUIRE_MESSAGE(shown.ok(), shown.error);
  CHECK(shown.value.size() == 1);
}

TEST_CASE("a trigger that puts the state back does not make a row go out again and again") {
  ForeignTable table(
      "CREATE TABLE {0} (id text PRIMARY KEY, type text, content text, status text NOT NULL "
      "DEFAULT 'Pending', processedon timestamptz)",
      "dotnet");
  const std::string& schema = table.fixture().schema();
  table.fixture().run(
      fmt::format("CREATE FUNCTION {}.keep() RETURNS trigger LANGUAGE plpgsql AS "
                  "$$ BEGIN new.status := old.status; RETURN new; END $$",
                  schema));
  table.run(
      fmt::format("CREATE TRIGGER keep BEFORE UPDATE ON {{0}} FOR EACH ROW "
                  "WHEN (old.id = 'b') EXECUTE FUNCTION {}.keep()",
                  schema));
  table.run("INSERT INTO {0} VALUES ('a', 't', '1'), ('b', 't', '2'), ('c', 't', '3')");
  table.begin();
  Turns relay(table);
  const Turn leased = relay.take();
  REQUIRE(leased.leased.size() == 3);
  std::vector<Settlement> verdicts;
  for (const Message& message : leased.leased) verdicts.push_back(delivered(message));
  const Turn settled = relay.take(verdicts);
  CHECK(settled.isolated == 1);
  CHECK(settled.isolated_error == "row b: a trigger ignores changes");
  table.fixture().advance(2s);
  CHECK(deliver_all(relay, table).empty());
  CHECK(table.number("SELECT count(*) FROM {0} WHERE status = 'Processed'") == 2);
}

TEST_CASE("a row that is refused no sooner than at the commit spoils no other") {
  ForeignTable table(
      "CREATE TABLE {0} (id text PRIMARY KEY, type text, content text, processedon timestamptz)",
      "dotnet");
  const std::string& schema = table.fixture().schema();
  table.fixture().run(
      fmt::format("CREATE FUNCTION {}.refuse() RETURNS trigger LANGUAGE plpgsql AS "
                  "$$ BEGIN RAISE 'not this one'; END $$",
                  schema));
  for (const char* when : {"UPDATE", "DELETE"}) {
    table.run(
        fmt::format("CREATE CONSTRAINT TRIGGER refuse_{1} AFTER {1} ON {{0}} DEFERRABLE INITIALLY "
                    "DEFERRED FOR EACH ROW WHEN (old.id = 'b') EXECUTE FUNCTION {0}.refuse()",
                    schema, when));
  }
  table.run("INSERT INTO {0} VALUES ('a', 't', '1'), ('b', 't', '2'), ('c', 't', '3')");
  table.begin();
  Turns relay(table);
  std::vector<Settlement> verdicts;
  for (const Message& message : relay.take().leased) verdicts.push_back(delivered(message));
  REQUIRE(verdicts.size() == 3);
  const Turn settled = relay.take(verdicts);
  CHECK(settled.isolated == 1);
  CHECK(settled.isolated_error.find("row b: ") == 0);
  CHECK(settled.isolated_error.find("not this one") != std::string::npos);
  CHECK(table.number("SELECT count(*) FROM {0} WHERE processedon IS NOT NULL") == 2);
  table.fixture().advance(48h);
  CHECK(deliver_all(relay, table).empty());
  CleanRequest request;
  request.processed = 24h;
  auto desk = table.desk();
  for (bool done = false; !done;) {
    const auto step = desk.clean(request);
    REQUIRE_MESSAGE(step.ok(), step.error);
    done = step.value.done;
  }
  CHECK(table.number("SELECT count(*) FROM {0}") == 1);
}

TEST_CASE("many rows from the beginning of time do not hide those behind them") {
  ForeignTable table(
      "CREATE TABLE {0} (id text PRIMARY KEY, type text, content text, occurredon timestamptz, "
      "processedon timestamptz)",
      "dotnet");
  table.run(
      "INSERT INTO {0} SELECT 'old' || n, 't', '1', '-infinity' FROM generate_series(1, 300) AS n");
  table.run("INSERT INTO {0} VALUES ('new', 't', '1', now())");
  table.begin();
  Turns relay(table);
  const Ids ids = deliver_all(relay, table);
  CHECK(ids.size() == 301);
  CHECK(ids.back() == "new");
}

TEST_CASE("rows without a time are found behind many that are decided or dead") {
  ForeignTable table(
      "CREATE TABLE {0} (id text PRIMARY KEY, type text, content text, occurredon timestamptz, "
      "status text NOT NULL DEFAULT 'Pending', processedon timestamptz)",
      "dotnet");
  table.settings().states = {{"deadLettered", "Dead"}};
  table.run("INSERT INTO {0} VALUES ('end', 't', '1', 'infinity')");
  table.run("INSERT INTO {0} SELECT 'old' || n, 't', '1' FROM generate_series(1, 2500) AS n");
  table.run(
      "INSERT INTO {0} SELECT 'dead' || n, 't', '1', NULL, 'Dead' "
      "FROM generate_series(1, 5100) AS n");
  AdoptionOrder order;
  order.since = std::chrono::sys_days{std::chrono::year{2100} / 1 / 1};
  order.skip_unknown = true;
  table.begin(order);
  CHECK(table.number(fmt::format("SELECT count(*) FROM {}.outbox_relay_rows WHERE state = "
                                 "'Skipped'",
                                 table.fixture().schema())) == 2500);
  table.run("INSERT INTO {0} VALUES ('x', 't', '1'), ('a', 't', '1')");
  Turns relay(table);
  // No walk starts over meanwhile. The end of time is no time of an event: a dead letter.
  CHECK(deliver_all(relay, table, 0s) == Ids{"end", "a", "x"});
  DeadLetterFilter filter;
  filter.limit = 10'000;
  std::uint64_t seen = 0;
  const auto exported = table.desk().export_dead_letters(filter, [&](const ExportedLetter&) {
    ++seen;
    return true;
  });
  REQUIRE_MESSAGE(exported.ok(), exported.error);
  CHECK(seen == 5101);
}

// Without statistics the planner takes the relay's own tables for small ones.
TEST_CASE("what stands beside a row is looked up, not searched, before any ANALYZE") {
  ForeignTable table(
      "CREATE TABLE {0} (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, "
      "payload jsonb)",
      "debezium");
  table.run(
      "INSERT INTO {0} SELECT gen_random_uuid(), 'a', 'k', 't', '1' FROM generate_series(1, "
      "20000)");
  table.run("ANALYZE {0}");
  table.begin();
  postgres::Desk desk(table.settings(), table.fixture().server_clock());
  table.fixture().run(fmt::format(
      "INSERT INTO {0}.outbox_relay_rows (outbox, row_key, state) SELECT 'box', id::text, "
      "'Processed' FROM {0}.box LIMIT 2000",
      table.fixture().schema()));
  desk.connection.begin_work();
  postgres::Transaction look(desk.connection, postgres::Transaction::Kind::read);
  postgres::Rows plan =
      postgres::ask(desk.connection, "EXPLAIN " + postgres::fresh_rows_sql(desk.sql), desk.outbox,
                    postgres::ServerTime{}, 1000);
  std::string text;
  while (plan.next()) text += plan.text(0) + "\n";
  CAPTURE(text);
  CHECK(text.find("Materialize") == std::string::npos);
  CHECK(text.find("outbox_relay_rows_pkey") != std::string::npos);
}

}  // namespace
}  // namespace outbox::conformance
