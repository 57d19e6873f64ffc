// The rows that this relay holds: leased, ready to be sent, travelling, or waiting behind the row
// of their key that goes first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "relay/circuit_breaker.h"
#include "relay/clock.h"
#include "relay/message.h"
#include "relay/publisher.h"

namespace outbox {

// One held row.
struct Held {
  Message message;
  std::string destination;
  Time leased_at{};  // from before the turn that leased it
  std::uint64_t era =
      0;  // of the relay's leases: rows of an earlier one may be somebody else's now

  bool travelling = false;
  Ticket ticket = 0;         // while it travels
  Permit permit;             // while it travels
  bool redelivered = false;  // it travels marked as a possible duplicate
};

// Confined to one thread. Pointers stay valid until the row is removed.
class Window {
 public:
  // With `by_key`, rows of one ordering key become ready one at a time, in the order they came.
  explicit Window(bool by_key) : by_key_(by_key) {}

  void add(std::unique_ptr<Held> held);

  // The next row to send, or null; it stays ready until it travels or is removed.
  Held* next_ready() { return ready_.empty() ? nullptr : ready_.front(); }
  // The first row of the ready ones travels under this ticket.
  void travel(Ticket ticket, Permit permit);
  // A travelling row was not sent after all: it is the first of the ready ones again.
  void come_back(Held& held);

  Held* by_ticket(Ticket ticket);
  Held* by_row(const RowId& row);

  // Takes a row out. If it stands first in its key, the next one of the key becomes ready.
  std::unique_ptr<Held> remove(Held& held);
  // Takes out a row together with all that wait behind it in its key; the row comes first.
  std::vector<std::unique_ptr<Held>> remove_with_followers(Held& held);
  // Takes out everything that does not travel: each ready row followed by those behind it, then
  // those behind travelling ones.
  std::vector<std::unique_ptr<Held>> remove_waiting();

  std::size_t size() const { return rows_.size(); }
  std::size_t travelling() const { return tickets_.size(); }
  std::size_t ready() const { return ready_.size(); }
  std::uint64_t bytes() const { return bytes_; }
  std::size_t retries() const { return retries_; }  // rows that failed before
  bool holds_loner() const { return loners_ > 0; }  // a row that was leased alone

 private:
  bool keyed(const Held& held) const { return by_key_ && held.message.ordering_key.has_value(); }
  void forget(Held& held);
  std::unique_ptr<Held> extract(Held& held);

  const bool by_key_;
  std::unordered_map<RowId, std::unique_ptr<Held>> rows_;
  std::map<Ticket, Held*> tickets_;                          // in the order of submission
  std::unordered_map<std::string, std::deque<Held*>> keys_;  // first: ready or travelling
  std::deque<Held*> ready_;
  std::uint64_t bytes_ = 0;
  std::size_t retries_ = 0;
  std::size_t loners_ = 0;
};

}  // namespace outbox
