// The desk on tables that the relay did not make.
#include "storage/postgres/postgres_desk.h"

#include <fmt/format.h>

#include "storage/postgres/adoption.h"
#include "storage/postgres/detection.h"
#include "storage/postgres/doctor.h"
#include "storage/postgres/doctor_checks.h"
#include "storage/postgres/schema.h"
#include "tests/conformance/postgres_foreign_table.h"
#include "tests/conformance/store_cases.h"

namespace outbox::conformance {
namespace {

constexpr const char* kDotnet =
    "CREATE TABLE {0} (\"Id\" uuid PRIMARY KEY, \"Type\" text NOT NULL, \"Content\" jsonb NOT "
    "NULL, "
    "\"OccurredOnUtc\" timestamptz NOT NULL DEFAULT clock_timestamp(), "
    "\"ProcessedOnUtc\" timestamptz, \"Error\" text)";
constexpr const char* kDebezium =
    "CREATE TABLE {0} (id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT "
    "NULL, type text NOT NULL, payload jsonb)";
constexpr const char* kBytesId =
    "CREATE TABLE {0} (id bytea PRIMARY KEY, type text NOT NULL, aggregatetype text NOT NULL, "
    "aggregateid text NOT NULL, payload bytea, \"timestamp\" bigint)";
const std::string kGuid = "d5e0c2b4-7b1a-4c55-9a0e-2f6b1d3c8a1";  // without its last digit

void add_dotnet(ForeignTable& table, int count) {
  for (int i = 0; i < count; ++i) {
    table.run(
        fmt::format("INSERT INTO {{0}} (\"Id\", \"Type\", \"Content\") VALUES ('{}{}', "
                    "'order.placed', '{{{{\"n\": {}}}}}')",
                    kGuid, i, i));
  }
}

void add_debezium(ForeignTable& table, int count) {
  for (int i = 0; i < count; ++i) {
    table.run(
        fmt::format("INSERT INTO {{0}} VALUES ('{}{}', 'order', 'k{}', 'order.placed', "
                    "'{{{{\"n\": {}}}}}')",
                    kGuid, i, i % 2, i));
  }
}

MessageFilter in_state(MessageState state) {
  MessageFilter filter;
  filter.state = state;
  return filter;
}

Ids found(postgres::PostgresDesk desk, const MessageFilter& filter) {
  const auto answer = desk.messages(filter);
  REQUIRE_MESSAGE(answer.ok(), answer.error);
  Ids ids;
  for (const auto& message : answer.value) ids.push_back(message.id);
  return ids;
}

void check_a_row_s_life(ForeignTable& table) {
  Turns relay(table);
  const Turn turn = relay.take();
  REQUIRE(turn.leased.size() == 4);
  const std::string dead_id = turn.leased[0].id;
  relay.take({dead(turn.leased[0], DeadReason::permanent), retry(turn.leased[1], 1h),
              delivered(turn.leased[2])},
             0);
  auto desk = table.desk();
  const auto backlog = desk.backlog();
  REQUIRE_MESSAGE(backlog.ok(), backlog.error);
  CHECK(backlog.value.pending == 0);
  CHECK(backlog.value.failed == 1);
  CHECK(backlog.value.leased == 1);
  CHECK(backlog.value.dead_lettered == 1);
  CHECK(backlog.value.dead_by_event_type.size() == 1);
  CHECK(found(table.desk(), in_state(MessageState::dead_lettered)) == Ids{dead_id});
  CHECK(found(table.desk(), in_state(MessageState::failed)) == Ids{turn.leased[1].id});
  CHECK(found(table.desk(), in_state(MessageState::processed)) == Ids{turn.leased[2].id});
  CHECK(found(table.desk(), in_state(MessageState::unknown)).empty());
  const auto shown = desk.message(dead_id, 100);
  REQUIRE_MESSAGE(shown.ok(), shown.error);
  REQUIRE(shown.value.size() == 1);
  CHECK(shown.value[0].summary.state == MessageState::dead_lettered);
  CHECK(shown.value[0].payload.has_value());
  CHECK(shown.value[0].audit.size() == 1);
  DeadLetterFilter only;
  only.ids = {dead_id, "no such id"};
  const auto letters = desk.dead_letters(only);
  REQUIRE_MESSAGE(letters.ok(), letters.error);
  CHECK(letters.value.size() == 1);
  const auto moved = desk.redrive(only, "again", {});
  REQUIRE_MESSAGE(moved.ok(), moved.error);
  CHECK(moved.value == 1);
  CHECK(found(table.desk(), in_state(MessageState::dead_lettered)).empty());
  table.fixture().advance(2s);
  const Turn again = relay.take();
  REQUIRE(again.leased.size() == 1);
  CHECK(again.leased[0].id == dead_id);
  CHECK(again.leased[0].generation == 1);
  relay.take({dead(again.leased[0], DeadReason::permanent)}, 0);
  const auto discarded = desk.discard({}, "enough", {});
  REQUIRE_MESSAGE(discarded.ok(), discarded.error);
  CHECK(discarded.value == 1);
  CHECK(table.number("SELECT count(*) FROM {0}") == 3);
}

TEST_CASE("the desk tells a row's life where only a time marks what is processed") {
  ForeignTable table(kDotnet, "dotnet");
  add_dotnet(table, 4);
  table.begin();
  check_a_row_s_life(table);
}

TEST_CASE("the desk tells a row's life where all of it stands beside the rows") {
  ForeignTable table(kDebezium, "debezium");
  add_debezium(table, 4);
  table.begin();
  check_a_row_s_life(table);
}

TEST_CASE("ids that are the bytes of a GUID are shown and found as one") {
  ForeignTable table(kBytesId, "debezium");
  table.settings().times = "milliseconds";
  table.run(
      "INSERT INTO {0} SELECT decode(md5(n::text), 'hex'), 't', 'a', 'k' || n, '\\x00ff', "
      "1700000000000 + n FROM generate_series(1, 4) AS n");
  table.begin();
  check_a_row_s_life(table);
  auto desk = table.desk();
  const auto all = desk.messages({});
  REQUIRE_MESSAGE(all.ok(), all.error);
  REQUIRE(all.value.size() == 3);
  CHECK(all.value[0].id.size() == 36);
  CHECK(all.value[0].occurred_on.starts_with("2023-11-14T"));
  MessageFilter late;
  late.since = "2024-01-01";
  CHECK(found(table.desk(), late).empty());
}

TEST_CASE("old rows of a foreign table are skipped, and taken in by a later order") {
  ForeignTable table(kDotnet, "dotnet");
  add_dotnet(table, 4);
  table.run(
      "UPDATE {0} SET \"OccurredOnUtc\" = timestamptz '2020-01-01' WHERE \"Id\"::text LIKE "
      "'%0' OR \"Id\"::text LIKE '%1'");
  TurnRequest request;
  request.number = 1;
  CHECK(table.store()->turn(request).error.find("outbox-relay adopt") != std::string::npos);
  AdoptionOrder order;
  order.since = std::chrono::sys_days{std::chrono::year{2021} / 1 / 1};
  table.begin(order);
  CHECK(found(table.desk(), in_state(MessageState::skipped)).size() == 2);
  Turns relay(table);
  CHECK(relay.take().leased.size() == 2);
  table.begin();
  CHECK(found(table.desk(), in_state(MessageState::skipped)).empty());
}

TEST_CASE("under another mapping than the relay began with, nothing is removed") {
  ForeignTable table(kDotnet, "dotnet");
  add_dotnet(table, 2);
  table.begin();
  Turns relay(table);
  const Turn turn = relay.take();
  relay.take({dead(turn.leased.at(0), DeadReason::permanent), delivered(turn.leased.at(1))}, 0);
  CleanRequest request;
  request.processed = Duration{0};
  request.dead_lettered = Duration{0};
  table.run("CREATE UNIQUE INDEX ON {0} (\"Type\", \"Id\")");
  table.settings().columns = {{"eventType", "Error"}};
  auto desk = table.desk();
  CHECK(desk.clean(request).error.find("other ones than the relay began with") !=
        std::string::npos);
  CHECK_FALSE(desk.discard({}, "test", {}).ok());
  CHECK_FALSE(desk.redrive({}, "test", {}).ok());
  CHECK(table.number("SELECT count(*) FROM {0}") == 2);
}

TEST_CASE("a clean-up of a foreign table takes what is noted beside its rows, too") {
  ForeignTable table(kDebezium, "debezium");
  add_debezium(table, 4);
  table.begin();
  Turns relay(table);
  const Turn turn = relay.take();
  relay.take({delivered(turn.leased.at(0)), delivered(turn.leased.at(1)),
              dead(turn.leased.at(2), DeadReason::permanent)},
             0);
  table.fixture().advance(48h);
  auto desk = table.desk();
  CleanRequest request;
  request.processed = 24h;
  request.dead_lettered = 24h;
  std::uint64_t removed = 0;
  for (int steps = 0; steps < 100; ++steps) {
    const auto step = desk.clean(request);
    REQUIRE_MESSAGE(step.ok(), step.error);
    removed += step.value.removed();
    if (step.value.done) break;
  }
  CHECK(removed == 3);
  CHECK(table.number("SELECT count(*) FROM {0}") == 1);
}

TEST_CASE("a clean-up looks at many rows that stay on few connections") {
  PostgresFixture fixture;
  fixture.run(
      fmt::format("INSERT INTO {}.outbox_messages (id, event_type, status, "
                  "processed_on_utc, payload) SELECT g::text, 't', 'Processed', {}, '' "
                  "FROM generate_series(1, 10000) AS g",
                  fixture.schema(), fixture.server_clock()));
  const auto desk = fixture.open_desk();
  CleanRequest request;
  request.processed = 24h;
  int connections = 0;  // one a step
  while (true) {
    const auto step = desk->clean(request);
    REQUIRE_MESSAGE(step.ok(), step.error);
    REQUIRE(step.value.removed() == 0);
    if (step.value.done) break;
    REQUIRE(++connections < 5);
  }
}

TEST_CASE("a clean-up rests from connecting, too") {
  const PostgresFixture fixture;
  bool rested = false;  // a busy machine may stand still between the two looks at the clock
  for (int tries = 0; tries < 100 && !rested; ++tries) {
    postgres::PostgresDesk desk(fixture.settings(), fixture.server_clock());
    CleanRequest request;
    request.processed = 24h;
    const auto begun = std::chrono::steady_clock::now();
    const auto step = desk.clean(request);
    const auto took = std::chrono::steady_clock::now() - begun;
    REQUIRE_MESSAGE(step.ok(), step.error);
    rested = step.value.rest > took;
  }
  CHECK(rested);
}

TEST_CASE("two definitions of an index are the same, however they are written") {
  using postgres::bare;
  CHECK(bare("\"status\" = 'Pending'") == bare("(status = 'Pending'::text)"));
  CHECK(bare("\"key\" IS NOT NULL AND \"status\" IN ('Pending', 'Failed')") ==
        bare("((key IS NOT NULL) AND (status = ANY (ARRAY['Pending'::text, 'Failed'::text])))"));
  CHECK(bare("\"status\" = 'Pending'") != bare("(status = 'Failed'::text)"));
}

TEST_CASE("a plan that reads a table from one end to the other is told from one that does not") {
  using postgres::reads_all;
  const auto plan = [](const std::string& step) { return R"([{"Plan": )" + step + "}]"; };
  const std::string scan = R"({"Node Type": "Seq Scan", "Relation Name": "t", "Plan Rows": 9})";
  const std::string keyed =
      R"({"Node Type": "Index Scan", "Relation Name": "t", "Index Cond": "x", "Plan Rows": 9999})";
  const std::string walk = R"({"Node Type": "Index Scan", "Relation Name": "t", "Filter": "x"})";
  const auto above = [](const char* kind, const std::string& inner) {
    return fmt::format(R"({{"Node Type": "{}", "Plan Rows": 9999, "Plans": [{}]}})", kind, inner);
  };
  CHECK(reads_all(plan(above("Limit", scan)), "t"));
  CHECK_FALSE(reads_all(plan(above("Limit", scan)), "another"));
  CHECK(reads_all(plan(walk), "t"));
  CHECK_FALSE(reads_all(plan(above("Limit", keyed)), "t"));
  CHECK(reads_all(plan(above("Limit", above("Sort", keyed))), "t"));
  CHECK_FALSE(reads_all(plan(above("Sort", above("Limit", keyed))), "t"));
  CHECK_FALSE(reads_all("no plan", "t"));
}

TEST_CASE("a transaction that keeps old row versions from being cleaned up is named") {
  PostgresFixture fixture;
  postgres::Connection doctor(postgres::connection_settings(fixture.settings(), "doctor"));
  postgres::Findings findings;
  fixture.application().begin_work();
  fixture.application().command("BEGIN; CREATE TEMP TABLE written (n int)");
  postgres::check_transactions(doctor, std::chrono::minutes{5}, findings);
  CHECK(findings.empty());
  postgres::check_transactions(doctor, std::chrono::minutes{0}, findings);
  fixture.application().command("ROLLBACK");
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == "long_transaction");
  CHECK(findings[0].what.find("outbox-relay test") != std::string::npos);
  CHECK(findings[0].fix.starts_with("SELECT pg_terminate_backend("));
}

TEST_CASE("a table is recognised by its columns, and named as the settings need it") {
  ForeignTable table(kDotnet, "dotnet");
  add_dotnet(table, 2);
  auto& connection = table.fixture().application();
  connection.begin_work();
  StoreSettings settings = table.fixture().settings();
  settings.table = "outbox_messages";
  const auto found = postgres::detect(connection, settings, table.fixture().schema() + ".box");
  REQUIRE(found.size() == 1);
  CHECK(found[0].problem.empty());
  CHECK(found[0].preset == "dotnet");
  CHECK(found[0].waiting == 2);
  REQUIRE(found[0].examples.size() == 2);
  CHECK(found[0].examples[0].payload == R"({"n": 0})");
}

}  // namespace
}  // namespace outbox::conformance
