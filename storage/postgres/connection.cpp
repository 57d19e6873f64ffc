#include "storage/postgres/connection.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "relay/check.h"
#include "storage/postgres/host_addresses.h"

namespace outbox::postgres {
namespace {

constexpr int kKeepaliveIdle = 10;     // seconds
constexpr int kKeepaliveInterval = 5;  // seconds
constexpr int kKeepaliveCount = 3;
constexpr Duration kConnectMax = std::chrono::seconds{5};
constexpr int kServerVersionMin = 120000;
constexpr std::size_t kApplicationNameMax = 63;

std::int64_t milliseconds(Duration time) {
  return std::max<std::int64_t>(
      1, std::chrono::duration_cast<std::chrono::milliseconds>(time).count());
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
  return name.data();
}

// Without the line break, and without what is told twice.
std::string tidy(const char* message) {
  std::string text = message == nullptr ? "" : message;
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::erase(text, '\t');
  text.resize(text.find_last_not_of(' ') + 1);
  return text.empty() ? "no reason was given" : text;
}

// The server ends a statement before the client gives it up, so that the connection is kept; and a
// transaction whose client has gone silent, so that it holds up nobody. The relay's statements are
// made for indexes: estimates of an empty table must not outlive it in a plan that walks a full
// one.
std::string settings_sql(const std::string& set, const ConnectionSettings& settings, bool ascii) {
  const std::int64_t limit = milliseconds(settings.timeout);
  const std::int64_t lock_limit = milliseconds(settings.lock_wait);
  std::string sql = fmt::format(
      "{2} statement_timeout = {0}; {2} idle_in_transaction_session_timeout = {0}; "
      "{2} lock_timeout = {1}; {2} jit = off",
      limit, lock_limit, set);
  if (settings.by_index) {
    for (const char* plan : {"seqscan", "bitmapscan", "hashjoin", "mergejoin", "material"}) {
      sql += fmt::format("; {} enable_{} = off", set, plan);
    }
  }
  if (ascii) sql += fmt::format("; {} client_encoding = 'SQL_ASCII'", set);
  return sql;
}

// The server looks for functions, types and operators among its own first, unless it is told not
// to. The application's triggers find all others where they would.
std::string own_names_first(const std::string& set, std::string_view search_path) {
  const auto own = search_path.find("pg_catalog");
  if (own == 0 || own == std::string_view::npos) return {};
  return fmt::format("; {} search_path = pg_catalog, {}", set, search_path);
}

}  // namespace

ConnectionSettings connection_settings(const StoreSettings& settings, const std::string& role) {
  std::string name = fmt::format("outbox-relay {} {}:{}", role, host_name(), ::getpid());
  name.resize(std::min(name.size(), kApplicationNameMax));
  const Duration timeout = settings.command_timeout;
  return {location_of(settings), name, timeout, timeout / 2, true, true};
}

Connection::Connection(const ConnectionSettings& settings) : settings_(settings) {
  begin_work();
  std::string reasons;
  bool unusable = false;
  std::size_t left = settings_.location.hosts.size();
  for (const Host& host : settings_.location.hosts) {
    // A server that says nothing must not use up the others' time.
    const auto now = WorkClock::now();
    const auto most = std::min<WorkClock::duration>(until_ - now, kConnectMax);
    const auto share = most / static_cast<int>(left--);
    const std::string problem = find_and_connect(host, now + share, unusable);
    if (problem.empty()) return;
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", problem);
  }
  if (unusable) throw Unusable(reasons);
  throw Lost(reasons);
}

// Why this server won't do; empty if it will. `unusable`: an operator has to mend it.
std::string Connection::find_and_connect(const Host& host, WorkClock::time_point until,
                                         bool& unusable) {
  const HostAddresses found = addresses_of(host.name, until);
  std::string problem = found.problem;
  std::size_t left = found.addresses.size();
  for (const std::string& address : found.addresses) {
    const auto now = WorkClock::now();
    problem = connect(host, address, now + (until - now) / static_cast<int>(left--), unusable);
    if (problem.empty()) break;
  }
  return problem;
}

std::string Connection::connect(const Host& host, const std::string& address,
                                WorkClock::time_point until, bool& unusable) {
  std::vector<std::pair<std::string, std::string>> options = settings_.location.options;
  if (!settings_.location.password_file.empty()) {
    options.emplace_back("password", read_password(settings_.location.password_file));
  }
  for (const auto& [name, value] : std::initializer_list<std::pair<const char*, std::string>>{
           {"host", host.name},  // what its certificate has to name
           {"hostaddr", address},
           {"port", host.port},
           {"application_name", settings_.application_name},
           {"client_encoding", "UTF8"},
           {"keepalives_idle", std::to_string(kKeepaliveIdle)},
           {"keepalives_interval", std::to_string(kKeepaliveInterval)},
           {"keepalives_count", std::to_string(kKeepaliveCount)},
           {"tcp_user_timeout", std::to_string(milliseconds(settings_.timeout))}}) {
    options.emplace_back(name, value);
  }
  std::vector<const char*> names;
  std::vector<const char*> values;
  for (const auto& [name, value] : options) {
    names.push_back(name.c_str());
    values.push_back(value.c_str());
  }
  names.push_back(nullptr);
  values.push_back(nullptr);
  broken_ = false;
  connection_.reset(libpq().PQconnectStartParams(names.data(), values.data(), 0));
  const std::string where = host.name + ":" + host.port;
  try {
    auto state = PGRES_POLLING_WRITING;
    while (connection_ && libpq().PQstatus(connection_.get()) != CONNECTION_BAD &&
           state != PGRES_POLLING_OK && state != PGRES_POLLING_FAILED) {
      wait(state == PGRES_POLLING_READING ? POLLIN : POLLOUT, until);
      state = libpq().PQconnectPoll(connection_.get());
    }
  } catch (const Lost&) {
    return fmt::format("{} did not answer in time", where);
  }
  if (libpq().PQstatus(connection_.get()) != CONNECTION_OK) {
    const std::string text = tidy(libpq().PQerrorMessage(connection_.get()));
    const Refusal refusal = refusal_of(text);
    unusable = unusable || refusal.lasting;
    return refusal.advice.empty() ? text : fmt::format("{}: {}", text, refusal.advice);
  }
  libpq().PQsetnonblocking(connection_.get(), 1);
  // What a trigger has to say is nobody's business here.
  libpq().PQsetNoticeReceiver(
      connection_.get(), [](void*, const PGresult*) {}, nullptr);
  const std::string problem = examine();
  unusable = unusable || !problem.empty();
  return problem;
}

// Why the server that answered won't do.
std::string Connection::examine() {
  const char* encoding = libpq().PQparameterStatus(connection_.get(), "server_encoding");
  ascii_ = encoding != nullptr && std::string_view(encoding) == "SQL_ASCII";
  utf8_ = encoding != nullptr && std::string_view(encoding) == "UTF8";
  if (server_version() < kServerVersionMin) {
    return fmt::format("{} is PostgreSQL {}: the relay needs 12 or newer", label(),
                       server_version() / 10000);
  }
  const Result result =
      run("SELECT pg_catalog.int8(pg_catalog.pg_backend_pid()), pg_catalog.pg_is_in_recovery(), "
          "pg_catalog.current_setting('search_path')",
          {});
  if (!result || libpq().PQntuples(result.get()) != 1 || libpq().PQnfields(result.get()) != 3 ||
      libpq().PQgetlength(result.get(), 0, 0) != 8 ||
      libpq().PQgetlength(result.get(), 0, 1) != 1) {
    return fmt::format("{} does not answer as PostgreSQL does", label());
  }
  const char* process = libpq().PQgetvalue(result.get(), 0, 0);
  std::uint64_t number = 0;
  for (int i = 0; i < 8; ++i) number = number << 8 | static_cast<unsigned char>(process[i]);
  // A pooler makes up a number of its own.
  prepares_ = number == static_cast<std::uint64_t>(libpq().PQbackendPID(connection_.get()));
  if (settings_.must_write && *libpq().PQgetvalue(result.get(), 0, 1) != 0) {
    return fmt::format(
        "{} is a read replica: connect to the primary (store.url may name several "
        "servers, of which the relay takes the one that can be written to)",
        label());
  }
  const std::string set = prepares_ ? "SET" : "SET LOCAL";
  const std::string all = settings_sql(set, settings_, ascii_) +
                          own_names_first(set, libpq().PQgetvalue(result.get(), 0, 2));
  if (prepares_) {
    command(all);
  } else {
    set_local_ = all;
  }
  return {};
}

void Connection::begin_work() { until_ = WorkClock::now() + settings_.timeout; }

bool Connection::in_transaction() const {
  return libpq().PQtransactionStatus(connection_.get()) != PQTRANS_IDLE;
}

void Connection::lose(const std::string& why) {
  broken_ = true;
  throw Lost(fmt::format("{}: {}", label(), why));
}

void Connection::wait(short events, WorkClock::time_point until) {
  pollfd socket{libpq().PQsocket(connection_.get()), events, 0};
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - WorkClock::now()).count();
    if (left <= 0) lose("the server did not answer in time");
    const int ready = ::poll(&socket, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000)));
    if (ready > 0) return;
    if (ready < 0 && errno != EINTR) lose(std::strerror(errno));
  }
}

void Connection::sent(int ok) {
  if (ok == 0) lose(tidy(libpq().PQerrorMessage(connection_.get())));
  for (int left = libpq().PQflush(connection_.get()); left != 0;
       left = libpq().PQflush(connection_.get())) {
    if (left < 0) lose(tidy(libpq().PQerrorMessage(connection_.get())));
    // The server may be waiting for us to read.
    wait(POLLIN | POLLOUT, until_);
    if (libpq().PQconsumeInput(connection_.get()) == 0)
      lose(tidy(libpq().PQerrorMessage(connection_.get())));
  }
}

Result Connection::next_result() {
  while (libpq().PQisBusy(connection_.get()) != 0) {
    wait(POLLIN, until_);
    if (libpq().PQconsumeInput(connection_.get()) == 0)
      lose(tidy(libpq().PQerrorMessage(connection_.get())));
  }
  Result result(libpq().PQgetResult(connection_.get()));
  const auto status = libpq().PQresultStatus(result.get());
  // libpq would go on with this for ever.
  if (status == PGRES_COPY_IN || status == PGRES_COPY_OUT || status == PGRES_COPY_BOTH) {
    lose("the server began to copy, which nobody asked for");
  }
  return result;
}

// Waits for all results of what was sent, and returns the last one.
Result Connection::finish() {
  Result last;
  Result failed;
  while (true) {
    Result next = next_result();
    if (!next) break;
    const auto status = libpq().PQresultStatus(next.get());
    if (status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE) {
      if (!failed) failed = std::move(next);
      if (libpq().PQstatus(connection_.get()) == CONNECTION_BAD) break;
    } else {
      last = std::move(next);
    }
  }
  check_usable(failed.get());
  if (failed) check(failed.get());
  return last;
}

void Connection::check_usable(const PGresult* failed) {
  if (libpq().PQstatus(connection_.get()) != CONNECTION_BAD) return;
  lose(tidy(failed != nullptr ? libpq().PQresultErrorMessage(failed)
                              : libpq().PQerrorMessage(connection_.get())));
}

// Without a name: what `sql` says.
std::size_t Connection::queue(const std::string& name, const std::string& sql, const Bound& bound) {
  if (!pipelining_ && libpq().PQenterPipelineMode(connection_.get()) == 0)
    lose(tidy(libpq().PQerrorMessage(connection_.get())));
  pipelining_ = true;
  const auto count = static_cast<int>(bound.values.size());
  const int ok =
      name.empty()
          ? libpq().PQsendQueryParams(connection_.get(), sql.c_str(), count, bound.types.data(),
                                      bound.values.data(), bound.lengths.data(),
                                      bound.formats.data(), 1)
          : libpq().PQsendQueryPrepared(connection_.get(), name.c_str(), count, bound.values.data(),
                                        bound.lengths.data(), bound.formats.data(), 1);
  if (ok == 0) lose(tidy(libpq().PQerrorMessage(connection_.get())));
  sent_all_ = false;
  return queued_++;
}

void Connection::send_queue() {
  if (std::exchange(sent_all_, true)) return;
  sent(libpq().PQpipelineSync(connection_.get()));
  ++syncs_;
}

// Of the next queued statement, or the end of what was sent together.
void Connection::read_answer() {
  Result next = next_result();
  if (!next) return check_usable(failed_.get());  // on to the next statement
  const auto status = libpq().PQresultStatus(next.get());
  if (status == PGRES_PIPELINE_SYNC) {
    --syncs_;
  } else if (status == PGRES_FATAL_ERROR || status == PGRES_BAD_RESPONSE) {
    if (!failed_) failed_ = std::move(next);
    check_usable(failed_.get());
  } else if (status != PGRES_PIPELINE_ABORTED) {
    answers_.push_back(std::move(next));
  }
}

// What comes after a statement that failed is not executed by the server.
void Connection::finish_queue() {
  if (!pipelining_) return;
  send_queue();
  while (syncs_ > 0) read_answer();
  if (libpq().PQexitPipelineMode(connection_.get()) == 0)
    lose(tidy(libpq().PQerrorMessage(connection_.get())));
  pipelining_ = false;
  queued_ = answers_.size();
  if (const Result failed = std::move(failed_)) check(failed.get());
}

std::size_t Connection::queue_prepared(const std::string& name, const Bound& bound) {
  RELAY_CHECK(prepares_);
  return queue(name, {}, bound);
}

Result Connection::take(std::size_t number) {
  RELAY_CHECK(number < queued_);
  send_queue();
  while (!failed_ && answers_.size() <= number) read_answer();
  if (failed_ || answers_.size() == queued_) finish_queue();
  RELAY_CHECK(answers_[number]);
  return std::move(answers_[number]);
}

void Connection::check(const PGresult* result) {
  const char* state = libpq().PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* primary = libpq().PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  throw_server_error(label(),
                     tidy(primary == nullptr ? libpq().PQresultErrorMessage(result) : primary),
                     state == nullptr ? "" : state);
}

std::string Connection::command(const std::string& sql) {
  finish_queue();
  sent(libpq().PQsendQuery(connection_.get(), sql.c_str()));
  const Result result = finish();
  return result ? libpq().PQcmdStatus(result.get()) : "";
}

void Connection::prepare(const std::string& name, const std::string& sql,
                         const std::vector<Oid>& types) {
  finish_queue();
  sent(libpq().PQsendPrepare(connection_.get(), name.c_str(), sql.c_str(),
                             static_cast<int>(types.size()), types.data()));
  finish();
}

Result Connection::run_prepared(const std::string& name, const Bound& bound) {
  if (is_queueing()) return take(queue(name, {}, bound));
  sent(libpq().PQsendQueryPrepared(connection_.get(), name.c_str(),
                                   static_cast<int>(bound.values.size()), bound.values.data(),
                                   bound.lengths.data(), bound.formats.data(), 1));
  return finish();
}

Result Connection::run(const std::string& sql, const Bound& bound) {
  if (is_queueing()) return take(queue({}, sql, bound));
  sent(libpq().PQsendQueryParams(
      connection_.get(), sql.c_str(), static_cast<int>(bound.values.size()), bound.types.data(),
      bound.values.data(), bound.lengths.data(), bound.formats.data(), 1));
  return finish();
}

std::string Connection::next_name() { return fmt::format("outbox_relay_{}", ++names_); }

void Connection::begin(bool read_only) {
  const std::string sql =
      fmt::format("BEGIN ISOLATION LEVEL READ COMMITTED READ {}", read_only ? "ONLY" : "WRITE");
  answers_.clear();
  queued_ = 0;
  committing_.reset();
  if (prepares_) {
    queue({}, sql, {});
  } else {
    command(sql + "; " + set_local_);
  }
}

void Connection::send_commit() {
  if (!prepares_) return;
  committing_ = queue({}, "COMMIT", {});
  send_queue();
}

void Connection::commit() {
  if (!committing_ && is_queueing()) send_commit();
  const std::string tag =
      committing_ ? libpq().PQcmdStatus(take(*committing_).get()) : command("COMMIT");
  if (tag != "COMMIT") {
    throw ServerError(fmt::format("{}: the transaction was undone instead of committed", label()),
                      "");
  }
}

void Connection::rollback() noexcept {
  try {
    finish_queue();
  } catch (const std::exception&) {
    // It is undone in any case.
  }
  if (broken_) return;
  try {
    if (in_transaction()) command("ROLLBACK");
  } catch (const std::exception&) {
    broken_ = true;  // the server undoes what it has lost sight of
  }
}

void Connection::listen(const std::string& channel) {
  if (!prepares_) return;
  command("LISTEN " + channel);
  listens_ = true;
}

bool Connection::take_notification() {
  if (libpq().PQconsumeInput(connection_.get()) == 0)
    lose(tidy(libpq().PQerrorMessage(connection_.get())));
  bool any = false;
  while (PGnotify* notification = libpq().PQnotifies(connection_.get())) {
    libpq().PQfreemem(notification);
    any = true;
  }
  return any;
}

}  // namespace outbox::postgres
