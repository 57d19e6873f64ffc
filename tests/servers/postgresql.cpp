#include "tests/servers/postgresql.h"

namespace outbox::testing {

PostgresqlServer& PostgresqlServer::instance() {
  static PostgresqlServer server;
  return server;
}

PostgresqlServer::PostgresqlServer() : process_("tests/servers/postgresql.py") {}

std::string PostgresqlServer::new_database(const std::string& encoding) {
  const std::string name = "test" + std::to_string(++databases_);
  execute("CREATE DATABASE " + name + " TEMPLATE template0 ENCODING '" + encoding + "'");
  return url().substr(0, url().rfind('/') + 1) + name;
}

}  // namespace outbox::testing
