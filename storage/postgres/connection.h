// One connection to a PostgreSQL server.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "relay/backends.h"
#include "relay/clock.h"
#include "storage/postgres/errors.h"
#include "storage/postgres/libpq.h"
#include "storage/postgres/location.h"

namespace outbox::postgres {

struct FreeResult {
  void operator()(PGresult* result) const { libpq().PQclear(result); }
};
using Result = std::unique_ptr<PGresult, FreeResult>;

struct CloseConnection {
  void operator()(PGconn* connection) const { libpq().PQfinish(connection); }
};

struct ConnectionSettings {
  Location location;
  std::string application_name;  // what the server calls this session
  Duration timeout{};            // for one turn of work: see Connection::begin_work()
  Duration lock_wait{};          // the most that a lock is waited for
  bool must_write = true;        // a read replica will not do
  bool by_index = true;          // plans that look rows up one by one, whatever the statistics say
};

ConnectionSettings connection_settings(const StoreSettings& settings, const std::string& role);

// The parameters of one statement, in the binary form of the protocol.
struct Bound {
  std::vector<Oid> types;
  std::vector<const char*> values;  // nullptr: NULL
  std::vector<int> lengths;
  std::vector<int> formats;
};

// Confined to one thread. Waits for the server no longer than it may: a server or a network that
// says nothing ends in Lost. After Lost a connection is of no use any more.
//
// Relies on no state of the session outside a transaction where a pooler in transaction mode may
// stand in between. Where none does, statements are prepared, settings are made once, and what
// nobody has to wait for travels with the next statement.
class Connection {
 public:
  // Connects to the first server that will do. Throws Lost or Unusable.
  explicit Connection(const ConnectionSettings& settings);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const std::string& label() const { return settings_.location.label; }
  // What is done from now on has to end within the time-out, all of it together.
  void begin_work();
  // False after Lost.
  bool usable() const { return !broken_; }
  // A statement may be prepared once and used again: nothing stands between us and the session.
  bool prepares() const { return prepares_; }
  bool in_transaction() const;
  // Bytes that are no UTF-8 are possible in its texts.
  bool is_ascii() const { return ascii_; }
  // It can store every character.
  bool is_utf8() const { return utf8_; }
  int server_version() const { return libpq().PQserverVersion(connection_.get()); }

  // Statements without parameters or results, separated by semicolons. Returns the tag of the last.
  std::string command(const std::string& sql);
  void prepare(const std::string& name, const std::string& sql, const std::vector<Oid>& types);
  Result run_prepared(const std::string& name, const Bound& bound);
  Result run(const std::string& sql, const Bound& bound);
  std::string next_name();

  // Only where prepares(): the statement is sent with the next one that is waited for. Returns its
  // number for take(), until the transaction's end. If it fails, so does the first take() of its
  // answer or of a later one, and the server leaves out what was sent after it.
  std::size_t queue_prepared(const std::string& name, const Bound& bound);
  // Waits for that answer, not for those that come after it. Once for each number.
  Result take(std::size_t number);

  // For statements outside of a Transaction; READ COMMITTED whatever the server's default is.
  void begin(bool read_only);
  // Where prepares(): sends the COMMIT together with all that was queued. What was queued may still
  // be read; commit() waits.
  void send_commit();
  void commit();
  // Never throws.
  void rollback() noexcept;

  // Asks to be notified on that channel, where the session is ours alone.
  void listen(const std::string& channel);
  bool listens() const { return listens_; }
  // Whether anything was notified since the last call; reads what has arrived, and does not wait.
  bool take_notification();
  int socket() const { return libpq().PQsocket(connection_.get()); }

 private:
  using WorkClock = std::chrono::steady_clock;

  std::string find_and_connect(const Host& host, WorkClock::time_point until, bool& unusable);
  std::string connect(const Host& host, const std::string& address, WorkClock::time_point until,
                      bool& unusable);
  std::string examine();
  void wait(short events, WorkClock::time_point until);
  void sent(int ok);
  Result next_result();
  Result finish();
  std::size_t queue(const std::string& name, const std::string& sql, const Bound& bound);
  // There is something queued that was not answered yet.
  bool is_queueing() const { return queued_ > answers_.size(); }
  void send_queue();
  void read_answer();
  void finish_queue();
  void check_usable(const PGresult* failed);
  void check(const PGresult* result);
  [[noreturn]] void lose(const std::string& why);

  ConnectionSettings settings_;
  std::unique_ptr<PGconn, CloseConnection> connection_;
  WorkClock::time_point until_;
  std::string set_local_;  // what a transaction begins with, where a session is not ours
  bool pipelining_ = false;
  std::size_t queued_ = 0;       // in this transaction
  std::vector<Result> answers_;  // to what was queued, as far as they have been read
  bool sent_all_ = true;         // of what was queued
  std::size_t syncs_ = 0;        // ends of what was sent together, not met yet
  Result failed_;                // the answer to a queued statement that failed
  std::optional<std::size_t> committing_;
  bool broken_ = false;
  bool prepares_ = false;
  bool listens_ = false;
  bool ascii_ = false;
  bool utf8_ = false;
  std::uint64_t names_ = 0;
};

// A transaction that is undone unless it was committed.
class Transaction {
 public:
  enum class Kind { read, write };
  Transaction(Connection& connection, Kind kind) : connection_(connection) {
    connection.begin(kind == Kind::read);
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

}  // namespace outbox::postgres
