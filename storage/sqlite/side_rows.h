// What the relay knows about a row beyond the outbox's own columns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "relay/message.h"
#include "storage/mapping/row_handle.h"
#include "storage/mapping/states.h"
#include "storage/sqlite/connection.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// A moment on both axes: boot time measures, wall time bridges a restart of the machine.
struct Moment {
  std::string wall;
  std::int64_t boot = 0;
};

struct SideRow {
  // Only while the outbox's own row can't say it (it has no column for it, is too large to be
  // written or refuses to be): these then stand for its columns.
  std::optional<std::string> state;
  std::optional<std::string> dead_letter_reason;
  std::optional<std::string> error;
  std::optional<std::string> due;
  std::optional<std::int64_t> retry_count;
  std::optional<std::string> processed_on;

  std::uint32_t fingerprint = kAnyFingerprint;  // of the id of the event that it was written for
  std::uint32_t generation = 0;
  std::uint32_t counted = 0;
  std::uint32_t misconfigured_tries = 0;
  std::optional<Moment> misconfigured_since;
  FailureKind last_failure = FailureKind::none;
  Duration last_delay{0};
  std::optional<Moment> last_attempt;
  bool outcome_unknown = false;
  std::uint32_t takeovers = 0;
  std::uint32_t crashes = 0;
  std::optional<std::int64_t> waits_for_recovery_epoch;
};

// The table outbox_relay_rows of one outbox.
class SideRows {
 public:
  SideRows(Connection& connection, std::string outbox, const Clocks& clocks);

  // Nothing if it was written for another event.
  std::optional<SideRow> read(const Value& key, std::uint32_t fingerprint);
  void write(const Value& key, const SideRow& side);
  void erase(const Value& key) { erase_.run(outbox_, key); }

  Moment now() const;
  // How long ago that was. Never negative: a wall clock that jumped counts as no time.
  Duration since(const Moment& moment) const;

 private:
  std::string outbox_;
  const Clocks& clocks_;
  std::int64_t boot_number_;
  Query read_;
  Query write_;
  Query erase_;
};

}  // namespace outbox::sqlite
