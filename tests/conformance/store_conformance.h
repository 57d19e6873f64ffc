// What every store must do, whatever its database. A database's test program links the store_*.cpp
// files beside this one and says how its stores are made.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "relay/outbox_desk.h"
#include "relay/outbox_store.h"

namespace outbox::conformance {

// A row as the application inserts it; absent columns are left out.
struct NewRow {
  std::string id;
  std::string event_type = "order.created";
  std::string payload = "{}";
  std::optional<std::string> ordering_key = std::nullopt;
  std::optional<std::string> destination = std::nullopt;
  std::optional<std::string> content_type = std::nullopt;
  std::optional<std::string> headers = std::nullopt;
  std::optional<std::string> traceparent = std::nullopt;
  std::optional<Duration> not_before = std::nullopt;  // from now, by the wall clock
};

// What the outbox's own columns say.
struct RowState {
  std::string status;
  std::uint32_t retry_count = 0;
  std::optional<std::string> last_error;
  std::optional<std::string> dead_letter_reason;
  bool has_due_time = false;
  bool has_processed_time = false;
};

// An empty outbox of its own, with clocks that only the test moves.
class StoreFixture {
 public:
  virtual ~StoreFixture() = default;

  // Another relay on the same outbox. Destroying it is how a relay dies; retire() is how it ends.
  virtual std::unique_ptr<OutboxStore> open_store() = 0;
  virtual std::unique_ptr<OutboxDesk> open_desk() = 0;

  // As the application would, by plain SQL.
  virtual void insert(const NewRow& row) = 0;
  virtual void remove(const std::string& id) = 0;
  virtual RowState read(const std::string& id) = 0;
  // From now on the database refuses every change of this row.
  virtual void refuse_changes(const std::string& id) = 0;

  // Whether a verdict changes the application's row at all.
  virtual bool writes_rows() const { return true; }
  // What the table calls the relay's `headers` or `event_type`.
  virtual std::string column(const std::string& name) const { return name; }

  // How many random histories are worth their time: a server takes longer than a file.
  virtual std::uint64_t histories() const { return 60; }

  // Moves all clocks on.
  virtual void advance(Duration time) = 0;
  // Differs before and after somebody has written to the database.
  virtual std::int64_t version() = 0;
};

// Defined by the database's test program.
std::unique_ptr<StoreFixture> make_store_fixture();

// A relay as far as a store can tell: numbers its turns.
class Client {
 public:
  explicit Client(StoreFixture& fixture) : store_(fixture.open_store()) {}

  // The request that the next turn makes, until it is changed.
  LeaseRequest request{.limit = 100,
                       .retry_limit = 100,
                       .bytes = 16u << 20,
                       .payload_max = 4u << 20,
                       .term = std::chrono::seconds{30}};
  Turn turn(const std::vector<Settlement>& settlements = {});
  // As the last turn, under its number.
  Turn repeat(const std::vector<Settlement>& settlements = {});
  // Settles without leasing anything.
  Turn settle(const std::vector<Settlement>& settlements);
  Turn renew();
  // Tells the other relays of its circuit.
  Turn tell(const CircuitNews& news);
  // Asks for one row to probe the broker with.
  Turn probe(Duration kept = std::chrono::seconds{10});
  // Asks to probe the broker with a row that it holds.
  Turn ask_for_probe();
  Turn lease(std::size_t limit);

  OutboxStore& store() { return *store_; }
  void die() { store_.reset(); }

 private:
  TurnRequest request_for(const LeaseRequest& lease);
  Turn take(const std::vector<Settlement>& settlements, const LeaseRequest& lease, bool renew);

  std::unique_ptr<OutboxStore> store_;
  std::uint64_t number_ = 0;
};

Settlement delivered(const Message& message);
Settlement retry(const Message& message, Duration delay);
Settlement held(const Message& message, Duration delay);
Settlement dead(const Message& message, DeadReason reason);
Settlement released(const Message& message);

std::vector<std::string> ids_of(const Turn& turn);

}  // namespace outbox::conformance
