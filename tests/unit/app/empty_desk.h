// A desk without an outbox, for fakes that answer only what their test asks.
#pragma once

#include "relay/outbox_desk.h"

namespace outbox {

class EmptyDesk : public OutboxDesk {
 public:
  Answer<Backlog> backlog() override { return {}; }
  Answer<std::vector<MessageSummary>> messages(const MessageFilter&) override { return {}; }
  Answer<std::vector<MessageDetail>> message(const std::string&, std::uint64_t) override {
    return {};
  }
  Answer<std::vector<AuditRecord>> trail(const std::string&) override { return {}; }
  Answer<std::vector<DeadLetter>> dead_letters(const DeadLetterFilter&) override { return {}; }
  Answer<std::uint64_t> export_dead_letters(
      const DeadLetterFilter&, const std::function<bool(const ExportedLetter&)>&) override {
    return {};
  }
  Answer<std::uint64_t> redrive(const DeadLetterFilter&, const std::string&,
                                const Progress&) override {
    return {};
  }
  Answer<std::uint64_t> discard(const DeadLetterFilter&, const std::string&,
                                const Progress&) override {
    return {};
  }
  Answer<bool> hold_circuit(bool, const std::string&) override { return {}; }
  Answer<bool> pause(bool, const std::string&) override { return {}; }
  Answer<CleanStep> clean(const CleanRequest&) override { return {}; }
};

}  // namespace outbox
