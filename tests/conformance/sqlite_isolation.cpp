// SQLite's stage for the isolation tests: SQLite itself tells of each statement before it runs.
#include <sqlite3.h>

#include <stdexcept>

#include "tests/conformance/isolation_stage.h"
#include "tests/conformance/sqlite_fixture.h"

namespace outbox::conformance::isolation {
namespace {

// Where a session's thread stops.
class Gate {
 public:
  // On the session's thread, before a statement.
  void arrive(const char* sql) {
    std::unique_lock lock(mutex_);
    if (open_) return;
    statement_ = sql;
    stopped_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !stopped_ || open_; });
  }
  void finish() {
    const std::lock_guard lock(mutex_);
    at_work_ = false;
    changed_.notify_all();
  }

  // On the test's thread.
  void begin() {
    const std::lock_guard lock(mutex_);
    at_work_ = true;
  }
  void pass() {
    const std::lock_guard lock(mutex_);
    stopped_ = false;
    changed_.notify_all();
  }
  std::string statement() {
    const std::lock_guard lock(mutex_);
    return statement_;
  }
  void stay_open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  SteppedSession::Place wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return stopped_ || !at_work_; });
    return at_work_ ? SteppedSession::Place::statement : SteppedSession::Place::over;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool at_work_ = false;
  bool stopped_ = false;
  bool open_ = false;
  std::string statement_;
};

// Of the session whose thread this is.
thread_local Gate* gate_here = nullptr;

// Settings are no business of others, and a trigger's statements are told as comments. When a relay
// looks at its peers, which it does before all else, also depends on what the system tells it.
bool is_worth_a_stop(std::string_view sql) {
  return !sql.starts_with("PRAGMA") && !sql.starts_with("--") &&
         !sql.starts_with("SELECT incarnation, boot_id") &&
         !sql.starts_with("SELECT 1 FROM outbox_relay_leases");
}

int on_statement(unsigned, void* gate, void*, void* sql) {
  const auto* const text = static_cast<const char*>(sql);
  if (is_worth_a_stop(text)) static_cast<Gate*>(gate)->arrive(text);
  return 0;
}

int on_open(sqlite3* database, const char**, const sqlite3_api_routines*) {
  if (gate_here == nullptr) return SQLITE_OK;
  return sqlite3_trace_v2(database, SQLITE_TRACE_STMT, on_statement, gate_here);
}

class SqliteSession final : public SteppedSession {
 public:
  explicit SqliteSession(SqliteFixture& fixture)
      : fixture_(fixture),
        probe_(fixture.path(), SQLite::OPEN_READWRITE),
        worker_([this] { gate_.finish(); }) {}
  ~SqliteSession() override { gate_.stay_open(); }

  OutboxStore& store() override {
    if (!store_) store_ = fixture_.open_store();
    return *store_;
  }
  OutboxDesk& desk() override {
    if (!desk_) desk_ = fixture_.open_desk();
    return *desk_;
  }
  Place start(Kind kind, std::function<void()> work) override {
    patient_ = kind == Kind::patient;
    gate_.begin();
    worker_.start([this, work = std::move(work)] {
      gate_here = &gate_;
      work();
    });
    return gate_.wait();
  }
  // One that waits for the lock would try again and again, by the machine's clock: it goes on once
  // it gets it.
  Place pass() override {
    if (patient_ && gate_.statement() == "BEGIN IMMEDIATE" && !lock_is_free()) return Place::lock;
    gate_.pass();
    return gate_.wait();
  }
  Place look() override { return pass(); }
  bool has_waited() const override { return false; }
  std::string statement() override { return gate_.statement(); }

 private:
  bool lock_is_free() {
    try {
      probe_.exec("BEGIN IMMEDIATE; ROLLBACK");
      return true;
    } catch (const SQLite::Exception& error) {
      if (error.getErrorCode() == SQLITE_BUSY) return false;
      throw;
    }
  }

  SqliteFixture& fixture_;
  SQLite::Database probe_;
  Gate gate_;
  bool patient_ = false;
  std::unique_ptr<OutboxStore> store_;
  std::unique_ptr<OutboxDesk> desk_;
  Worker worker_;
};

class SqliteStage final : public Stage {
 public:
  SqliteStage() : observer_(fixture_.path(), SQLite::OPEN_READWRITE, 1000) {
    static const int added = sqlite3_auto_extension(reinterpret_cast<void (*)()>(on_open));
    if (added != SQLITE_OK) throw std::runtime_error("SQLite takes no extension");
    fixture_.application().setBusyTimeout(0);
  }

  StoreFixture& fixture() override { return fixture_; }
  std::unique_ptr<SteppedSession> open_session() override {
    return std::make_unique<SqliteSession>(fixture_);
  }

  void clear() override {
    fixture_.application().exec(
        "BEGIN IMMEDIATE; DELETE FROM outbox_messages; DELETE FROM outbox_relay_leases; "
        "DELETE FROM outbox_relay_rows; DELETE FROM outbox_relay_attempts; DELETE FROM "
        "outbox_relay_audit; COMMIT");
  }
  void begin() override { fixture_.application().exec("BEGIN"); }
  bool insert(const NewRow& row) override {
    try {
      fixture_.insert(row);
      return true;
    } catch (const SQLite::Exception& error) {
      if (error.getErrorCode() == SQLITE_BUSY) return false;
      throw;
    }
  }
  void commit() override { fixture_.application().exec("COMMIT"); }
  void roll_back() override { fixture_.application().exec("ROLLBACK"); }

  View view() override {
    const sqlite::Clocks clocks = fixture_.clocks();
    View view;
    rows_.bind(1, to_text(clocks.wall()));
    rows_.bind(2, static_cast<std::int64_t>(clocks.boot->now().time_since_epoch().count()));
    while (rows_.executeStep()) {
      RowView row{rows_.getColumn(0),           rows_.getColumn(1),
                  rows_.getColumn(2),           rows_.getColumn(3).getInt() != 0,
                  rows_.getColumn(4).getUInt(), std::nullopt};
      if (!rows_.isColumnNull(5)) {
        row.lease = {static_cast<LeaseId>(rows_.getColumn(5).getInt64()),
                     rows_.getColumn(6).getInt64(), rows_.getColumn(7).getInt() != 0};
      }
      view.rows.push_back(std::move(row));
    }
    rows_.reset();
    while (marks_.executeStep()) {
      view.marks.push_back({marks_.getColumn(0).getInt64(),
                            static_cast<std::uint64_t>(marks_.getColumn(1).getInt64()),
                            static_cast<LeaseId>(marks_.getColumn(2).getInt64())});
    }
    marks_.reset();
    return view;
  }

 private:
  SqliteFixture fixture_;
  SQLite::Database observer_;
  SQLite::Statement rows_{
      observer_,
      "SELECT coalesce(o.id, ''), coalesce(o.ordering_key, ''), coalesce(o.status, ''), "
      "coalesce(o.next_attempt_on_utc > ?1, 0), coalesce(r.generation, 0), l.epoch, l.incarnation, "
      "coalesce(i.lease_until < ?2, 1) FROM outbox_messages AS o "
      "FULL JOIN outbox_relay_leases AS l ON l.row_key = o.sequence "
      "LEFT JOIN outbox_relay_incarnations AS i ON i.incarnation = l.incarnation "
      "LEFT JOIN outbox_relay_rows AS r ON r.row_key = o.sequence ORDER BY o.sequence"};
  SQLite::Statement marks_{observer_,
                           "SELECT incarnation, turn, epoch FROM outbox_relay_incarnations"};
};

}  // namespace

std::unique_ptr<Stage> make_stage() { return std::make_unique<SqliteStage>(); }

}  // namespace outbox::conformance::isolation
