#include "storage/sqlite/attempt_log.h"

#include <utility>

#include "storage/sqlite/settler.h"

namespace outbox::sqlite {
namespace {

std::string outcome_of(const Settlement& settlement) {
  if (settlement.verdict == Verdict::delivered) return "delivered";
  if (settlement.kind != FailureKind::none) return name_of(settlement.kind);
  return settlement.verdict == Verdict::dead ? name_of(settlement.dead_reason) : "failed";
}

std::string reason_of(const Settlement& settlement) {
  if (settlement.verdict == Verdict::delivered) return {};
  if (!settlement.outcome_unknown) return settlement.reason;
  return settlement.reason + " (the broker may have accepted it)";
}

}  // namespace

AttemptLog::AttemptLog(Connection& connection, std::string outbox)
    : connection_(connection), outbox_(std::move(outbox)) {}

void AttemptLog::write(const Value& key, const Settlement& settlement, const std::string& now) {
  if (!insert_) {
    insert_.emplace(connection_.database(),
                    "INSERT INTO outbox_relay_attempts (outbox, row_key, at, outcome, reason) "
                    "VALUES (?1, ?2, ?3, ?4, ?5)");
  }
  const std::string outcome = outcome_of(settlement);
  const std::string reason = shortened(reason_of(settlement));
  insert_->run(outbox_, key, now, outcome, reason);
}

}  // namespace outbox::sqlite
