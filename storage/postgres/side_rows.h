// What the relay knows about a row beyond the outbox's own columns.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "relay/message.h"
#include "storage/mapping/row_handle.h"
#include "storage/mapping/states.h"
#include "storage/postgres/query.h"
#include "storage/postgres/sql.h"

namespace outbox::postgres {

struct SideRow {
  // Only while the outbox's own row can't say it (it has no column for it, or refuses to be
  // written): these then stand for its columns.
  std::optional<std::string> state;
  std::optional<std::string> dead_letter_reason;
  std::optional<std::string> error;
  std::optional<ServerTime> due;
  std::optional<std::int64_t> retry_count;
  std::optional<ServerTime> processed_on;

  std::uint32_t fingerprint = kAnyFingerprint;  // of the id of the event that it was written for
  std::uint32_t generation = 0;
  std::uint32_t counted = 0;
  std::uint32_t misconfigured_tries = 0;
  std::optional<ServerTime> misconfigured_since;
  FailureKind last_failure = FailureKind::none;
  Duration last_delay{0};
  std::optional<ServerTime> last_attempt;
  bool outcome_unknown = false;
  std::uint32_t takeovers = 0;
  std::uint32_t crashes = 0;
  std::optional<std::int64_t> taken_from;
  std::optional<std::int64_t> waits_for_recovery_epoch;

  bool is_of(std::uint32_t event) const {
    return fingerprint == kAnyFingerprint || event == kAnyFingerprint || fingerprint == event;
  }
};

// The table outbox_relay_rows of one outbox. Confined to the connection's thread.
class SideRows {
 public:
  SideRows(Connection& connection, const Sql& sql);

  // Of these keys, those that have one; of whatever event.
  std::map<std::string, SideRow> read(const std::vector<std::string>& keys);
  void write(const std::map<std::string, SideRow>& rows);
  void erase(const std::vector<std::string>& keys);

 private:
  std::string outbox_;
  Query read_;
  Query write_;
  Query erase_;
};

// A text that the server takes, whatever bytes it comes from.
std::string safe_text(const Connection& connection, const std::string& text);

}  // namespace outbox::postgres
