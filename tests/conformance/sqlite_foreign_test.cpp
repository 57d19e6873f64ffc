// Beginning and working on tables of somebody else's.
#include <doctest/doctest.h>

#include <algorithm>
#include <thread>

#include "storage/sqlite/adoption.h"
#include "storage/sqlite/dialect.h"
#include "storage/sqlite/schema.h"
#include "storage/sqlite/sqlite_desk.h"
#include "tests/conformance/mapped_fixture.h"

namespace outbox::conformance {
namespace {

using namespace std::chrono_literals;
using Ids = std::vector<std::string>;

constexpr const char* kDotnet =
    "CREATE TABLE box (Id PRIMARY KEY, Type TEXT, Payload TEXT, OccurredOnUtc TEXT, "
    "ProcessedOnUtc TEXT, Status TEXT NOT NULL DEFAULT 'Pending', RetryCount INTEGER, Error TEXT, "
    "OrderingKey TEXT)";

TableShape dotnet() {
  TableShape shape;
  shape.create = kDotnet;
  shape.settings.table = "box";
  shape.settings.preset = "dotnet";
  return shape;
}

struct ForeignFixture : MappedFixture {
  explicit ForeignFixture(TableShape shape) : MappedFixture(std::move(shape)) { adopt({}); }

  void add(const std::string& id, const std::string& key = "NULL", const char* time = "now") {
    application().exec("INSERT INTO box (Id, Type, Payload, OccurredOnUtc, OrderingKey) VALUES (" +
                       id + ", 't', 'p', datetime('" + time + "'), " + key + ")");
  }

  AdoptionCount adopt(const AdoptionOrder& order) {
    sqlite::Connection connection(path(), 1s);
    const auto mapping = sqlite::require_outbox(connection, sqlite::mapping_of(settings()));
    sqlite::require_relay_tables(connection, true);
    return sqlite::adopt(connection, sqlite::Sql(connection, mapping), order, clocks());
  }

  AdoptionOrder skip_all() {
    AdoptionOrder order;
    order.since = std::chrono::sys_days{std::chrono::year{2100} / 1 / 1};
    return order;
  }

  std::string text(const std::string& sql) { return application().execAndGet(sql).getString(); }
};

TEST_CASE("a table that has grown too large for its order settles what is held, then says so") {
  TableShape shape = dotnet();
  SUBCASE("open rows have two states") {}
  SUBCASE("open rows have one state") { shape.settings.states = {{"failed", ""}}; }
  ForeignFixture fixture(shape);
  fixture.add("'first'", "'k'");
  Client relay(fixture);
  relay.request.ordering = Ordering::key;
  const Turn turn = committed(relay.turn());
  REQUIRE(ids_of(turn) == Ids{"first"});
  for (int i = 0; i < 3000; ++i) fixture.add("'r" + std::to_string(i) + "'", "'k'");
  committed(relay.turn({delivered(turn.leased[0])}));
  CHECK(fixture.text("SELECT Status FROM box WHERE Id = 'first'") == "Processed");
  const Turn stuck = relay.turn();
  REQUIRE(stuck.status == TurnStatus::unusable);
  const auto begin = stuck.error.find("CREATE INDEX");
  REQUIRE(begin != std::string::npos);
  fixture.application().exec(stuck.error.substr(begin, stuck.error.find(';', begin) - begin));
  CHECK(ids_of(committed(relay.turn())).size() == 100);
}

TEST_CASE("numbers with gaps make no table a large one") {
  TableShape shape = dotnet();
  shape.create =
      "CREATE TABLE box (n INTEGER PRIMARY KEY AUTOINCREMENT, Id TEXT UNIQUE, Type TEXT, Payload "
      "TEXT, OccurredOnUtc TEXT, ProcessedOnUtc TEXT, OrderingKey TEXT)";
  shape.settings.columns = {{"sequence", "n"}};
  ForeignFixture fixture(shape);
  fixture.add("'a'", "'k'");
  fixture.application().exec("UPDATE box SET n = 7000000000000000000");
  fixture.add("'b'", "'k'");
  Client relay(fixture);
  relay.request.ordering = Ordering::key;
  CHECK(ids_of(committed(relay.turn())) == Ids{"a", "b"});
  // A number below those that were seen is found within seconds.
  fixture.application().exec("INSERT INTO box (n, Id, Type, Payload) VALUES (5, 'low', 't', 'p')");
  fixture.advance(2s);
  CHECK(ids_of(committed(relay.turn())) == Ids{"low"});
}

TEST_CASE("an adoption leaves alone what comes while it runs") {
  ForeignFixture fixture(dotnet());
  for (int i = 0; i < 3000; ++i) fixture.add("'old" + std::to_string(i) + "'");
  std::uint64_t written = 0;
  std::jthread application([&](const std::stop_token& done) {
    SQLite::Database database(fixture.path(), SQLite::OPEN_READWRITE, 5000);
    while (!done.stop_requested()) {
      database.exec("INSERT INTO box (Id, Type, Payload, OccurredOnUtc) VALUES ('new' || " +
                    std::to_string(written) + ", 't', 'p', datetime('now'))");
      ++written;
    }
  });
  AdoptionOrder order = fixture.skip_all();
  const AdoptionCount count = fixture.adopt(order);
  application.request_stop();
  application.join();
  REQUIRE(written > 0);
  CHECK(count.skipped >= 3000);
  CHECK(count.skipped < 3000 + written);
  Client relay(fixture);
  Turn turn = committed(relay.turn());
  while (turn.leased.empty() && turn.more) turn = committed(relay.turn());
  REQUIRE_FALSE(turn.leased.empty());
  CHECK(turn.leased.front().id.starts_with("new"));
}

TEST_CASE("a key may come again whatever a comment says") {
  TableShape shape = dotnet();
  shape.create =
      "CREATE TABLE box (Id INTEGER PRIMARY KEY /* no AUTOINCREMENT: slower */, Type TEXT, Payload "
      "TEXT, ProcessedOnUtc TEXT)";
  const MappedFixture fixture(shape);
  sqlite::Connection connection(fixture.path(), 1s);
  CHECK_THROWS_WITH_AS(sqlite::require_outbox(connection, sqlite::mapping_of(fixture.settings())),
                       doctest::Contains("AUTOINCREMENT"), Unusable);
}

TEST_CASE("a column that nobody can write is not taken for the state") {
  TableShape shape = dotnet();
  shape.create =
      "CREATE TABLE box (Id TEXT PRIMARY KEY, Type TEXT, Payload TEXT, ProcessedOnUtc TEXT, Status "
      "TEXT AS (iif(ProcessedOnUtc IS NULL, 'Pending', 'Processed')))";
  const MappedFixture fixture(shape);
  sqlite::Connection connection(fixture.path(), 1s);
  StoreSettings settings = fixture.settings();
  CHECK_THROWS_WITH_AS(sqlite::require_outbox(connection, sqlite::mapping_of(settings)),
                       doctest::Contains("store.columns.status: \"\""), Unusable);
  settings.columns = {{"status", ""}};
  CHECK(sqlite::require_outbox(connection, sqlite::mapping_of(settings)).columns.status.empty());
}

TEST_CASE("what is leased or decided is not skipped by an adoption") {
  ForeignFixture fixture(dotnet());
  for (const char* id : {"'leased'", "'dead'", "'failed'", "'waiting'"}) fixture.add(id);
  Client relay(fixture);
  const Turn turn = committed(relay.lease(3));
  REQUIRE(ids_of(turn) == Ids{"leased", "dead", "failed"});
  committed(relay.settle({dead(turn.leased[1], DeadReason::permanent), retry(turn.leased[2], 1h)}));
  const AdoptionCount count = fixture.adopt(fixture.skip_all());
  CHECK(count.skipped == 1);
  CHECK(count.taken == 0);
  committed(relay.settle({delivered(turn.leased[0])}));
  CHECK(fixture.text("SELECT Status FROM box WHERE Id = 'leased'") == "Processed");
  CHECK(fixture.open_desk()->dead_letters({}).value.size() == 1);
  CHECK(committed(relay.turn()).leased.empty());
  fixture.advance(2h);
  CHECK(ids_of(committed(relay.turn())) == Ids{"failed"});
  CHECK(fixture.adopt({}).taken == 1);
  CHECK(ids_of(committed(relay.turn())) == Ids{"waiting"});
}

TEST_CASE("a dead letter that the application has taken care of is none any more") {
  ForeignFixture fixture(dotnet());
  fixture.add("'a'");
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  committed(relay.settle({dead(turn.leased.at(0), DeadReason::permanent)}));
  const auto desk = fixture.open_desk();
  REQUIRE(desk->dead_letters({}).value.size() == 1);
  fixture.application().exec("UPDATE box SET Status = 'Processed'");
  CHECK(desk->dead_letters({}).value.empty());
  CHECK(desk->backlog().value.dead_lettered == 0);
  CHECK(desk->redrive({}, "test", {}).value == 0);
  CHECK(committed(relay.turn()).leased.empty());
}

TEST_CASE("another column to know rows by is another mapping") {
  TableShape shape = dotnet();
  shape.create =
      "CREATE TABLE box (n INTEGER PRIMARY KEY AUTOINCREMENT, Id TEXT UNIQUE, Type TEXT, "
      "Payload TEXT, ProcessedOnUtc TEXT)";
  ForeignFixture fixture(shape);
  const auto adopted_by = [&](const std::string& sequence) {
    StoreSettings settings = fixture.settings();
    if (!sequence.empty()) settings.columns["sequence"] = sequence;
    sqlite::Connection connection(fixture.path(), 1s);
    return sqlite::adopted(connection,
                           sqlite::require_outbox(connection, sqlite::mapping_of(settings)));
  };
  fixture.adopt({});
  CHECK(adopted_by("").answer == Adopted::Answer::yes);
  const Adopted other = adopted_by("n");
  CHECK(other.answer == Adopted::Answer::as_another);
  CHECK(other.difference.find("columns.sequence: ''") != std::string::npos);
}

TEST_CASE("what an older program did not write down of a mapping makes it no other one") {
  ForeignFixture fixture(dotnet());
  const auto answer_to = [&](const std::string& written) {
    fixture.application().exec("UPDATE outbox_relay_meta SET value = '" + written +
                               "' WHERE name = 'adopted'");
    sqlite::Connection connection(fixture.path(), 1s);
    const auto mapping = sqlite::require_outbox(connection, sqlite::mapping_of(fixture.settings()));
    return sqlite::adopted(connection, mapping).answer;
  };
  using Answer = Adopted::Answer;
  CHECK(answer_to(R"({"columns.status": "Status"})") == Answer::yes);
  CHECK(answer_to(R"({"columns.status": "State"})") == Answer::as_another);
  CHECK(answer_to(R"({"columns.status": "Status", "columns.colour": "Red"})") ==
        Answer::as_another);
  for (const char* garbage : {"", "[]", "{}", "{\"columns.status\": 1}"}) {
    CHECK(answer_to(garbage) == Answer::as_another);
  }
}

TEST_CASE("under another mapping than the relay began with, nothing of a table is removed") {
  ForeignFixture fixture(dotnet());
  for (const char* id : {"'dead'", "'failed'", "'done'", "'waiting'"}) fixture.add(id);
  Client relay(fixture);
  const Turn turn = committed(relay.lease(3));
  REQUIRE(turn.leased.size() == 3);
  committed(relay.settle({dead(turn.leased[0], DeadReason::permanent), retry(turn.leased[1], 1h),
                          delivered(turn.leased[2])}));
  StoreSettings settings = fixture.settings();
  SUBCASE("the states are exchanged") {
    settings.states = {{"pending", "Processed"}, {"processed", "Pending"}};
  }
  SUBCASE("rows are known by another column") {
    fixture.application().exec("UPDATE box SET Type = 't' || Id");
    fixture.application().exec("CREATE UNIQUE INDEX box_type ON box (Type)");
    settings.columns = {{"id", "Type"}, {"eventType", "Id"}};
  }
  const auto count = [&] {
    return std::pair(fixture.number("SELECT count(*) FROM box"),
                     fixture.number("SELECT count(*) FROM outbox_relay_rows"));
  };
  const auto before = count();
  sqlite::SqliteDesk desk(settings, fixture.clocks().wall);
  CleanRequest request;
  request.processed = Duration{0};
  request.dead_lettered = Duration{0};
  const auto step = desk.clean(request);
  CHECK(step.error.find("other ones than the relay began with") != std::string::npos);
  CHECK_FALSE(desk.discard({}, "test", {}).ok());
  CHECK_FALSE(desk.redrive({}, "test", {}).ok());
  CHECK(count() == before);
}

TEST_CASE("before a relay has begun on a table, nothing of it is removed") {
  const MappedFixture untouched(dotnet());
  sqlite::SqliteDesk(untouched.settings(), untouched.clocks().wall).pause(false, "makes tables");
  CleanRequest request;
  request.processed = Duration{0};
  CHECK_FALSE(
      sqlite::SqliteDesk(untouched.settings(), untouched.clocks().wall).clean(request).ok());
}

TEST_CASE("a table that has the relay's own indexes can be adopted") {
  SqliteFixture ours;
  ours.insert({.id = "a"});
  StoreSettings settings = ours.settings();
  settings.columns = {{"id", "id"}};
  sqlite::Connection connection(ours.path(), 1s);
  const auto mapping = sqlite::require_outbox(connection, sqlite::mapping_of(settings));
  REQUIRE(mapping.foreign);
  sqlite::require_relay_tables(connection, true);
  CHECK(sqlite::adopt(connection, sqlite::Sql(connection, mapping), {}, ours.clocks()).taken == 1);
}

TEST_CASE("a table's times are shown as such, and what is none as it stands") {
  TableShape shape = dotnet();
  shape.settings.times = "seconds";
  ForeignFixture fixture(shape);
  for (const char* id : {"'a'", "'b'", "'c'"}) fixture.add(id);
  fixture.application().exec("UPDATE box SET OccurredOnUtc = '1795673701' WHERE Id = 'a'");
  fixture.application().exec("UPDATE box SET OccurredOnUtc = 'lately' WHERE Id = 'b'");
  fixture.application().exec("UPDATE box SET OccurredOnUtc = NULL WHERE Id = 'c'");
  const auto desk = fixture.open_desk();
  MessageFilter filter;
  filter.oldest_first = true;
  const auto found = desk->messages(filter);
  REQUIRE_MESSAGE(found.ok(), found.error);
  REQUIRE(found.value.size() == 3);
  CHECK(found.value[0].occurred_on == "2026-11-26T06:15:01.000Z");
  CHECK(found.value[1].occurred_on == "lately");
  CHECK(found.value[2].occurred_on.empty());
  CHECK(desk->message("a", 0).value.at(0).summary.occurred_on == "2026-11-26T06:15:01.000Z");
}

TEST_CASE("rows without a key are not mistaken for the one whose key is 0") {
  TableShape shape = dotnet();
  shape.settings.states = {{"deadLettered", "Dead"}};
  shape.settings.columns = {{"deadLetterReason", "Error"}, {"lastError", ""}};
  ForeignFixture fixture(shape);
  for (const char* id : {"NULL", "NULL", "1.5", "0"}) fixture.add(id);
  fixture.application().exec("UPDATE box SET Status = 'Dead'");
  CHECK(fixture.adopt({}).taken == 0);
  const auto desk = fixture.open_desk();
  const auto letters = desk->dead_letters({}).value;
  REQUIRE(letters.size() == 1);
  CHECK(letters[0].id == "0");
  CHECK(desk->discard({}, "test", {}).value == 1);
  CHECK(fixture.number("SELECT count(*) FROM box") == 3);
}

TEST_CASE("a row whose id nobody can read can still be named") {
  ForeignFixture fixture(dotnet());
  fixture.add("x'00ff'");
  fixture.add("CAST(x'ff41' AS TEXT)");
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  REQUIRE(turn.leased.size() == 2);
  for (const Message& message : turn.leased) {
    CHECK(message.defect.has_value());
    committed(relay.settle({dead(message, DeadReason::invalid_row)}));
  }
  const auto desk = fixture.open_desk();
  for (const char* id : {"x'00ff'", "x'ff41'"}) {
    CAPTURE(id);
    REQUIRE(desk->message(id, 10).value.size() == 1);
    CHECK(desk->message(id, 10).value[0].summary.id == id);
    DeadLetterFilter filter;
    filter.ids = {id};
    CHECK(desk->redrive(filter, "test", {}).value == 1);
  }
  CHECK(committed(relay.turn()).leased.size() == 2);
}

TEST_CASE("a GUID's bytes stand in the order of whoever writes such tables") {
  TableShape shape;
  shape.create =
      "CREATE TABLE box (id BLOB PRIMARY KEY, aggregatetype, aggregateid, type, payload)";
  shape.settings.table = "box";
  shape.settings.preset = "debezium";
  std::string id = "00112233-4455-6677-8899-aabbccddeeff";
  SUBCASE("plain, with this preset") {}
  SUBCASE("as .NET does, if the settings say so") {
    shape.settings.guids = "dotnet";
    id = "33221100-5544-7766-8899-aabbccddeeff";
  }
  ForeignFixture fixture(shape);
  fixture.application().exec(
      "INSERT INTO box VALUES (x'00112233445566778899aabbccddeeff', 'a', 'k', 't', 'p')");
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  REQUIRE(ids_of(turn) == Ids{id});
  CHECK(fixture.open_desk()->message(id, 10).value.size() == 1);
  committed(relay.settle({dead(turn.leased[0], DeadReason::permanent)}));
  const auto letters = fixture.open_desk()->dead_letters({}).value;
  REQUIRE(letters.size() == 1);
  CHECK(letters[0].id == id);
}

TEST_CASE("a CAP message may have the value null, and one too large is not read at all") {
  TableShape shape;
  shape.create =
      "CREATE TABLE box (Id INTEGER PRIMARY KEY AUTOINCREMENT, Version TEXT, Name TEXT, Content "
      "TEXT, Retries INTEGER, Added TEXT, ExpiresAt TEXT, StatusName TEXT)";
  shape.settings.table = "box";
  shape.settings.preset = "cap";
  ForeignFixture fixture(shape);
  const auto add = [&](const std::string& content) {
    fixture.application().exec(
        "INSERT INTO box (Name, Content, Retries, StatusName) VALUES ('n', " + content +
        ", 0, 'Scheduled')");
  };
  add(R"('{"Headers": {"a": "b"}, "Value": null}')");
  add(R"('{"Headers": {}}')");
  add(R"('{"Headers": {}, "Value": "' || printf('%.*c', 6000000, 'x') || '"}')");
  fixture.adopt({});
  Client relay(fixture);
  const Turn turn = committed(relay.turn());
  REQUIRE(turn.leased.size() == 3);
  CHECK(turn.leased[0].payload == "null");
  CHECK(turn.leased[0].headers.size() == 1);
  CHECK(turn.leased[1].defect.has_value());
  CHECK_FALSE(turn.leased[2].defect.has_value());
  CHECK(turn.leased[2].payload_size > 6000000);
  CHECK(turn.leased[2].id == "3");
  const auto shown = fixture.open_desk()->message("1", 10).value;
  REQUIRE(shown.size() == 1);
  CHECK(shown[0].headers == R"({"a":"b"})");
}

}  // namespace
}  // namespace outbox::conformance
