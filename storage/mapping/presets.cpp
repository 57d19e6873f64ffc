#include "storage/mapping/presets.h"

namespace outbox {
namespace {

constexpr bool kRequired = true;

// The relay's own table, as `outbox-relay init` creates it.
Mapping relay_preset() {
  Mapping mapping;
  mapping.preset = "relay";
  mapping.choices = {
      {&Columns::sequence, "sequence", {"sequence"}, kRequired},
      {&Columns::id, "id", {"id"}, kRequired},
      {&Columns::event_type, "eventType", {"event_type"}, kRequired},
      {&Columns::ordering_key, "orderingKey", {"ordering_key"}, kRequired},
      {&Columns::destination, "destination", {"destination"}, kRequired},
      {&Columns::content_type, "contentType", {"content_type"}, kRequired},
      {&Columns::headers, "headers", {"headers"}, kRequired},
      {&Columns::traceparent, "traceparent", {"traceparent"}, kRequired},
      {&Columns::occurred_on, "occurredAt", {"occurred_on_utc"}, kRequired},
      {&Columns::not_before, "notBefore", {"not_before_utc"}, kRequired},
      {&Columns::status, "status", {"status"}, kRequired},
      {&Columns::retry_count, "retryCount", {"retry_count"}, kRequired},
      {&Columns::next_attempt, "nextAttempt", {"next_attempt_on_utc"}, kRequired},
      {&Columns::last_error, "lastError", {"last_error"}, kRequired},
      {&Columns::processed_on, "processedAt", {"processed_on_utc"}, kRequired},
      {&Columns::dead_letter_reason, "deadLetterReason", {"dead_letter_reason"}, kRequired},
      {&Columns::payload, "payload", {"payload"}, kRequired},
  };
  mapping.states = {"Pending", "Failed", "Processed", "DeadLettered"};
  return mapping;
}

// The table that .NET services keep with EF Core or Dapper, under the names that are common.
Mapping dotnet_preset() {
  Mapping mapping;
  mapping.preset = "dotnet";
  mapping.choices = {
      {&Columns::id, "id", {"Id", "MessageId", "EventId"}, kRequired},
      {&Columns::event_type, "eventType", {"Type", "EventType", "MessageType", "Name"}, kRequired},
      {&Columns::payload, "payload", {"Content", "Payload", "Data", "Body"}, kRequired},
      {&Columns::ordering_key, "orderingKey", {"OrderingKey", "PartitionKey", "AggregateId"}},
      {&Columns::headers, "headers", {"Headers"}},
      {&Columns::content_type, "contentType", {"ContentType"}},
      {&Columns::traceparent, "traceparent", {"TraceParent"}},
      {&Columns::occurred_on,
       "occurredAt",
       {"OccurredOnUtc", "OccurredOn", "OccurredAtUtc", "OccurredAt", "CreatedOnUtc", "CreatedOn",
        "CreatedAtUtc", "CreatedAt"}},
      {&Columns::status, "status", {"Status", "State"}},
      {&Columns::retry_count, "retryCount", {"RetryCount", "Attempts", "AttemptCount"}},
      {&Columns::last_error, "lastError", {"Error", "LastError"}},
      {&Columns::processed_on,
       "processedAt",
       {"ProcessedOnUtc", "ProcessedOn", "ProcessedAtUtc", "ProcessedAt", "SentUtc", "SentAt"}},
  };
  mapping.states = {"Pending", "Failed", "Processed", ""};
  mapping.times = TimeFormat::sql;
  return mapping;
}

// Debezium's outbox event router: rows have no state, the relay keeps all of it beside them.
Mapping debezium_preset() {
  Mapping mapping;
  mapping.preset = "debezium";
  mapping.guids = GuidOrder::plain;
  mapping.stateless = true;
  mapping.choices = {
      {&Columns::id, "id", {"id"}, kRequired},
      {&Columns::event_type, "eventType", {"type"}, kRequired},
      {&Columns::payload, "payload", {"payload"}, kRequired},
      {&Columns::ordering_key, "orderingKey", {"aggregateid"}, kRequired},
      {&Columns::destination, "destination", {"aggregatetype"}, kRequired},
      {&Columns::occurred_on, "occurredAt", {"timestamp", "created_at", "occurred_at"}},
  };
  return mapping;
}

// CAP's published messages. The column Content is a JSON object of headers and the value; its times
// are local ones of the writer, of no use to anybody else.
Mapping cap_preset(const Dialect& dialect) {
  Mapping mapping;
  mapping.preset = "cap";
  mapping.choices = {
      {&Columns::id, "id", {"Id"}, kRequired},
      {&Columns::event_type, "eventType", {"Name"}, kRequired},
      {&Columns::payload, "payload", {"Content"}, kRequired},
      {&Columns::headers, "headers", {"Content"}, kRequired},
      {&Columns::retry_count, "retryCount", {"Retries"}},
      {&Columns::status, "status", {"StatusName"}, kRequired},
  };
  mapping.states = {"Scheduled", "Failed", "Succeeded", ""};
  mapping.payload_sql = dialect.cap_payload_sql;
  mapping.headers_sql = dialect.cap_headers_sql;
  return mapping;
}

// Spring Modulith's event publications, first and second form: a row for each listener, which is
// its destination.
Mapping spring_modulith_preset() {
  Mapping mapping;
  mapping.preset = "spring-modulith";
  mapping.guids = GuidOrder::plain;
  mapping.choices = {
      {&Columns::id, "id", {"id"}, kRequired},
      {&Columns::event_type, "eventType", {"event_type"}, kRequired},
      {&Columns::payload, "payload", {"serialized_event"}, kRequired},
      {&Columns::destination, "destination", {"listener_id"}},
      {&Columns::occurred_on, "occurredAt", {"publication_date"}},
      {&Columns::processed_on, "processedAt", {"completion_date"}, kRequired},
      {&Columns::status, "status", {"status"}},
      {&Columns::retry_count, "retryCount", {"completion_attempts"}},
  };
  mapping.states = {"PUBLISHED", "FAILED", "COMPLETED", ""};
  mapping.times = TimeFormat::sql;
  return mapping;
}

}  // namespace

std::vector<Mapping> presets(const Dialect& dialect) {
  return {relay_preset(), dotnet_preset(), debezium_preset(), cap_preset(dialect),
          spring_modulith_preset()};
}

}  // namespace outbox
