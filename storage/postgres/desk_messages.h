// Looking for messages, and at one.
#pragma once

#include "storage/postgres/desk.h"

namespace outbox::postgres {

std::vector<MessageSummary> find_messages(Desk& desk, const MessageFilter& filter);

std::vector<MessageDetail> show_message(Desk& desk, const std::string& id,
                                        std::uint64_t payload_max);

// Walks through the whole audit.
std::vector<AuditRecord> audit_trail(Desk& desk, const std::string& id);

}  // namespace outbox::postgres
