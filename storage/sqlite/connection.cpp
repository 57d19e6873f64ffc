#include "storage/sqlite/connection.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <filesystem>
#include <system_error>
#include <thread>

#include "storage/sqlite/identifiers.h"

namespace outbox::sqlite {
namespace {

constexpr auto kCheckpointInterval = std::chrono::seconds{1};
// SQLite's own wait grows to 100 ms, and so misses the short gaps that a busy writer leaves.
constexpr auto kLockPoll = std::chrono::milliseconds{1};

FileIdentity require_file(const std::string& path) {
  if (std::string problem = location_problem(path); !problem.empty()) throw Unusable(problem);
  const auto identity = identity_of(path);
  if (!identity) throw Unusable(fmt::format("the database {} has just been removed", path));
  return *identity;
}

// Whether this process still has a log of that database open that was removed since. A connection
// that is opened now would share the index of that log, and destroy the one that is there. Of a
// database that was removed with its log, nothing is shared.
bool holds_removed_log(const std::string& path) {
  namespace fs = std::filesystem;
  bool log = false;
  std::error_code error;
  for (fs::directory_iterator next("/proc/self/fd", error), end; !error && next != end;
       next.increment(error)) {
    std::error_code ignored;
    const std::string file = fs::read_symlink(next->path(), ignored).string();
    if (file == path + " (deleted)") return false;
    log = log || file == path + "-wal (deleted)" || file == path + "-shm (deleted)";
  }
  return log;
}

}  // namespace

std::string describe(const std::string& path, const SQLite::Exception& error) {
  switch (error.getErrorCode() & 0xff) {
    case SQLITE_BUSY:
      return fmt::format(
          "{}: another connection kept it locked for too long: try again, or see outbox-relay "
          "doctor ({})",
          path, error.what());
    case SQLITE_FULL:
      return fmt::format("{}: no space left for it: free some on its volume ({})", path,
                         error.what());
    case SQLITE_READONLY:
      return fmt::format(
          "{}: it is read-only for the relay: check the modes and owners of the file, its -wal and "
          "-shm files and its folder ({})",
          path, error.what());
    case SQLITE_CANTOPEN:
      return fmt::format(
          "{}: cannot open it, or its -wal or -shm file: check modes and owners, of the folder, "
          "too "
          "({})",
          path, error.what());
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return fmt::format("{}: it is damaged or no SQLite database: restore it from a backup ({})",
                         path, error.what());
    case SQLITE_IOERR:
      return fmt::format("{}: reading or writing it failed: check its volume ({}, code {})", path,
                         error.what(), error.getExtendedErrorCode());
    default:
      return fmt::format("{}: {} (code {})", path, error.what(), error.getExtendedErrorCode());
  }
}

bool is_too_big(const SQLite::Exception& error) {
  return (error.getErrorCode() & 0xff) == SQLITE_TOOBIG;
}

bool is_busy(const SQLite::Exception& error) {
  switch (error.getErrorCode() & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:  // a race for the log's locks
      return true;
    default:
      return false;
  }
}

bool is_unusable(const SQLite::Exception& error) {
  switch (error.getErrorCode() & 0xff) {
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
    case SQLITE_PERM:
    case SQLITE_AUTH:
    case SQLITE_ERROR:  // a table or column that is gone
    case SQLITE_SCHEMA:
      return true;
    default:
      return false;
  }
}

Connection::Connection(const std::string& path, std::chrono::milliseconds busy_timeout)
    : path_(path),
      busy_timeout_(busy_timeout),
      identity_(require_file(path)),
      database_(path, SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX,
                static_cast<int>(busy_timeout.count())),
      data_version_(database_, "PRAGMA data_version"),
      schema_version_(database_, "PRAGMA schema_version"),
      begin_(database_, "BEGIN"),
      begin_immediate_(database_, "BEGIN IMMEDIATE"),
      commit_(database_, "COMMIT"),
      rollback_(database_, "ROLLBACK") {
  if (!same_file()) throw Unusable(fmt::format("the database {} has just been replaced", path));
  configure();
}

void Connection::configure() {
  sqlite3* handle = database_.getHandle();
  if (sqlite3_db_readonly(handle, "main") != 0) {
    throw Unusable(fmt::format("the database {} can only be read, not written", path_));
  }
  log_path_ = sqlite3_db_filename(handle, "main");
  sqlite3_extended_result_codes(handle, 1);
  add_fingerprint_function(handle);
  // Closing the last connection must neither stall on a checkpoint nor remove a log that by then
  // may belong to a file put in the place of ours.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  database_.exec("PRAGMA synchronous=FULL");
  database_.exec("PRAGMA mmap_size=0");
  database_.exec("PRAGMA cell_size_check=ON");
  database_.exec("PRAGMA foreign_keys=OFF");
  page_size_ = database_.execAndGet("PRAGMA page_size").getInt();
  // Takes the place of SQLite's own hook, which checkpoints every thousand pages.
  sqlite3_wal_hook(handle, &Connection::on_wal_commit, this);
  sqlite3_busy_handler(handle, &Connection::on_busy, this);
}

int Connection::on_busy(void* self, int tries) {
  auto& connection = *static_cast<Connection*>(self);
  const auto now = std::chrono::steady_clock::now();
  if (tries == 0) connection.busy_since_ = now;
  if (now - connection.busy_since_ >= connection.busy_timeout_) return 0;
  std::this_thread::sleep_for(kLockPoll);
  return 1;
}

bool Connection::same_file() const {
  return identity_of(path_) == identity_ && (!in_use_ || log_files() == *in_use_);
}

Connection::LogFiles Connection::log_files() const {
  return {identity_of(log_path_ + "-wal"), identity_of(log_path_ + "-shm")};
}

void Connection::require_wal() {
  const std::string mode = database_.execAndGet("PRAGMA journal_mode").getString();
  if (mode == "wal") {
    if (in_use_) return;
    schema_version();  // opens the log
    if (holds_removed_log(log_path_)) {
      throw Unusable(fmt::format(
          "the write-ahead log of {} was removed while it was in use: it is opened anew once all "
          "here have let go of it",
          path_));
    }
    in_use_ = log_files();
    return;
  }
  throw Unusable(
      fmt::format("the database {} keeps a '{}' journal, which lets readers block writers: run "
                  "'PRAGMA journal_mode=WAL;' on it once",
                  path_, mode));
}

int Connection::on_wal_commit(void* self, sqlite3*, const char*, int pages) {
  static_cast<Connection*>(self)->wal_pages_ = pages;
  return SQLITE_OK;
}

std::int64_t Connection::number(Query& query) {
  auto rows = query.rows();
  return rows.next() ? rows.integer(0) : 0;
}

void Connection::begin_write() {
  try {
    begin_immediate_.run();
  } catch (const SQLite::Exception& error) {
    if (!is_busy(error)) throw;
    throw Busy(describe(path_, error));
  }
}

void Connection::rollback() noexcept {
  if (!in_transaction()) return;
  try {
    rollback_.run();
  } catch (const SQLite::Exception&) {
    // Only when SQLite has undone the transaction by itself, on an error before.
  }
}

std::uint64_t Connection::wal_bytes() const {
  return static_cast<std::uint64_t>(wal_pages_) * static_cast<std::uint64_t>(page_size_);
}

void Connection::checkpoint_if_over(std::uint64_t bytes, Time now) noexcept {
  if (wal_bytes() <= bytes) {
    checkpointed_at_.reset();
    return;
  }
  if (checkpointed_at_ && now - *checkpointed_at_ < kCheckpointInterval) return;
  checkpointed_at_ = now;
  int pages = 0;
  int moved = 0;
  const int result = sqlite3_wal_checkpoint_v2(database_.getHandle(), "main",
                                               SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
  // A log that was moved as a whole is written from its start again.
  if (result == SQLITE_OK && pages == moved) wal_pages_ = 0;
}

ValueLimit::ValueLimit(Connection& connection, std::uint64_t bytes)
    : handle_(connection.database().getHandle()),
      before_(sqlite3_limit(handle_, SQLITE_LIMIT_LENGTH,
                            static_cast<int>(std::min<std::uint64_t>(bytes, INT_MAX)))) {}

std::uint64_t SizeProbe::bytes(std::int64_t row) {
  sqlite3* handle = connection_.database().getHandle();
  if (blob_ != nullptr && sqlite3_blob_reopen(blob_, row) == SQLITE_OK) {
    return static_cast<std::uint64_t>(sqlite3_blob_bytes(blob_));
  }
  close();
  if (sqlite3_blob_open(handle, "main", table_.c_str(), column_.c_str(), row, 0, &blob_) !=
      SQLITE_OK) {
    close();
    return 0;
  }
  return static_cast<std::uint64_t>(sqlite3_blob_bytes(blob_));
}

void SizeProbe::close() {
  if (blob_ != nullptr) sqlite3_blob_close(blob_);
  blob_ = nullptr;
}

}  // namespace outbox::sqlite
