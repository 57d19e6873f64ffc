#include "storage/sqlite/attempt_log.h"

#include <utility>

namespace outbox::sqlite {

AttemptLog::AttemptLog(Connection& connection, std::string outbox)
    : connection_(connection), outbox_(std::move(outbox)) {}

void AttemptLog::write(const Value& key, const Settlement& settlement, const std::string& now) {
  if (!insert_) {
    insert_.emplace(connection_.database(),
                    "INSERT INTO outbox_relay_attempts (outbox, row_key, at, outcome, reason) "
                    "VALUES (?1, ?2, ?3, ?4, ?5)");
  }
  const std::string outcome = outcome_of(settlement);
  const std::string reason = reason_of(settlement);
  insert_->run(outbox_, key, now, outcome, reason);
}

}  // namespace outbox::sqlite
