#include "tests/bench/raw_postgres.h"

#include <vector>

#include "tests/bench/pg_client.h"

namespace outbox::bench {
namespace {

constexpr const char* kLeaseTable =
    "CREATE TABLE bench_leases "
    "(row_key int8 PRIMARY KEY, owner int8 NOT NULL, epoch int8 NOT NULL)";

// As the relay, which must not depend on estimates of a table that grows and shrinks.
constexpr const char* kByIndex =
    "SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_hashjoin = off; "
    "SET enable_mergejoin = off; SET jit = off";

constexpr const char* kEndLeases = "DELETE FROM bench_leases WHERE row_key = ANY($1::int8[])";
constexpr const char* kSettle =
    "UPDATE outbox_messages SET status = 'Processed', processed_on_utc = clock_timestamp(), "
    "last_error = NULL, next_attempt_on_utc = NULL "
    "WHERE sequence = ANY($1::int8[]) AND status IN ('Pending', 'Failed')";
constexpr const char* kSelect =
    "SELECT sequence, id, event_type, ordering_key, destination, content_type, headers, "
    "traceparent, occurred_on_utc, not_before_utc, retry_count, payload FROM outbox_messages "
    "WHERE status = 'Pending' AND sequence > $1::int8 ORDER BY sequence LIMIT $2::int8 "
    "FOR UPDATE SKIP LOCKED";
constexpr const char* kLease =
    "INSERT INTO bench_leases SELECT key, 1, $2::int8 FROM unnest($1::int8[]) AS key "
    "ON CONFLICT DO NOTHING";

struct Row {
  std::int64_t sequence = 0;
  std::vector<std::string> columns;
};

class RawPostgres {
 public:
  explicit RawPostgres(const RawPostgresOptions& options)
      : batch_(static_cast<std::int64_t>(options.batch)), client_(options.url) {
    client_.command(kLeaseTable);
    client_.command(kByIndex);
    client_.prepare("end_leases", kEndLeases);
    client_.prepare("settle", kSettle);
    client_.prepare("select", kSelect);
    client_.prepare("lease", kLease);
  }

  // Returns how many rows were settled; leases the next ones.
  std::size_t turn() {
    client_.command("BEGIN");
    if (!held_.empty()) settle();
    const std::size_t settled = held_.size();
    held_ = select();
    if (!held_.empty()) lease();
    client_.command("COMMIT");
    return settled;
  }

  bool idle() const { return held_.empty(); }

 private:
  std::vector<std::int64_t> keys() const {
    std::vector<std::int64_t> keys;
    keys.reserve(held_.size());
    for (const Row& row : held_) keys.push_back(row.sequence);
    return keys;
  }

  void settle() {
    PgValues values;
    values.add(keys());
    client_.run("end_leases", values);
    client_.run("settle", values);
  }

  // Rows before the last one seen are leased or settled. Locked as they must be where others may
  // do the same.
  std::vector<Row> select() {
    PgValues values;
    values.add(held_.empty() ? 0 : held_.back().sequence);
    values.add(batch_);
    const PgResult result = client_.run("select", values);
    std::vector<Row> rows(static_cast<std::size_t>(PQntuples(result.get())));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].sequence = integer_of(result.get(), static_cast<int>(i), 0);
      for (int column = 1; column < PQnfields(result.get()); ++column) {
        rows[i].columns.push_back(text_of(result.get(), static_cast<int>(i), column));
      }
    }
    return rows;
  }

  void lease() {
    PgValues values;
    values.add(keys());
    values.add(++epoch_);
    client_.run("lease", values);
  }

  const std::int64_t batch_;
  PgClient client_;
  std::int64_t epoch_ = 0;
  std::vector<Row> held_;
};

}  // namespace

Drained run_raw_postgres(const RawPostgresOptions& options) {
  RawPostgres store(options);
  Drained drained;
  const Stopwatch watch;
  do {
    drained.count += store.turn();
  } while (!store.idle());
  drained.elapsed = watch.elapsed();
  drained.cpu = watch.cpu();
  return drained;
}

}  // namespace outbox::bench
