#include "tests/bench/raw_store.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <malloc.h>

#include <chrono>
#include <vector>

namespace outbox::bench {
namespace {

constexpr int kBusyTimeoutMilliseconds = 5000;
// 64 MiB in pages of 4 KiB: the log grows as far as the relay lets it grow.
constexpr const char* kCheckpointRarely = "PRAGMA wal_autocheckpoint=16384";

// SQLite frees and takes memory row by row; given back to the system each time, that would cost
// several times what the rows do.
constexpr int kKeepFreedMemory = 16 << 20;

struct Row {
  std::int64_t sequence = 0;
  std::vector<std::string> columns;
};

std::string utc_now() {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto milliseconds = now.time_since_epoch() % std::chrono::seconds(1);
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(now)), milliseconds.count());
}

// The lease stands in a narrow table beside the outbox, so that a wide row is rewritten only once.
SQLite::Database open_database(const std::string& path) {
  SQLite::Database database(path, SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX,
                            kBusyTimeoutMilliseconds);
  database.exec("PRAGMA synchronous=FULL");
  database.exec(kCheckpointRarely);
  database.exec(
      "CREATE TABLE IF NOT EXISTS bench_leases ("
      "row_key INTEGER PRIMARY KEY, owner INTEGER NOT NULL, epoch INTEGER NOT NULL)");
  return database;
}

class RawStore {
 public:
  explicit RawStore(const RawStoreOptions& options)
      : batch_(static_cast<std::int64_t>(options.batch)),
        database_(open_database(options.database)) {}

  // Returns how many rows were settled; leases the next ones.
  std::size_t turn() {
    SQLite::Transaction transaction(database_, SQLite::TransactionBehavior::IMMEDIATE);
    settle();
    const std::size_t settled = held_.size();
    held_ = select();
    lease();
    transaction.commit();
    return settled;
  }

  bool idle() const { return held_.empty(); }

 private:
  void settle() {
    const std::string now = utc_now();
    for (const Row& row : held_) {
      end_lease_.bind(1, row.sequence);
      run(end_lease_);
      settle_.bind(1, row.sequence);
      settle_.bindNoCopy(2, now);
      run(settle_);
    }
  }

  // One relay on one table: rows before the last one seen are leased or settled.
  std::vector<Row> select() {
    std::vector<Row> rows;
    rows.reserve(held_.size());
    select_.bind(1, held_.empty() ? 0 : held_.back().sequence);
    select_.bind(2, batch_);
    while (select_.executeStep()) {
      Row row;
      row.sequence = select_.getColumn(0).getInt64();
      row.columns.reserve(static_cast<std::size_t>(select_.getColumnCount()));
      for (int i = 1; i < select_.getColumnCount(); ++i) {
        row.columns.push_back(select_.getColumn(i).getString());
      }
      rows.push_back(std::move(row));
    }
    select_.reset();
    return rows;
  }

  void lease() {
    ++epoch_;
    for (const Row& row : held_) {
      lease_.bind(1, row.sequence);
      lease_.bind(2, epoch_);
      run(lease_);
    }
  }

  static void run(SQLite::Statement& statement) {
    statement.exec();
    statement.reset();
  }

  const std::int64_t batch_;
  SQLite::Database database_;
  SQLite::Statement select_{
      database_,
      "SELECT sequence, id, event_type, ordering_key, destination, content_type, headers, "
      "traceparent, occurred_on_utc, not_before_utc, retry_count, payload FROM outbox_messages "
      "WHERE status = 'Pending' AND sequence > ?1 ORDER BY sequence LIMIT ?2"};
  SQLite::Statement lease_{database_,
                           "INSERT INTO bench_leases (row_key, owner, epoch) VALUES (?1, 1, ?2)"};
  SQLite::Statement end_lease_{database_, "DELETE FROM bench_leases WHERE row_key = ?1"};
  SQLite::Statement settle_{
      database_,
      "UPDATE outbox_messages SET status = 'Processed', processed_on_utc = ?2, last_error = NULL, "
      "next_attempt_on_utc = NULL WHERE sequence = ?1 AND status IN ('Pending', 'Failed')"};
  std::int64_t epoch_ = 0;
  std::vector<Row> held_;
};

}  // namespace

Drained run_raw_store(const RawStoreOptions& options) {
  mallopt(M_TRIM_THRESHOLD, kKeepFreedMemory);
  RawStore store(options);
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
