// A connection to PostgreSQL with libpq alone: prepared statements, binary both ways.
#pragma once

#include <libpq-fe.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace outbox::bench {

// Values for $1, $2, ... in the protocol's binary form.
class PgValues {
 public:
  void add(std::int64_t value);
  void add(std::string_view text) { values_.emplace_back(text); }
  void add(const std::vector<std::int64_t>& values);  // int8[]

  const std::vector<std::string>& all() const { return values_; }

 private:
  std::vector<std::string> values_;
};

struct PgResultEnd {
  void operator()(PGresult* result) const { PQclear(result); }
};
using PgResult = std::unique_ptr<PGresult, PgResultEnd>;

std::int64_t integer_of(const PGresult* result, int row, int column);
std::string text_of(const PGresult* result, int row, int column);

// Confined to one thread. Everything throws std::runtime_error with the server's words.
class PgClient {
 public:
  explicit PgClient(const std::string& url);
  ~PgClient() { PQfinish(connection_); }
  PgClient(const PgClient&) = delete;
  PgClient& operator=(const PgClient&) = delete;

  void command(const char* sql);
  void prepare(const char* name, const char* sql);
  PgResult run(const char* name, const PgValues& values);

 private:
  PgResult checked(PGresult* result) const;

  PGconn* connection_;
};

}  // namespace outbox::bench
