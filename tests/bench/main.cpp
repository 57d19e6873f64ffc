// The raw sides of the benchmarks, and what stands around the relay in them. tests/bench/run.py
// starts all of it and puts the figures together.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "tests/bench/amqp_client.h"
#include "tests/bench/application.h"
#include "tests/bench/consumer.h"
#include "tests/bench/flood.h"
#include "tests/bench/pg_application.h"
#include "tests/bench/raw_http.h"
#include "tests/bench/raw_postgres.h"
#include "tests/bench/raw_rabbitmq.h"
#include "tests/bench/raw_store.h"
#include "tests/bench/receiver.h"

namespace outbox::bench {
namespace {

// What the command line fills in; only the chosen command's part is used.
struct CommandLine {
  RawStoreOptions raw_store;
  RawHttpOptions raw_http;
  FloodOptions flood;
  ReceiverOptions receiver;
  ApplicationOptions application;
  RawPostgresOptions raw_postgres;
  RawRabbitmqOptions raw_rabbitmq;
  int broker_port = 0;
  ConsumerOptions consumer;
  PgApplicationOptions pg_application;
  std::int64_t period_us = 5000;
};

void add_raw_store(CLI::App& app, RawStoreOptions& options) {
  CLI::App* command = app.add_subcommand("raw-store", "drain an outbox with SQLiteCpp alone");
  command->add_option("--database", options.database)->required();
  command->add_option("--batch", options.batch);
  command->callback([&] { print(run_raw_store(options)); });
}

void add_raw_http(CLI::App& app, RawHttpOptions& options) {
  CLI::App* command = app.add_subcommand("raw-http", "post events with cpp-httplib alone");
  command->add_option("--port", options.port)->required();
  command->add_option("--events", options.events)->required();
  command->add_option("--count", options.count)->required();
  command->add_option("--connections", options.connections);
  command->add_option("--rate", options.rate, "messages a second; 0: as fast as they go");
  command->add_option("--record", options.record, "file for the times of each request");
  command->callback([&] { print(run_raw_http(options)); });
}

void add_flood(CLI::App& app, FloodOptions& options) {
  CLI::App* command = app.add_subcommand("flood", "find the receiver's limit");
  command->add_option("--port", options.port)->required();
  command->add_option("--events", options.events)->required();
  command->add_option("--count", options.count)->required();
  command->add_option("--connections", options.connections);
  command->callback([&] { print(run_flood(options)); });
}

void add_receiver(CLI::App& app, ReceiverOptions& options) {
  CLI::App* command = app.add_subcommand("receiver", "accept every event until stdin ends");
  command->add_option("--record", options.record, "file for when each request was answered");
  command->callback([&] { run_receiver(options); });
}

void add_application(CLI::App& app, ApplicationOptions& options, std::int64_t& period_us) {
  CLI::App* command = app.add_subcommand("application", "insert events at a steady pace");
  command->add_option("--database", options.database)->required();
  command->add_option("--events", options.events)->required();
  command->add_option("--commits", options.commits)->required();
  command->add_option("--rows-per-commit", options.rows_per_commit);
  command->add_option("--period-us", period_us, "from one transaction's start to the next's");
  command->add_option("--record", options.record, "file for the times of each commit");
  command->callback([&] {
    options.period = std::chrono::microseconds(period_us);
    print(run_application(options));
  });
}

void add_raw_postgres(CLI::App& app, RawPostgresOptions& options) {
  CLI::App* command = app.add_subcommand("raw-postgres", "drain an outbox with libpq alone");
  command->add_option("--url", options.url)->required();
  command->add_option("--batch", options.batch);
  command->callback([&] { print(run_raw_postgres(options)); });
}

void add_raw_rabbitmq(CLI::App& app, RawRabbitmqOptions& options) {
  CLI::App* command = app.add_subcommand("raw-rabbitmq", "publish events with librabbitmq alone");
  command->add_option("--port", options.port)->required();
  command->add_option("--events", options.events)->required();
  command->add_option("--count", options.count)->required();
  command->add_option("--window", options.window, "messages that wait for their confirm");
  command->add_option("--rate", options.rate, "messages a second; 0: as fast as they go");
  command->add_option("--record", options.record, "file for the times of each message");
  command->callback([&] { print(run_raw_rabbitmq(options)); });
}

void add_declare(CLI::App& app, int& port) {
  CLI::App* command = app.add_subcommand("declare", "an exchange with an empty quorum queue");
  command->add_option("--port", port)->required();
  command->callback([&] {
    declare_empty_queue(port);
    fmt::print("{{}}\n");
  });
}

void add_consumer(CLI::App& app, ConsumerOptions& options) {
  CLI::App* command = app.add_subcommand("consumer", "note when messages arrive");
  command->add_option("--port", options.port)->required();
  command->add_option("--count", options.count)->required();
  command->add_option("--record", options.record, "file for when each message arrived")->required();
  command->callback([&] { run_consumer(options); });
}

void add_pg_application(CLI::App& app, PgApplicationOptions& options, std::int64_t& period_us) {
  CLI::App* command = app.add_subcommand("pg-application", "insert events at a steady pace");
  command->add_option("--url", options.url)->required();
  command->add_option("--events", options.events)->required();
  command->add_option("--commits", options.commits)->required();
  command->add_option("--period-us", period_us, "from one transaction's start to the next's");
  command->add_option("--record", options.record, "file for the times of each commit");
  command->callback([&] {
    options.period = std::chrono::microseconds(period_us);
    print(run_pg_application(options));
  });
}

void add_commands(CLI::App& app, CommandLine& line) {
  app.require_subcommand(1);
  add_raw_store(app, line.raw_store);
  add_raw_http(app, line.raw_http);
  add_flood(app, line.flood);
  add_receiver(app, line.receiver);
  add_application(app, line.application, line.period_us);
  add_raw_postgres(app, line.raw_postgres);
  add_raw_rabbitmq(app, line.raw_rabbitmq);
  add_declare(app, line.broker_port);
  add_consumer(app, line.consumer);
  add_pg_application(app, line.pg_application, line.period_us);
}

}  // namespace
}  // namespace outbox::bench

int main(int argc, char** argv) {
  CLI::App app("The raw sides of the benchmarks");
  outbox::bench::CommandLine line;
  outbox::bench::add_commands(app, line);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    fmt::print(stderr, "outbox-relay-bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
