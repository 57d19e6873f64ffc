// A PostgreSQL server for a test program.
#pragma once

#include <string>

#include "tests/servers/server_process.h"

namespace outbox::testing {

// One server for the whole program, started when it is first asked for.
class PostgresqlServer {
 public:
  static PostgresqlServer& instance();

  // A new database of that encoding, by its URL.
  std::string new_database(const std::string& encoding = "UTF8");
  void kill() { process_.order("kill"); }
  void start() { process_.order("start"); }
  // As the server's administrator, in the database "postgres".
  void execute(const std::string& sql) { process_.order(sql); }
  const std::string& url() const { return process_.url(); }

 private:
  PostgresqlServer();

  ServerProcess process_;
  int databases_ = 0;
};

}  // namespace outbox::testing
