// A value as SQLite stores it, where a table may use any kind: the key of a row.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <variant>

namespace outbox {

struct Blob {
  std::string bytes;
  auto operator<=>(const Blob&) const = default;
};

using Value = std::variant<std::int64_t, std::string, Blob>;

}  // namespace outbox
