// An operator's questions to an outbox in a PostgreSQL database.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage/postgres/desk.h"
#include "storage/postgres/desk_dead_letters.h"
#include "storage/postgres/desk_retention.h"

namespace outbox::postgres {

// One connection, opened for each question: a desk that nobody asks holds nothing.
class PostgresDesk final : public OutboxDesk {
 public:
  // `now`: SQL for the present time. `turnstile`: held while a connection is open, so that desks
  // which share it have one between them; it outlives them. Throws SettingsError.
  explicit PostgresDesk(const StoreSettings& settings, std::string now = kServerNow,
                        std::mutex* turnstile = nullptr);

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
  std::unique_lock<std::mutex> wait_turn() const;
  template <class Value, class Work>
  Answer<Value> work(const Work& work);
  Answer<std::uint64_t> treat(const DeadLetterFilter& filter, const Treatment& treatment,
                              const Progress& progress);

  const StoreSettings settings_;
  const std::string now_;
  std::mutex* const turnstile_;
  std::unique_ptr<Cleaner> cleaner_;  // once there is something to clean
};

}  // namespace outbox::postgres
