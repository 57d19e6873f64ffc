// An operator's questions to an outbox in an SQLite database.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "relay/backends.h"
#include "relay/outbox_desk.h"
#include "storage/sqlite/side_rows.h"
#include "storage/sqlite/sql.h"
#include "storage/sqlite/times.h"

namespace outbox::sqlite {

// One connection, opened for each question: a desk that nobody asks holds nothing.
class SqliteDesk final : public OutboxDesk {
 public:
  // Throws SettingsError.
  SqliteDesk(const StoreSettings& settings, std::function<WallTime()> wall);

  Answer<Backlog> backlog() override;
  Answer<std::vector<DeadLetter>> dead_letters(const DeadLetterFilter& filter) override;
  Answer<std::uint64_t> redrive(const DeadLetterFilter& filter, const std::string& reason) override;
  Answer<bool> hold_circuit(bool hold, const std::string& reason) override;

 private:
  struct Desk;
  template <class Value, class Ask>
  Answer<Value> ask(const Ask& question);

  const StoreSettings settings_;
  const Mapping mapping_;
  const std::string path_;
  const BootClock boot_;
  const Clocks clocks_;
};

}  // namespace outbox::sqlite
