#include "storage/mapping/attempt_text.h"

namespace outbox {
namespace {

constexpr std::size_t kReasonBytesMax = 1024;

}  // namespace

std::string shortened(const std::string& text) {
  if (text.size() <= kReasonBytesMax) return text;
  std::size_t length = kReasonBytesMax;
  // Bytes 10xxxxxx continue a character.
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xc0) == 0x80) --length;
  return text.substr(0, length);
}

std::string outcome_of(const Settlement& settlement) {
  if (settlement.verdict == Verdict::delivered) return "delivered";
  if (settlement.kind != FailureKind::none) return name_of(settlement.kind);
  return settlement.verdict == Verdict::dead ? name_of(settlement.dead_reason) : "failed";
}

std::string reason_of(const Settlement& settlement) {
  if (settlement.verdict == Verdict::delivered) return {};
  if (!settlement.outcome_unknown) return shortened(settlement.reason);
  return shortened(settlement.reason + " (the broker may have accepted it)");
}

}  // namespace outbox
