// A statement that is used again and again, its parameters and its results.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "storage/postgres/connection.h"

namespace outbox::postgres {

// A time by the server's clock.
using ServerTime = std::chrono::sys_time<std::chrono::microseconds>;

// SQL for it, where no test says otherwise. Not now(), which stands still in a transaction.
inline constexpr const char* kServerNow = "pg_catalog.clock_timestamp()";

struct Bytes {
  std::string bytes;
  bool operator==(const Bytes&) const = default;
};

// xid: the transaction that wrote a version of a row.
struct TransactionId {
  std::uint32_t number = 0;
  bool operator==(const TransactionId&) const = default;
};

// Values in the form of the protocol. Lists become arrays: text[], int8[], timestamptz[], xid[].
class Parameters {
 public:
  void add(std::int64_t value);
  void add(bool value);
  void add(ServerTime value);
  void add(std::string_view value);
  void add(const std::string& value) { add(std::string_view(value)); }
  void add(const char* value) { add(std::string_view(value)); }
  void add(const Bytes& value);
  template <class Kind>
  void add(const std::optional<Kind>& value) {
    if (value) return add(*value);
    add(Kind{});
    values_.back().null = true;
  }
  template <class Integer>
  requires std::is_integral_v<Integer>
  void add(Integer value) { add(static_cast<std::int64_t>(value)); }
  template <class Kind>
  void add(const std::vector<Kind>& values) {
    Array array(*this, type_of(Kind{}), values.size());
    for (const Kind& value : values) array.append(value);
    array.finish();
  }

  // Valid until the next add().
  Bound bound() const;

 private:
  struct Value {
    Oid type = 0;
    std::string bytes;
    bool null = false;
  };
  class Array {
   public:
    Array(Parameters& owner, Oid element, std::size_t size);
    void append(std::int64_t value);
    void append(ServerTime value);
    void append(TransactionId value);
    void append(std::string_view value);
    void append(const std::string& value) { append(std::string_view(value)); }
    template <class Kind>
    void append(const std::optional<Kind>& value) {
      value ? append(*value) : append_null();
    }
    void finish();

   private:
    void append_null();
    Parameters& owner_;
    Oid element_;
    std::size_t size_;
    bool has_null_ = false;
    std::string items_;
  };

  static Oid type_of(std::int64_t) { return kInt8; }
  static Oid type_of(ServerTime) { return kTimestamptz; }
  static Oid type_of(TransactionId) { return kXid; }
  static Oid type_of(const std::string&) { return kText; }
  template <class Kind>
  static Oid type_of(const std::optional<Kind>&) {
    return type_of(Kind{});
  }

  static constexpr Oid kInt8 = 20;
  static constexpr Oid kText = 25;
  static constexpr Oid kXid = 28;
  static constexpr Oid kTimestamptz = 1184;

  std::vector<Value> values_;
};

// All rows of a result, in memory.
class Rows {
 public:
  explicit Rows(Result result) : result_(std::move(result)) {}

  bool next() { return ++row_ < libpq().PQntuples(result_.get()); }
  // The number of the row that is read, from 0; and back to one.
  int row() const { return row_; }
  void go_to(int row) { row_ = row; }
  int size() const { return libpq().PQntuples(result_.get()); }
  int columns() const { return libpq().PQnfields(result_.get()); }
  // INSERT, UPDATE, DELETE: how many rows were changed.
  std::int64_t changed() const;

  bool null(int column) const { return libpq().PQgetisnull(result_.get(), row_, column) != 0; }
  // int2, int4, int8 or bool; 0 for NULL.
  std::int64_t integer(int column) const;
  TransactionId transaction(int column) const;
  bool boolean(int column) const { return integer(column) != 0; }
  // The bytes of a text or bytea; empty for NULL.
  std::string text(int column) const { return std::string(view(column)); }
  std::string_view view(int column) const;
  // timestamptz; infinity is the end of time, -infinity its beginning.
  ServerTime time(int column) const;

  std::optional<std::int64_t> maybe_integer(int column) const;
  std::optional<std::string> maybe_text(int column) const;
  std::optional<ServerTime> maybe_time(int column) const;

 private:
  Result result_;
  int row_ = -1;
};

// What a statement comes to that was sent ahead. To be asked for within the transaction.
class Ahead {
 public:
  explicit Ahead(Rows rows) : rows_(std::move(rows)) {}
  Ahead(Connection& connection, std::size_t number) : connection_(&connection), number_(number) {}

  // Once.
  Rows rows() { return rows_ ? std::move(*rows_) : Rows(connection_->take(number_)); }

 private:
  std::optional<Rows> rows_;
  Connection* connection_ = nullptr;
  std::size_t number_ = 0;
};

// Confined to the thread of its connection, which outlives it. Prepared when it is first used,
// where the connection allows it.
class Query {
 public:
  Query(Connection& connection, std::string sql) : connection_(&connection), sql_(std::move(sql)) {}

  // Runs with these values for $1, $2, ... See Connection for what it throws.
  template <class... Values>
  Rows rows(const Values&... values) {
    Parameters parameters;
    (parameters.add(values), ...);
    return run_with(parameters);
  }
  // The same; returns how many rows were changed.
  template <class... Values>
  std::int64_t run(const Values&... values) {
    return rows(values...).changed();
  }
  Rows run_with(const Parameters& parameters);
  // Runs together with the next statement, without waiting for the answer, where the connection
  // allows it. If it fails, so does the next.
  template <class... Values>
  Ahead send(const Values&... values) {
    Parameters parameters;
    (parameters.add(values), ...);
    return send_with(parameters);
  }

  const std::string& sql() const { return sql_; }
  // To send it takes no wait for what was sent before.
  bool is_prepared() const { return !name_.empty(); }

 private:
  Ahead send_with(const Parameters& parameters);
  void prepare(const Bound& bound);

  Connection* connection_;
  std::string sql_;
  std::string name_;  // empty: not prepared
};

// For statements that are run once.
template <class... Values>
Rows ask(Connection& connection, const std::string& sql, const Values&... values) {
  Parameters parameters;
  (parameters.add(values), ...);
  return Rows(connection.run(sql, parameters.bound()));
}

}  // namespace outbox::postgres
