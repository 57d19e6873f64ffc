// The suite on a table of which the relay changes nothing at all: all it knows stands beside it.
#include "tests/conformance/postgres_fixture.h"

namespace outbox::conformance {
namespace {

PostgresShape stateless() {
  PostgresShape shape;
  shape.create =
      "CREATE TABLE {0}.outboxevent (number bigint GENERATED ALWAYS AS IDENTITY, "
      "id varchar(36) NOT NULL PRIMARY KEY, aggregatetype varchar(255), aggregateid varchar(255), "
      "type varchar(255) NOT NULL, payload bytea, contenttype text, headers text, "
      "tracingspancontext text, timestamp timestamptz, visible_from timestamptz)";
  shape.settings.table = "outboxevent";
  shape.settings.preset = "debezium";
  shape.settings.columns = {{"contentType", "contenttype"},
                            {"headers", "headers"},
                            {"traceparent", "tracingspancontext"},
                            {"notBefore", "visible_from"}};
  shape.insert =
      "INSERT INTO {0}.outboxevent (id, type, payload, aggregateid, aggregatetype, contenttype, "
      "headers, tracingspancontext, timestamp, visible_from) "
      "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
  shape.table = "outboxevent";
  shape.key = "id";
  shape.state = "'Pending'";
  shape.retry_count = "0";
  shape.last_error = "NULL";
  shape.processed = "NULL::timestamptz";
  shape.writable = false;
  return shape;
}

}  // namespace

std::unique_ptr<StoreFixture> make_store_fixture() {
  return std::make_unique<PostgresFixture>(stateless());
}

}  // namespace outbox::conformance
