// The suite on a table of which the relay changes nothing at all: all it knows stands beside it.
#include "tests/conformance/mapped_fixture.h"

namespace outbox::conformance {
namespace {

TableShape stateless() {
  TableShape shape;
  shape.create =
      "CREATE TABLE outboxevent (id VARCHAR(36) NOT NULL PRIMARY KEY, aggregatetype VARCHAR(255), "
      "aggregateid VARCHAR(255), type VARCHAR(255) NOT NULL, payload BLOB, contenttype TEXT, "
      "headers TEXT, tracingspancontext TEXT, timestamp TEXT, visible_from TEXT)";
  shape.settings.table = "outboxevent";
  shape.settings.preset = "debezium";
  shape.settings.columns = {{"contentType", "contenttype"},
                            {"headers", "headers"},
                            {"traceparent", "tracingspancontext"},
                            {"notBefore", "visible_from"}};
  shape.insert =
      "INSERT INTO outboxevent (id, type, payload, aggregateid, aggregatetype, contenttype, "
      "headers, tracingspancontext, timestamp, visible_from) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)";
  shape.key = "id";
  shape.state = "'Pending'";
  shape.retry_count = "0";
  shape.last_error = "NULL";
  shape.processed = "NULL";
  shape.writable = false;
  return shape;
}

}  // namespace

std::unique_ptr<StoreFixture> make_store_fixture() {
  return std::make_unique<MappedFixture>(stateless());
}

}  // namespace outbox::conformance
