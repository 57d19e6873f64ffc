// The outbox in an SQLite database.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "relay/backends.h"
#include "relay/bell.h"
#include "relay/outbox_store.h"
#include "relay/random.h"
#include "storage/sqlite/pace.h"
#include "storage/sqlite/session.h"
#include "storage/sqlite/wal_watcher.h"

namespace outbox::sqlite {

// Opens the file when a turn needs it and stops rather than guesses: before each turn the path must
// still name the file that is open, and the schema must be the one that the statements were made
// for. Never creates the user's file or table.
class SqliteStore final : public OutboxStore {
 public:
  // Throws SettingsError. The clock behind `clocks` and the bell outlive the store.
  SqliteStore(const StoreSettings& settings, Clocks clocks, Bell& bell);
  // Without retire(), this is how a relay dies: its leases end by its lock file, or by their term.
  ~SqliteStore() override = default;

  Turn turn(const TurnRequest& request) override;
  void retire() override;

 private:
  // What the last look found, to spare the next one.
  struct Look {
    LeaseRequest request;
    Time at{};
    std::optional<WallTime> next_due;
  };
  // One write transaction.
  struct Work {
    const TurnRequest* request = nullptr;
    std::span<const Settlement> settlements;
    std::vector<Ended>* ended = nullptr;
    Time called{};
    bool final = true;  // signs the turn; the parts of a long one before it only settle
  };

  Turn attempt(const TurnRequest& request);
  void require_same_file();
  void open();
  void observe_others(Time now);
  std::vector<Ended> examine_peers(Time now);

  bool quiet(const LeaseRequest& request, Time now) const;
  Turn idle() const;
  SharedCircuit circuit() const;
  void report_orders(Turn& turn) const;
  bool look(const LeaseRequest& request, Time now, Turn& turn);
  Scene scene(std::size_t limit, Time now);

  Turn write(const TurnRequest& request, std::vector<Ended>& ended, Time called);
  Turn write_carefully(const Work& work);
  Turn write_once(const Work& work);
  bool recognise(const Work& work, Turn& turn, std::vector<Picked>& picked);
  void settle(const Work& work, const Holder& holder, Turn& turn);
  void tell(const Work& work);
  bool must_wait(const LeaseRequest& request) const;
  void keep_probe(const LeaseRequest& request);
  void take_over(const Work& work, const Holder& holder, Turn& turn);
  std::vector<Picked> lease(const Work& work, const Holder& holder, Turn& turn);
  void sign(const Work& work, LeaseId epoch, Turn& turn);
  void committed(const Work& work, Turn& turn);
  void load(const Work& work, const std::vector<Picked>& picked, Turn& turn);
  std::vector<Settlement> without_done(std::span<const Settlement> settlements) const;

  Turn refuse(TurnStatus status, std::string error);
  Turn busy(std::string error);
  void become_new();
  void close();

  const StoreSettings settings_;
  const Mapping mapping_;
  const std::string path_;
  const Clocks clocks_;
  Random random_;
  WalWatcher watcher_;

  Identity identity_;
  std::unique_ptr<Session> session_;
  Pace pace_;
  std::size_t careful_turns_ = 0;
  std::optional<std::uint64_t> last_written_;  // number of the last turn that tried to write
  bool leases_lost_ = false;

  std::int64_t data_version_ = 0;
  Orders orders_;
  bool changed_since_selection_ = true;
  bool changed_since_examination_ = true;
  std::optional<Time> examined_at_;
  std::optional<Look> last_look_;
  std::vector<Value> vanished_;
  // Settlements of the turn under way that an earlier part of it has written.
  std::set<std::pair<RowId, LeaseId>> done_;

  // While the database is unusable: why, and what it looked like then.
  std::string unusable_error_;
  std::string unusable_fingerprint_;
  Time unusable_at_{};
};

}  // namespace outbox::sqlite
