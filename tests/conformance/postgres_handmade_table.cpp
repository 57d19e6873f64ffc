// The suite on a table that nobody planned for a relay: its names need quotes, its states are
// numbers of its own, its rows have no number, and it has no place for dead letters and due times.
#include "tests/conformance/postgres_fixture.h"

namespace outbox::conformance {
namespace {

constexpr const char* kCreate = R"sql(
CREATE TABLE {0}."Order's ""Events"".v2" (
  "Event Id" varchar(40) NOT NULL PRIMARY KEY,
  "select" text NOT NULL,
  "group" varchar(40),
  "Wohin?" text,
  "content-type" text,
  "Headers ""raw""" text,
  trace text,
  "WHEN" timestamp NOT NULL,
  "not before" timestamptz,
  "State" smallint NOT NULL DEFAULT 0,
  "tries" smallint,
  "Why?" text,
  "Done At" timestamp,
  "Body" bytea)
)sql";

constexpr const char* kInsert = R"sql(
INSERT INTO {0}."Order's ""Events"".v2" ("Event Id", "select", "Body", "group", "Wohin?",
  "content-type", "Headers ""raw""", trace, "WHEN", "not before")
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9::timestamptz AT TIME ZONE 'UTC', $10)
)sql";

PostgresShape handmade() {
  PostgresShape shape;
  shape.create = kCreate;
  shape.settings.table = R"("Order's ""Events"".v2")";
  shape.settings.preset = "dotnet";
  shape.settings.columns = {{"id", "event id"},
                            {"eventType", "select"},
                            {"payload", "Body"},
                            {"orderingKey", "group"},
                            {"destination", "Wohin?"},
                            {"contentType", "content-type"},
                            {"headers", "Headers \"raw\""},
                            {"traceparent", "TRACE"},
                            {"occurredAt", "When"},
                            {"notBefore", "not before"},
                            {"status", "state"},
                            {"retryCount", "Tries"},
                            {"lastError", "Why?"},
                            {"processedAt", "Done At"}};
  shape.settings.states = {{"pending", "0"}, {"failed", "1"}, {"processed", "2"}};
  shape.insert = kInsert;
  shape.table = R"("Order's ""Events"".v2")";
  shape.key = "\"Event Id\"";
  shape.state =
      "CASE o.\"State\" WHEN 0 THEN 'Pending' WHEN 1 THEN 'Failed' WHEN 2 THEN 'Processed' END";
  shape.retry_count = "o.\"tries\"";
  shape.last_error = "o.\"Why?\"";
  shape.processed = "o.\"Done At\" AT TIME ZONE 'UTC'";
  return shape;
}

}  // namespace

std::unique_ptr<StoreFixture> make_store_fixture() {
  return std::make_unique<PostgresFixture>(handmade());
}

}  // namespace outbox::conformance
