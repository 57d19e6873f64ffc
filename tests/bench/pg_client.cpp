#include "tests/bench/pg_client.h"

#include <stdexcept>

namespace outbox::bench {
namespace {

constexpr std::int32_t kInt8 = 20;

template <class Integer>
std::string encoded(Integer value) {
  std::string bytes;
  for (int shift = 8 * (static_cast<int>(sizeof value) - 1); shift >= 0; shift -= 8) {
    bytes += static_cast<char>(value >> shift & 0xff);
  }
  return bytes;
}

}  // namespace

void PgValues::add(std::int64_t value) { values_.push_back(encoded(value)); }

void PgValues::add(const std::vector<std::int64_t>& values) {
  const std::int32_t dimensions = values.empty() ? 0 : 1;
  std::string bytes = encoded(dimensions) + encoded(std::int32_t{0}) + encoded(kInt8);
  if (!values.empty()) {
    bytes += encoded(static_cast<std::int32_t>(values.size())) + encoded(std::int32_t{1});
  }
  for (const std::int64_t value : values) {
    bytes += encoded(static_cast<std::int32_t>(sizeof value)) + encoded(value);
  }
  values_.push_back(std::move(bytes));
}

std::int64_t integer_of(const PGresult* result, int row, int column) {
  std::uint64_t value = 0;
  for (const char byte : text_of(result, row, column)) {
    value = value << 8 | static_cast<unsigned char>(byte);
  }
  return static_cast<std::int64_t>(value);
}

std::string text_of(const PGresult* result, int row, int column) {
  return {PQgetvalue(result, row, column),
          static_cast<std::size_t>(PQgetlength(result, row, column))};
}

PgClient::PgClient(const std::string& url) : connection_(PQconnectdb(url.c_str())) {
  if (PQstatus(connection_) == CONNECTION_OK) return;
  const std::string why = PQerrorMessage(connection_);
  PQfinish(connection_);
  throw std::runtime_error(why);
}

void PgClient::command(const char* sql) { checked(PQexec(connection_, sql)); }

void PgClient::prepare(const char* name, const char* sql) {
  checked(PQprepare(connection_, name, sql, 0, nullptr));
}

PgResult PgClient::run(const char* name, const PgValues& values) {
  std::vector<const char*> pointers;
  std::vector<int> lengths;
  for (const std::string& value : values.all()) {
    pointers.push_back(value.data());
    lengths.push_back(static_cast<int>(value.size()));
  }
  const std::vector<int> binary(pointers.size(), 1);
  return checked(PQexecPrepared(connection_, name, static_cast<int>(pointers.size()),
                                pointers.data(), lengths.data(), binary.data(), 1));
}

PgResult PgClient::checked(PGresult* result) const {
  PgResult owned(result);
  const ExecStatusType status = PQresultStatus(result);
  if (status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK) return owned;
  throw std::runtime_error(PQerrorMessage(connection_));
}

}  // namespace outbox::bench
