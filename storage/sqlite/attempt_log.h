// The record of single attempts.
#pragma once

#include <optional>
#include <string>

#include "relay/backends.h"
#include "relay/outbox_store.h"
#include "storage/mapping/attempt_text.h"
#include "storage/mapping/value.h"
#include "storage/sqlite/connection.h"

namespace outbox::sqlite {

// The table outbox_relay_attempts of one outbox. Written in the transaction that settles the row,
// so that it says what happened if and only if that was settled. Confined to the connection's
// thread.
class AttemptLog {
 public:
  AttemptLog(Connection& connection, std::string outbox);

  // Failures, unless told otherwise.
  void keep(AttemptsKept kept) { kept_ = kept; }

  // Costs nothing for a row whose attempt is not kept. The text is the broker's answer or our own
  // words, at most 1 KiB; never a payload.
  void note(const Value& key, const Settlement& settlement, const std::string& now) {
    if (is_kept(settlement, kept_)) write(key, settlement, now);
  }

 private:
  void write(const Value& key, const Settlement& settlement, const std::string& now);

  Connection& connection_;
  const std::string outbox_;
  AttemptsKept kept_ = AttemptsKept::failures;
  std::optional<Query> insert_;  // made when it is first needed
};

}  // namespace outbox::sqlite
