// Which databases and brokers this program can speak to: a registry that main() owns and fills, and
// from which a URL's scheme picks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "relay/bell.h"
#include "relay/clock.h"
#include "relay/foreign_table.h"
#include "relay/inspection.h"
#include "relay/outbox_desk.h"
#include "relay/outbox_store.h"
#include "relay/publisher.h"

namespace outbox {

// Thrown while a program is being set up: the settings can't work. The text is for people.
struct SettingsError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// One thing that is wrong with the settings of a store or a broker.
struct SettingDefect {
  std::string setting;  // below the store or the broker: "url", "tls.caFile", "columns.id"
  std::string text;     // for people
  std::string file{};   // what is wrong stands in this file; empty: in the setting itself
};

// All in one sentence; empty if there are none.
std::string describe(const std::vector<SettingDefect>& defects);

// Which attempts to publish are recorded in a table beside the outbox.
enum class AttemptsKept { none, failures, all };

struct StoreSettings {
  std::string url;
  std::string password_file;  // servers only: one line, read at each connect
  std::string table = "outbox_messages";
  std::string preset = "relay";  // a named mapping, of which single columns and states may differ:
  std::map<std::string, std::string> columns;  // what the relay needs -> the table's column
  std::map<std::string, std::string> states;   // a state's name -> the value that stands for it
  std::string times;  // iso, sql, seconds, milliseconds, ticks; empty: the preset's
  // Whose circuit the relays of this outbox share; empty: each one keeps its own.
  std::string broker;
  std::string guids;  // how ids of 16 bytes are read: dotnet, plain; empty: the preset's
  bool create_relay_tables = true;
  Duration command_timeout = std::chrono::seconds{10};
  std::uint64_t wal_limit = 64u << 20;
  AttemptsKept attempts_kept = AttemptsKept::failures;

  // Somebody else's table, which the relay must not create, extend or clean up by itself: any but
  // the one that it would create.
  bool foreign() const { return preset != "relay" || !columns.empty() || !states.empty(); }
};

struct StoreBackend {
  // All that is wrong with the settings, found without connecting.
  std::function<std::vector<SettingDefect>(const StoreSettings&)> check;
  // Opens lazily: a database that is missing is waited for, turn by turn. Rings the bell when the
  // outbox may have changed. The clock and the bell outlive the store.
  std::function<std::unique_ptr<OutboxStore>(const StoreSettings&, const Clock&, Bell&)> open_store;
  // The Backends outlive the desk.
  std::function<std::unique_ptr<OutboxDesk>(const StoreSettings&)> open_desk;
  // The statements that create the outbox and the relay's own tables.
  std::function<std::string(const StoreSettings&)> ddl;
  // Runs them; an error sentence or empty. Existing tables are left as they are.
  std::function<std::string(const StoreSettings&)> apply_ddl;
  // The statements that give a role what a relay and its commands need, and nothing else; for the
  // user in the URL if none is named. Absent: the database has no roles.
  std::function<Answer<std::string>(const StoreSettings&, const std::string& role)> grants;
  // Everything about the database that may keep a relay from working well. Changes nothing and
  // never throws. To be called in a process that has no other connection to this database open.
  std::function<std::vector<Finding>(const StoreSettings&)> inspect;
  // What of the schema is missing. An error if the database can't be reached. Changes nothing.
  std::function<Answer<SchemaCheck>(const StoreSettings&)> check_schema;
  // Who is at work on the outbox, and what went wrong of late. Changes nothing.
  std::function<Answer<StoreOverview>(const StoreSettings&)> overview;
  // Begins on a foreign table as ordered.
  std::function<Answer<AdoptionCount>(const StoreSettings&, const AdoptionOrder&)> adopt;
  // The tables of the database that look like an outbox, the likeliest first; writes nothing.
  // `only`: this table, whatever it is called; empty: any.
  std::function<Answer<std::vector<TableProposal>>(const StoreSettings&, const std::string& only)>
      detect;
};

struct TlsSettings {
  std::string ca_file;
  std::string cert_file;
  std::string key_file;
  std::string server_name;
};

struct PublisherSettings {
  std::string url;
  std::string envelope = "cloudevents-binary";  // or cloudevents-structured, raw
  std::string source;                           // CloudEvents source, never empty
  Duration publish_timeout = std::chrono::seconds{5};
  std::size_t connections = 4;
  std::size_t queue_max = 256;  // publications taken and not yet reported
  std::string username;
  std::string password_file;
  std::string bearer_token_file;
  std::string signing_key_file;
  std::map<std::string, std::string> headers;
  std::map<std::string, std::string> header_files;  // a header's name -> the file with its value
  std::string exchange;  // AMQP: for destinations that name none; empty: the default exchange
  std::string unroutable_exchange;  // AMQP: for what no queue is bound for; empty: it is not sent
  TlsSettings tls;
  // Told after each TLS handshake, by any of the publisher's threads: when the first certificate of
  // the broker's chain expires. Outlives the publisher; may be empty.
  std::function<void(std::chrono::sys_seconds)> on_certificate;
};

struct PublisherBackend {
  // All that is wrong with the settings, found without connecting. Reads the files that they name,
  // from any thread.
  std::function<std::vector<SettingDefect>(const PublisherSettings&)> check;
  std::function<std::unique_ptr<Publisher>(const PublisherSettings&, const Clock&, ReceiptSink&)>
      open;
  // Connects, and asks what delivers nothing; ends by the publish time-out. Never throws. Empty:
  // there is nothing to connect to.
  std::function<BrokerTest(const PublisherSettings&, const Clock&)> test;
  // What is wrong when a test event ended with this receipt, if that can be told; may be empty.
  std::function<std::optional<Finding>(const PublisherSettings&, const Receipt&)> explain;
};

struct Backends {
  // Shared by all desks of the process: a store may allow them one connection between them.
  std::unique_ptr<std::mutex> turnstile = std::make_unique<std::mutex>();
  std::map<std::string, StoreBackend> stores;          // by URL scheme
  std::map<std::string, PublisherBackend> publishers;  // by URL scheme
};

// Generated by the build from the backends it found: calls add_<name>_store / add_<name>_publisher.
void add_built_in_backends(Backends& backends);

// "sqlite" of "sqlite:///data/app.db"; empty if there is none.
std::string scheme_of(const std::string& url);

}  // namespace outbox
