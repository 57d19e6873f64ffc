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
#include "storage/postgres/idle_pace.h"
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
  // What is still to be written about rows that others had locked.
  struct Remainder {
    std::vector<std::string> beside;    // keys: the state is kept beside, so this can wait
    std::vector<Settlement> postponed;  // confirmed too late: worth recording, while we live
    bool empty() const { return beside.empty() && postponed.empty(); }
  };
  // Leases that came to nothing, and are still to be ended.
  struct Gone {
    std::vector<std::string> keys;
    LeaseId epoch = 0;
  };
  // A turn under way.
  struct Work {
    const TurnRequest* request = nullptr;
    Time called{};
    bool repeated = false;  // an earlier try may have been applied
    bool examined = false;  // no relay is left whose leases may be ended
    Scenery scenery;
    bool locked = false;                     // our own row, together with the look
    std::optional<Registration::Mark> mark;  // what it says
    SharedCircuit circuit;
    Holder holder;
    bool idle = false;  // there is nothing to do until something is told, or due
    std::optional<Settler::Settling> settling;
    Settled settled;
    bool selecting = false;  // what a selection begins with was sent ahead
    Gone gone;
    Turn turn;
  };

  bool skips(const TurnRequest& request);
  Turn attempt(const TurnRequest& request);
  void open();
  void register_self();
  bool run(Work& work);
  void look(Work& work, bool knows_to_write);
  bool begin_writing(Work& work);
  void settle(Work& work);
  void finish_settling(Work& work);
  void write_again(Work& work);
  int count_schema_change(std::uint64_t turn) {
    schema_changes_ = schema_changed_ == turn ? schema_changes_ + 1 : 1;
    schema_changed_ = turn;
    return schema_changes_;
  }
  bool is_due_again(Time now) const;
  void tell(Work& work);
  bool may_select(const Work& work) const;
  void begin_selection(Work& work);
  bool may_lease(Work& work);
  void take_over(Work& work);
  Selection select(Work& work);
  bool is_idle(const Work& work, const Selection& selection);
  void lease(Work& work, const Selection& selection);
  void pass_over(Work& work, const Selection& selection, const std::vector<Picked>& leased);
  std::vector<Message> found_messages(const Work& work, Rows found, Leased& leased);
  std::vector<Message> loaded_messages(const Work& work, Rows notes, Leased& leased);
  bool ends_with_leases(const Work& work, const Selection& selection) const;
  Ahead sign(Work& work, std::optional<LeaseId> epoch);
  Turn committed(Work& work);

  Turn refuse(TurnStatus status, std::string error);
  Turn busy(std::string error);
  void become_new();
  void forget_notified();
  void listen();
  void close();
  void write_for_the_last_time();

  const StoreSettings settings_;
  const Clock& clock_;
  const std::string now_;
  Random random_;
  Bell& bell_;
  Listener listener_;

  Identity identity_;
  std::unique_ptr<Session> session_;
  std::optional<Time> examined_at_;
  IdlePace idle_pace_;
  LeaseRequest idle_request_;  // what was asked for when nothing was found
  std::size_t careful_turns_ = 0;
  std::size_t wary_turns_ = 0;
  Remainder remainder_;
  Remainder next_remainder_;  // of the last turn that wrote, whether or not it was committed
  Time tried_again_{};
  Gone gone_;
  std::optional<std::uint64_t> last_written_;    // number of the last turn that tried to write
  std::optional<std::uint64_t> schema_changed_;  // number of the last turn that met that
  int schema_changes_ = 0;                       // in a row, of that turn
  bool leases_lost_ = false;

  // After a failure to connect: why, and when the next try is due.
  std::string problem_;
  bool unusable_ = false;
  Time try_again_{};
  Duration pause_{0};
};

}  // namespace outbox::postgres
