// What the isolation tests need of a database: sessions that stop before each statement, and a look
// at what is committed.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/store_conformance.h"

namespace outbox::conformance::isolation {

// At length: with each combination that a quick run leaves out.
bool proof();

struct LeaseView {
  LeaseId epoch = 0;
  std::int64_t incarnation = 0;
  bool ended = false;  // its relay let it run out
};

struct RowView {
  std::string id;  // empty: a lease of a row that is not there
  std::string key;
  std::string state;
  bool waits = false;  // failed, and not due yet
  std::uint32_t generation = 0;
  std::optional<LeaseView> lease;
};

// What a relay has signed last.
struct MarkView {
  std::int64_t incarnation = 0;
  std::uint64_t turn = 0;
  LeaseId epoch = 0;
};

// All that is committed; rows in the order of the table.
struct View {
  std::vector<RowView> rows;
  std::vector<MarkView> marks;
};

// Runs one piece of work after the other on a thread of its own.
class Worker {
 public:
  // `finished` is called on that thread after each piece.
  explicit Worker(std::function<void()> finished);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Not before the last piece is finished.
  void start(std::function<void()> work);

 private:
  void serve();

  std::function<void()> finished_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void()> work_;  // guarded by mutex_
  bool over_ = false;           // guarded
  std::thread thread_;
};

// A session that works on a thread of its own and stops before each statement. Confined to the
// test's thread.
class SteppedSession {
 public:
  enum class Place {
    statement,  // stopped before one
    lock,       // the server has the statement, which waits for another session
    over,       // the work is done
  };

  virtual ~SteppedSession() = default;

  // On the session's thread only; made when it is first asked for. A session uses one of the two.
  virtual OutboxStore& store() = 0;
  virtual OutboxDesk& desk() = 0;

  // Goes as far as the first statement. Such that is refused where the database is busy, or such
  // that rather waits.
  enum class Kind { turn, patient };
  virtual Place start(Kind kind, std::function<void()> work) = 0;
  // Lets the statement through, and goes as far as the next one.
  virtual Place pass() = 0;
  // Whether one that waited for a lock still does.
  virtual Place look() = 0;
  // It had to wait for others, and may go about its work in another way from now on.
  virtual bool has_waited() const = 0;
  // The statement that it has stopped before, for people.
  virtual std::string statement() = 0;
};

// One outbox, empty at first.
class Stage {
 public:
  virtual ~Stage() = default;

  virtual StoreFixture& fixture() = 0;
  virtual void clear() = 0;
  virtual std::unique_ptr<SteppedSession> open_session() = 0;

  // The application's transaction.
  virtual void begin() = 0;
  // False: the database is busy, nothing was done.
  virtual bool insert(const NewRow& row) = 0;
  virtual void commit() = 0;
  virtual void roll_back() = 0;

  virtual View view() = 0;
};

// Defined by the database's test program.
std::unique_ptr<Stage> make_stage();

}  // namespace outbox::conformance::isolation
