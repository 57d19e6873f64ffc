// One open database file.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include "relay/clock.h"
#include "storage/mapping/mapping.h"
#include "storage/sqlite/location.h"
#include "storage/sqlite/query.h"

namespace outbox::sqlite {

// Another process is writing just now.
struct Busy : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// `error` in words, with the file's name.
std::string describe(const std::string& path, const SQLite::Exception& error);

// Whether somebody else was at work just then: the same may succeed a moment later.
bool is_busy(const SQLite::Exception& error);

// Whether the error says that the file itself can't be used, rather than that one try failed.
bool is_unusable(const SQLite::Exception& error);

// Whether a value or a row was larger than allowed.
bool is_too_big(const SQLite::Exception& error);

// Confined to one thread. Never creates a file, never checkpoints on its own.
class Connection {
 public:
  // Opens an existing file in WAL mode for a relay or a desk. Throws Unusable or SQLite::Exception.
  // A lock that another holds is waited for as long as `busy_timeout`.
  Connection(const std::string& path, std::chrono::milliseconds busy_timeout);

  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  SQLite::Database& database() { return database_; }
  const std::string& path() const { return path_; }

  // Throws Unusable unless the journal is a write-ahead log, and the one that is there.
  void require_wal();

  // Whether the path still names the file that is open, and its log the one in use: nobody takes
  // that away in order while a connection is open.
  bool same_file() const;

  // Rises when another connection has committed; our own commits don't count.
  std::int64_t data_version() { return number(data_version_); }
  // Rises when anybody has changed the schema.
  std::int64_t schema_version() { return number(schema_version_); }

  void begin_read() { begin_.run(); }
  // Throws Busy when another connection holds the write lock.
  void begin_write();
  void commit() { commit_.run(); }
  // Never throws; no harm when there is nothing to undo.
  void rollback() noexcept;
  bool in_transaction() { return sqlite3_get_autocommit(database_.getHandle()) == 0; }

  // Bytes in the write-ahead log, as of this connection's last commit.
  std::uint64_t wal_bytes() const;
  // If the log is larger than that, moves what it can to the database, without waiting for anybody,
  // at most once a second: what a reader still needs stays, however often one tries.
  void checkpoint_if_over(std::uint64_t bytes, Time now) noexcept;

 private:
  // The log and its index.
  struct LogFiles {
    std::optional<FileIdentity> log;
    std::optional<FileIdentity> index;
    bool operator==(const LogFiles&) const = default;
  };

  static int on_wal_commit(void* self, sqlite3*, const char*, int pages);
  static int on_busy(void* self, int tries);
  static std::int64_t number(Query& query);
  void configure();
  LogFiles log_files() const;

  std::string path_;
  std::chrono::milliseconds busy_timeout_;
  std::chrono::steady_clock::time_point busy_since_;
  FileIdentity identity_;
  SQLite::Database database_;
  std::string log_path_;            // without links, as SQLite names the log and its index after it
  std::optional<LogFiles> in_use_;  // once they are open
  int page_size_ = 4096;
  int wal_pages_ = 0;
  std::optional<Time> checkpointed_at_;
  Query data_version_;
  Query schema_version_;
  Query begin_;
  Query begin_immediate_;
  Query commit_;
  Query rollback_;
};

// A transaction that is undone unless it was committed.
class Transaction {
 public:
  enum class Kind { read, write };
  Transaction(Connection& connection, Kind kind) : connection_(connection) {
    kind == Kind::write ? connection.begin_write() : connection.begin_read();
  }
  ~Transaction() {
    if (!done_) connection_.rollback();
  }
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  void commit() {
    connection_.commit();
    done_ = true;
  }

 private:
  Connection& connection_;
  bool done_ = false;
};

// While it lives, SQLite fails to read or write a larger value or row instead of taking the memory
// for it: see is_too_big().
class ValueLimit {
 public:
  ValueLimit(Connection& connection, std::uint64_t bytes);
  ~ValueLimit() { sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH, before_); }
  ValueLimit(const ValueLimit&) = delete;
  ValueLimit& operator=(const ValueLimit&) = delete;

 private:
  sqlite3* handle_;
  int before_;
};

// How many bytes a row's text or blob has, without reading them.
class SizeProbe {
 public:
  SizeProbe(Connection& connection, std::string table, std::string column)
      : connection_(connection), table_(std::move(table)), column_(std::move(column)) {}
  ~SizeProbe() { close(); }
  SizeProbe(const SizeProbe&) = delete;
  SizeProbe& operator=(const SizeProbe&) = delete;

  // 0 for NULL and numbers, and for a row that is not there.
  std::uint64_t bytes(std::int64_t row);
  // Must be called before the transaction ends: an open probe holds its snapshot.
  void close();

 private:
  Connection& connection_;
  std::string table_;
  std::string column_;
  sqlite3_blob* blob_ = nullptr;
};

}  // namespace outbox::sqlite
