// PostgreSQL's stage for the isolation tests: each relay comes to the server through a gate.
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <stdexcept>

#include "storage/postgres/postgres_desk.h"
#include "tests/conformance/isolation_stage.h"
#include "tests/conformance/postgres_fixture.h"
#include "tests/conformance/postgres_gate.h"

namespace outbox::conformance::isolation {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = 120s;  // a busy machine takes its time
constexpr int kMillisecondsIdle = 50;
constexpr std::size_t kClearsMax = 100;  // before the deleted rows are too many
constexpr int kMillisecondsPatient = 5;  // before the server is asked whether a session waits

// Of a URL like postgres://user@127.0.0.1:5432/name.
std::uint16_t port_of(const std::string& url) {
  return static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1)));
}

std::string through(std::uint16_t port, const std::string& url) {
  return fmt::format("{}:{}{}?sslmode=disable&gssencmode=disable", url.substr(0, url.rfind(':')),
                     port, url.substr(url.rfind('/')));
}

class PostgresSession final : public SteppedSession {
 public:
  PostgresSession(PostgresFixture& fixture, postgres::Connection& observer, bool pooled)
      : fixture_(fixture),
        observer_(observer),
        gate_(port_of(shared_database()), pooled),
        finished_(::eventfd(0, EFD_CLOEXEC)),
        worker_(std::make_unique<Worker>([this] { ::eventfd_write(finished_, 1); })) {}
  // A turn that is under way fails, since its connection is cut.
  ~PostgresSession() override {
    gate_.cut();
    worker_.reset();
    ::close(finished_);
  }

  OutboxStore& store() override {
    if (!store_) {
      store_ = std::make_unique<postgres::PostgresStore>(settings(), fixture_.clock(), bell_,
                                                         fixture_.server_clock());
    }
    return *store_;
  }
  OutboxDesk& desk() override {
    if (!desk_) {
      desk_ = std::make_unique<postgres::PostgresDesk>(settings(), fixture_.server_clock());
    }
    return *desk_;
  }
  Place start(Kind, std::function<void()> work) override {
    at_work_ = true;
    worker_->start(std::move(work));
    return look();
  }
  Place pass() override {
    gate_.let_through();
    return look();
  }
  // A relay waits for a lock only so long, and then goes on in another way: nobody else is at work
  // meanwhile, so that this is what always comes of it.
  Place look() override {
    const auto until = std::chrono::steady_clock::now() + kLimit;
    while (std::chrono::steady_clock::now() < until) {
      if (!at_work_) return Place::over;
      if (gate_.holds()) return Place::statement;
      const bool moved =
          gate_.pump(gate_.unanswered() ? kMillisecondsPatient : kMillisecondsIdle, finished_);
      take_end();
      if (moved || !gate_.unanswered() || !waits_for_lock()) continue;
      has_waited_ = true;
      if (!store_) return Place::lock;
    }
    throw std::runtime_error("a session does not get on");
  }
  bool has_waited() const override { return has_waited_; }
  std::string statement() override { return gate_.statement(); }

 private:
  StoreSettings settings() const {
    StoreSettings settings = fixture_.settings();
    settings.url = through(gate_.port(), settings.url);
    settings.command_timeout = kLimit;
    return settings;
  }
  void take_end() {
    pollfd end{finished_, POLLIN, 0};
    if (::poll(&end, 1, 0) <= 0) return;
    eventfd_t ignored = 0;
    ::eventfd_read(finished_, &ignored);
    at_work_ = false;
  }
  // Taken from the server's table of locks: true until the other session has let go.
  bool waits_for_lock() {
    observer_.begin_work();
    postgres::Rows rows = postgres::ask(
        observer_, "SELECT cardinality(pg_catalog.pg_blocking_pids($1::int)) > 0", gate_.process());
    return rows.next() && rows.boolean(0);
  }

  PostgresFixture& fixture_;
  postgres::Connection& observer_;
  PostgresGate gate_;
  SilentBell bell_;
  int finished_;
  bool at_work_ = false;
  bool has_waited_ = false;
  std::unique_ptr<OutboxStore> store_;
  std::unique_ptr<OutboxDesk> desk_;
  std::unique_ptr<Worker> worker_;
};

class PostgresStage final : public Stage {
 public:
  PostgresStage() {
    StoreSettings where;
    where.url = shared_database();
    observer_ =
        std::make_unique<postgres::Connection>(postgres::connection_settings(where, "observer"));
    // A session that would wait for ever is ended soon.
    fixture_.run(fmt::format("ALTER DATABASE {} SET deadlock_timeout = 20",
                             shared_database().substr(shared_database().rfind('/') + 1)));
    const std::string now = fixture_.server_clock();
    const std::string& schema = fixture_.schema();
    rows_.emplace(
        *observer_,
        fmt::format(
            "SELECT coalesce(o.id, ''), coalesce(o.ordering_key, ''), coalesce(r.state, o.status, "
            "''), "
            "coalesce(CASE WHEN r.state IS NULL THEN o.next_attempt_on_utc ELSE r.due END > {1}, "
            "false), coalesce(r.generation, 0)::int8, "
            "l.epoch, l.incarnation, coalesce(i.lease_until < {1}, true) "
            "FROM {0}.outbox_messages AS o "
            "FULL JOIN {0}.outbox_relay_leases AS l ON l.row_key = o.sequence::text "
            "LEFT JOIN {0}.outbox_relay_incarnations AS i ON i.incarnation = l.incarnation "
            "LEFT JOIN {0}.outbox_relay_rows AS r ON r.row_key = o.sequence::text "
            "ORDER BY o.sequence",
            schema, now));
    marks_.emplace(
        *observer_,
        fmt::format("SELECT incarnation, turn, epoch FROM {}.outbox_relay_incarnations", schema));
  }

  StoreFixture& fixture() override { return fixture_; }
  std::unique_ptr<SteppedSession> open_session() override {
    const bool pooled = proof() && opened_++ % 2 == 1;
    return std::make_unique<PostgresSession>(fixture_, *observer_, pooled);
  }

  // Truncating anew each time would have all sessions plan their statements anew.
  void clear() override {
    const bool truncates = cleared_++ % kClearsMax == 0;
    std::string sql = "BEGIN";
    for (const char* name :
         {"messages", "relay_leases", "relay_rows", "relay_attempts", "relay_audit"}) {
      sql += fmt::format("; {} {}.outbox_{}", truncates ? "TRUNCATE" : "DELETE FROM",
                         fixture_.schema(), name);
    }
    command(sql + "; COMMIT");
  }
  void begin() override { command("BEGIN"); }
  bool insert(const NewRow& row) override {
    fixture_.insert(row);
    return true;
  }
  void commit() override { command("COMMIT"); }
  void roll_back() override { command("ROLLBACK"); }

  View view() override {
    observer_->begin_work();
    View view;
    postgres::Rows rows = rows_->rows();
    while (rows.next()) {
      RowView row{rows.text(0),
                  rows.text(1),
                  rows.text(2),
                  rows.boolean(3),
                  static_cast<std::uint32_t>(rows.integer(4)),
                  std::nullopt};
      if (!rows.null(5)) {
        row.lease = {static_cast<LeaseId>(rows.integer(5)), rows.integer(6), rows.boolean(7)};
      }
      view.rows.push_back(std::move(row));
    }
    postgres::Rows marks = marks_->rows();
    while (marks.next()) {
      view.marks.push_back({marks.integer(0), static_cast<std::uint64_t>(marks.integer(1)),
                            static_cast<LeaseId>(marks.integer(2))});
    }
    return view;
  }

 private:
  void command(const std::string& sql) {
    fixture_.application().begin_work();
    fixture_.application().command(sql);
  }

  PostgresFixture fixture_;
  std::size_t opened_ = 0;
  std::size_t cleared_ = 0;
  std::unique_ptr<postgres::Connection> observer_;
  std::optional<postgres::Query> rows_;
  std::optional<postgres::Query> marks_;
};

}  // namespace

std::unique_ptr<Stage> make_stage() { return std::make_unique<PostgresStage>(); }

}  // namespace outbox::conformance::isolation
