// An operator's questions to an outbox in an SQLite database.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "relay/backends.h"
#include "relay/outbox_desk.h"
#include "storage/sqlite/desk.h"
#include "storage/sqlite/desk_dead_letters.h"
#include "storage/sqlite/desk_retention.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// One connection, opened for each question: a desk that nobody asks holds nothing. A clean-up keeps
// one of its own from its first step to its last.
class SqliteDesk final : public OutboxDesk {
 public:
  // Throws SettingsError.
  SqliteDesk(const StoreSettings& settings, std::function<WallTime()> wall);

  Answer<Backlog> backlog() override;
  Answer<std::vector<MessageSummary>> messages(const MessageFilter& filter) override;
  Answer<std::vector<MessageDetail>> message(const std::string& id,
                                             std::uint64_t payload_max) override;
  Answer<std::vector<AuditRecord>> trail(const std::string& id) override;
  Answer<std::vector<DeadLetter>> dead_letters(const DeadLetterFilter& filter) override;
  Answer<std::uint64_t> export_dead_letters(
      const DeadLetterFilter& filter,
      const std::function<bool(const ExportedLetter&)>& take) override;
  Answer<std::uint64_t> redrive(const DeadLetterFilter& filter, const std::string& reason,
                                const Progress& progress) override;
  Answer<std::uint64_t> discard(const DeadLetterFilter& filter, const std::string& reason,
                                const Progress& progress) override;
  Answer<bool> hold_circuit(bool hold, const std::string& reason) override;
  Answer<bool> pause(bool paused, const std::string& reason) override;
  Answer<CleanStep> clean(const CleanRequest& request) override;

 private:
  template <class Value, class Ask>
  Answer<Value> ask(const Ask& question);
  template <class Value, class Work>
  Answer<Value> change(const Work& work);
  Answer<std::uint64_t> treat(const DeadLetterFilter& filter, const Treatment& treatment,
                              const Progress& progress);

  const StoreSettings settings_;
  const Mapping mapping_;
  const std::string path_;
  const BootClock boot_;
  const Clocks clocks_;
  std::unique_ptr<Cleaner> cleaner_;  // once there is something to clean
};

}  // namespace outbox::sqlite
