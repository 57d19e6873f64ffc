// What decides when a row is sent next.
#pragma once

#include <optional>
#include <string>

#include "storage/postgres/desk.h"

namespace outbox::postgres {

// What a row's own columns say about it. Needs sql.beside().
struct WaitingColumns {
  static constexpr int kCount = 3;
  static std::string sql(const Desk& desk);

  // Those that stand at `first` and later.
  static WaitingColumns read(const Rows& rows, int first);

  std::optional<ServerTime> due;
  std::optional<ServerTime> not_before;
  bool waits_for_recovery = false;
};

// A row as it was found.
struct FoundRow {
  std::string key;
  bool has_ordering_key = false;
  MessageState state = MessageState::unknown;
  bool leased = false;
  WaitingColumns waiting{};
};

// In one snapshot. Confined to the desk's thread.
class Outlooks {
 public:
  explicit Outlooks(Desk& desk);

  // Nothing of note for a row that is decided.
  Outlook of(const FoundRow& row);

 private:
  void read_due(const FoundRow& row, Outlook& outlook) const;
  void read_ahead(const FoundRow& row, Outlook& outlook);

  Desk& desk_;
  StoreOverview orders_;
  ServerTime now_{};
  Query open_ahead_;
  Query dead_ahead_;
};

}  // namespace outbox::postgres
