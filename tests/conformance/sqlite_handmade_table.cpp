// The suite on a table that nobody planned for a relay: its names need quotes, its states are its
// own, and it has no place for dead letters and due times.
#include "tests/conformance/mapped_fixture.h"

namespace outbox::conformance {
namespace {

constexpr const char* kCreate = R"sql(
CREATE TABLE "Order's ""Events"".v2" (
  "Event Id" TEXT NOT NULL PRIMARY KEY,
  "select" TEXT NOT NULL,
  "group" TEXT,
  "Wohin?" TEXT,
  "content-type" TEXT,
  "Headers ""raw""" TEXT,
  trace TEXT,
  "WHEN" TEXT NOT NULL,
  "not before" TEXT,
  "State" VARCHAR(10) NOT NULL DEFAULT 'new',
  "rowid" INTEGER DEFAULT 0,
  "Why?" TEXT,
  "Done At" TEXT,
  "Body" BLOB)
)sql";

constexpr const char* kInsert = R"sql(
INSERT INTO "Order's ""Events"".v2" ("Event Id", "select", "Body", "group", "Wohin?",
  "content-type", "Headers ""raw""", trace, "WHEN", "not before")
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
)sql";

TableShape handmade() {
  TableShape shape;
  shape.create = kCreate;
  shape.settings.table = "Order's \"Events\".v2";
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
                            {"retryCount", "RowId"},
                            {"lastError", "Why?"},
                            {"processedAt", "Done At"}};
  shape.settings.states = {{"pending", "new"}, {"failed", "bad"}, {"processed", "done"}};
  shape.insert = kInsert;
  shape.key = "\"Event Id\"";
  shape.state =
      "CASE o.\"State\" WHEN 'new' THEN 'Pending' WHEN 'bad' THEN 'Failed' "
      "WHEN 'done' THEN 'Processed' END";
  shape.retry_count = "o.\"rowid\"";
  shape.last_error = "o.\"Why?\"";
  shape.processed = "o.\"Done At\"";
  return shape;
}

}  // namespace

std::unique_ptr<StoreFixture> make_store_fixture() {
  return std::make_unique<MappedFixture>(handmade());
}

}  // namespace outbox::conformance
