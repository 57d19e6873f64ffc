// The outbox in a PostgreSQL database.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "relay/backends.h"
#include "relay/bell.h"
#include "relay/outbox_store.h"
#include "relay/random.h"
#include "storage/postgres/listener.h"
#include "storage/postgres/session.h"

namespace outbox::postgres {

// Connects when a turn needs it, and again when the connection was lost. Never creates a table. All
// times are the server's; the relay's clock only measures how long to wait before the next try.
class PostgresStore final : public OutboxStore {
 public:
  // Throws SettingsError. The clock and the bell outlive the store. `now`: see
  // kServerNow.
  PostgresStore(const StoreSettings& settings, const Clock& clock, Bell& bell,
                std::string now = kServerNow);
  // Without retire(), this is how a relay dies: its leases end by their term.
  ~PostgresStore() override = default;

  Turn turn(const TurnRequest& request) override;
  void retire() override;

 private:
  // A turn under way.
  struct Work {
    const TurnRequest* request = nullptr;
    Time called{};
    bool repeated = false;  // an earlier try may have been applied
    bool examined = false;  // no relay is left whose leases may be ended
    Scenery scenery;
    Holder holder;
    Turn turn;
  };

  Turn attempt(const TurnRequest& request);
  void open();
  void register_self();
  bool run(Work& work);
  bool begin_writing(Work& work);
  void settle(Work& work);
  void take_over(Work& work);
  Selection select(Work& work);
  void lease(Work& work, const Selection& selection);
  void sign(Work& work);
  Turn committed(Work& work);

  Turn refuse(TurnStatus status, std::string error);
  Turn busy(std::string error);
  void become_new();
  void listen();
  void close();

  const StoreSettings settings_;
  const Clock& clock_;
  const std::string now_;
  Random random_;
  Bell& bell_;
  Listener listener_;

  Identity identity_;
  std::unique_ptr<Session> session_;
  std::optional<Time> examined_at_;
  std::size_t careful_turns_ = 0;
  std::optional<std::uint64_t> last_written_;    // number of the last turn that tried to write
  std::optional<std::uint64_t> schema_changed_;  // number of the last turn that met that
  bool leases_lost_ = false;

  // After a failure to connect: why, and when the next try is due.
  std::string problem_;
  bool unusable_ = false;
  Time try_again_{};
  Duration pause_{0};
};

}  // namespace outbox::postgres
