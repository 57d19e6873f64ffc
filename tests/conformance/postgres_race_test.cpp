// Several relays at the same moment, by the server's real clock: what the suite, which takes one
// turn after the other, can't show.
#include <fmt/format.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "relay/random.h"
#include "storage/postgres/schema.h"
#include "tests/conformance/postgres_fixture.h"
#include "tests/conformance/store_cases.h"
#include "tests/servers/postgresql.h"

namespace outbox::conformance {
namespace {

constexpr int kRelays = 3;
constexpr int kKeys = 12;
constexpr int kRows = 600;
constexpr auto kLimit = 120s;  // a busy machine takes its time

class SteadyClock final : public Clock {
 public:
  Time now() const override { return Time(std::chrono::steady_clock::now().time_since_epoch()); }
};

int number_of(const std::string& id) { return std::stoi(id.substr(id.find('-') + 1)); }

// What all relays together know; complains about what must not be.
class Truth {
 public:
  explicit Truth(Ordering ordering) : ordering_(ordering) {}

  void leased(int relay, const Message& message) {
    const std::lock_guard lock(mutex_);
    const int row = number_of(message.id);
    if (decided_.contains(row)) complain(fmt::format("{} was leased once more", message.id));
    const auto [held, first] = holder_.emplace(row, relay);
    if (!first && held->second != relay) complain(fmt::format("{} has two holders", message.id));
    if (ordering_ == Ordering::none) return;
    // Rows of a key are those with the same remainder.
    for (int earlier = row % kKeys; earlier < row; earlier += kKeys) {
      const auto found = holder_.find(earlier);
      const bool ours = found != holder_.end() && found->second == relay;
      if (!ours && !decided_.contains(earlier)) {
        complain(fmt::format("{} overtook row {}", message.id, earlier));
      }
    }
  }
  // Before the turn that says so: from its commit on another relay may be quicker than we are.
  void lets_go(const Message& message, bool decided) {
    const std::lock_guard lock(mutex_);
    holder_.erase(number_of(message.id));
    if (decided) decided_.insert(number_of(message.id));
  }
  bool all_decided() {
    const std::lock_guard lock(mutex_);
    return decided_.size() == kRows;
  }
  void complain(const std::string& text) { complaints_.push_back(text); }
  const std::vector<std::string>& complaints() const { return complaints_; }

 private:
  const Ordering ordering_;
  std::mutex mutex_;
  std::map<int, int> holder_;
  std::set<int> decided_;
  std::vector<std::string> complaints_;
};

struct Place {
  StoreSettings settings;
  Place() {
    settings.command_timeout = kLimit;
    settings.url = testing::PostgresqlServer::instance().new_database();
    postgres::Connection connection(postgres::connection_settings(settings, "test"));
    postgres::apply_schema(connection, settings);
  }
};

// Inserts rows of all keys, a few in each transaction; those of a key one after the other.
void write_rows(const StoreSettings& settings) {
  postgres::Connection connection(postgres::connection_settings(settings, "writer"));
  for (int row = 0; row < kRows; row += 5) {
    connection.begin_work();
    postgres::ask(connection,
                  fmt::format("INSERT INTO outbox_messages (id, event_type, payload, ordering_key) "
                              "SELECT 'evt-' || g, 'x', '', 'key' || g % {} "
                              "FROM generate_series($1, $1 + 4) AS g",
                              kKeys),
                  row);
  }
}

// Leases and settles at random until all is decided.
void work(int relay, const StoreSettings& settings, Ordering ordering, Truth& truth,
          std::chrono::steady_clock::time_point until) {
  const SteadyClock clock;
  SilentBell bell;
  postgres::PostgresStore store(settings, clock, bell);
  Random random(static_cast<std::uint64_t>(relay) + 1);
  std::vector<Message> held;
  TurnRequest request;
  request.lease = {.bytes = 1u << 20, .payload_max = 1u << 20, .term = 30s, .ordering = ordering};
  while (!truth.all_decided() && std::chrono::steady_clock::now() < until) {
    std::vector<Settlement> verdicts;
    std::vector<Message> kept;
    bool key_waits = false;
    for (const Message& message : held) {
      const std::uint64_t choice = random.below(10);
      // As a relay does: what follows a row that has to wait is given back with it.
      if (choice < 2 && !key_waits) {
        kept.push_back(message);
        continue;
      }
      const bool decides = choice < 8 && !key_waits && kept.empty();
      key_waits = key_waits || !decides;
      verdicts.push_back(decides ? delivered(message) : released(message));
      truth.lets_go(message, decides);
    }
    held = std::move(kept);
    ++request.number;
    request.settlements = verdicts;
    request.lease.limit = random.below(12);
    request.lease.retry_limit = request.lease.limit;
    request.lease.holding = held.size();
    Turn turn = store.turn(request);
    for (int tries = 0; turn.status == TurnStatus::busy && tries < 50; ++tries) {
      std::this_thread::sleep_for(turn.rest);
      turn = store.turn(request);
    }
    if (turn.status != TurnStatus::committed) truth.complain(turn.error);
    if (turn.fenced > 0) truth.complain("a settlement under a good lease was fenced");
    if (turn.leased.empty()) std::this_thread::sleep_for(2ms);  // as a relay paces empty looks
    for (const Message& message : turn.leased) {
      truth.leased(relay, message);
      held.push_back(message);
    }
  }
  store.retire();
}

void race(Ordering ordering) {
  const Place place;
  Truth truth(ordering);
  const auto until = std::chrono::steady_clock::now() + kLimit;
  std::vector<std::thread> threads;
  threads.emplace_back([&] { write_rows(place.settings); });
  for (int relay = 0; relay < kRelays; ++relay) {
    threads.emplace_back([&, relay] { work(relay, place.settings, ordering, truth, until); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(truth.all_decided());
  const auto& complaints = truth.complaints();
  CHECK_MESSAGE(complaints.empty(), complaints.size(),
                " complaints, the first: ", complaints.empty() ? "" : complaints.front());
}

TEST_CASE("relays at the same moment never share a row") { race(Ordering::none); }

TEST_CASE("relays at the same moment never overtake within a key") { race(Ordering::key); }

}  // namespace
}  // namespace outbox::conformance
