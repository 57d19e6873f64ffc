#include "tests/bench/application.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>

#include <thread>
#include <vector>

#include "tests/bench/events.h"

namespace outbox::bench {
namespace {

constexpr int kBusyTimeoutMilliseconds = 5000;

class Application {
 public:
  explicit Application(const ApplicationOptions& options)
      : options_(options),
        events_(load_events(options.events)),
        database_(options.database, SQLite::OPEN_READWRITE | SQLite::OPEN_NOMUTEX,
                  kBusyTimeoutMilliseconds),
        insert_(database_,
                "INSERT INTO outbox_messages (id, event_type, ordering_key, content_type, payload) "
                "VALUES (?1, ?2, ?3, 'application/json', ?4)") {}

  std::vector<Instant> run() {
    std::vector<Instant> record;
    const Clock::time_point started = Clock::now();
    for (std::size_t i = 0; i < options_.commits; ++i) {
      std::this_thread::sleep_until(started + static_cast<int>(i) * options_.period);
      record.push_back(commit());
    }
    return record;
  }

 private:
  // The id is the first row's.
  Instant commit() {
    const std::string id = next_id();
    const Clock::time_point begin = Clock::now();
    SQLite::Transaction transaction(database_, SQLite::TransactionBehavior::IMMEDIATE);
    insert(id);
    for (std::size_t i = 1; i < options_.rows_per_commit; ++i) insert(next_id());
    transaction.commit();
    return {id, nanoseconds(begin), nanoseconds(Clock::now())};
  }

  std::string next_id() { return fmt::format("application-{:020}", ++rows_); }

  void insert(const std::string& id) {
    const Event& event = events_[rows_ % events_.size()];
    insert_.bind(1, id);
    insert_.bind(2, event.type);
    insert_.bind(3, event.key);
    insert_.bind(4, event.payload.data(), static_cast<int>(event.payload.size()));
    insert_.exec();
    insert_.reset();
  }

  const ApplicationOptions& options_;
  const std::vector<Event> events_;
  SQLite::Database database_;
  SQLite::Statement insert_;
  std::size_t rows_ = 0;
};

}  // namespace

Drained run_application(const ApplicationOptions& options) {
  Application application(options);
  const Stopwatch watch;
  const std::vector<Instant> record = application.run();
  const Drained drained{record.size() * options.rows_per_commit, watch.elapsed(), watch.cpu()};
  if (!options.record.empty()) write_record(options.record, record);
  return drained;
}

}  // namespace outbox::bench
