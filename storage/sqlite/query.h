// A prepared statement that is used again and again.
#pragma once

#include <SQLiteCpp/SQLiteCpp.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "storage/mapping/value.h"

namespace outbox::sqlite {

// Confined to the thread of its connection. Everything may throw SQLite::Exception.
class Query {
 public:
  // A running SELECT. Ends when it goes out of scope: while it lives, a snapshot is held.
  class Rows {
   public:
    explicit Rows(SQLite::Statement& statement) : statement_(statement) {}
    ~Rows() { statement_.tryReset(); }
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;

    bool next() { return statement_.executeStep(); }

    int size() const { return statement_.getColumnCount(); }
    SQLite::Column column(int index) const { return statement_.getColumn(index); }
    bool null(int index) const { return statement_.isColumnNull(index); }
    std::int64_t integer(int index) const { return column(index).getInt64(); }
    std::string text(int index) const { return column(index).getString(); }
    // As they stand in the row, until the next step.
    std::string_view bytes(int index) const {
      const SQLite::Column value = column(index);
      // The length first: asking for it turns a text into UTF-8.
      const auto size = static_cast<std::size_t>(value.getBytes());
      return size == 0 ? std::string_view()
                       : std::string_view(static_cast<const char*>(value.getBlob()), size);
    }
    std::optional<std::string> maybe_text(int index) const {
      const SQLite::Column value = column(index);
      return value.isNull() ? std::nullopt : std::optional(value.getString());
    }
    std::optional<std::int64_t> maybe_integer(int index) const {
      return null(index) ? std::nullopt : std::optional(integer(index));
    }
    // Nothing for NULL, and for a fraction, which is no key.
    std::optional<Value> value(int index) const {
      const SQLite::Column found = column(index);
      if (found.isInteger()) return found.getInt64();
      if (found.isText()) return found.getString();
      if (found.isBlob()) return Blob{found.getString()};
      return std::nullopt;
    }

   private:
    SQLite::Statement& statement_;
  };

  Query(const SQLite::Database& database, const std::string& sql) : statement_(database, sql) {}

  // Starts a SELECT with these values for ?1, ?2, ...
  template <class... Values>
  Rows rows(const Values&... values) {
    bind_all(Texts::copied, values...);
    return Rows(statement_);
  }

  // Runs a statement to its end. Returns how many rows it changed.
  template <class... Values>
  int run(const Values&... values) {
    // Reset also when it fails: a BEGIN that met a lock would else count as running, and nothing on
    // this connection could be committed any more.
    bind_all(Texts::lent, values...);
    Rows running(statement_);
    while (running.next()) {
    }
    return statement_.getChanges();
  }

 private:
  // Lent ones must stay where they are until the statement has ended.
  enum class Texts { copied, lent };

  template <class... Values>
  void bind_all([[maybe_unused]] Texts texts, const Values&... values) {
    statement_.tryReset();
    int index = 0;
    (bind(texts, ++index, values), ...);
  }

  template <class Kind>
  void bind(Texts texts, int index, const Kind& value) {
    if constexpr (std::is_same_v<Kind, std::nullopt_t>) {
      statement_.bind(index);
    } else if constexpr (std::is_integral_v<Kind>) {
      statement_.bind(index, static_cast<std::int64_t>(value));
    } else if constexpr (std::is_same_v<Kind, std::string>) {
      texts == Texts::lent ? statement_.bindNoCopy(index, value) : statement_.bind(index, value);
    } else if constexpr (std::is_same_v<Kind, Blob>) {
      const auto size = static_cast<int>(value.bytes.size());
      texts == Texts::lent ? statement_.bindNoCopy(index, value.bytes.data(), size)
                           : statement_.bind(index, value.bytes.data(), size);
    } else if constexpr (std::is_same_v<Kind, Value>) {
      std::visit([&](const auto& kind) { bind(texts, index, kind); }, value);
    } else {
      statement_.bind(index, value);
    }
  }

  template <class Kind>
  void bind(Texts texts, int index, const std::optional<Kind>& value) {
    if (value) {
      bind(texts, index, *value);
    } else {
      statement_.bind(index);
    }
  }

  SQLite::Statement statement_;
};

}  // namespace outbox::sqlite
