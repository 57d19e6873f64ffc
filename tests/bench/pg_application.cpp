#include "tests/bench/pg_application.h"

#include <fmt/format.h>

#include <thread>
#include <vector>

#include "tests/bench/events.h"
#include "tests/bench/pg_client.h"

namespace outbox::bench {
namespace {

constexpr const char* kInsert =
    "INSERT INTO outbox_messages (id, event_type, ordering_key, content_type, payload) "
    "VALUES ($1, $2, $3, 'application/json', $4::bytea)";

Instant commit(PgClient& client, const Event& event, std::size_t number) {
  const std::string id = fmt::format("application-{:020}", number);
  PgValues values;
  for (const std::string& value : {id, event.type, event.key, event.payload}) values.add(value);
  const Clock::time_point begin = Clock::now();
  client.run("insert", values);
  return {id, nanoseconds(begin), nanoseconds(Clock::now())};
}

}  // namespace

Drained run_pg_application(const PgApplicationOptions& options) {
  const std::vector<Event> events = load_events(options.events);
  PgClient client(options.url);
  client.prepare("insert", kInsert);
  std::vector<Instant> record;
  const Stopwatch watch;
  const Clock::time_point started = Clock::now();
  for (std::size_t i = 0; i < options.commits; ++i) {
    std::this_thread::sleep_until(started + static_cast<int>(i) * options.period);
    record.push_back(commit(client, events[i % events.size()], i));
  }
  const Drained drained{record.size(), watch.elapsed(), watch.cpu()};
  if (!options.record.empty()) write_record(options.record, record);
  return drained;
}

}  // namespace outbox::bench
