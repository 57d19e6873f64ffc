#include "publishers/wire/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "publishers/wire/text.h"

namespace outbox {

namespace {

constexpr std::array<std::string_view, 10> kReserved = {
    "host", "authorization", "connection", "transfer-encoding", "idempotency-key",
    "te",   "trailer",       "upgrade",    "keep-alive",        "expect"};
constexpr std::array<std::string_view, 5> kReservedPrefixes = {"ce-", "content-", "webhook-",
                                                               "outbox-", "proxy-"};

bool is_reserved(std::string_view lower) {
  const auto starts = [&](std::string_view prefix) { return lower.starts_with(prefix); };
  return std::ranges::find(kReserved, lower) != kReserved.end() ||
         std::ranges::any_of(kReservedPrefixes, starts);
}

// A name fit for a reason: quoted, short, without what made it bad.
std::string shown(std::string_view name) {
  constexpr std::size_t kShownMax = 64;
  std::string out;
  for (const char c : name.substr(0, kShownMax)) out += (c >= ' ' && c < '\x7F') ? c : '?';
  if (name.size() > kShownMax) out += "...";
  return out;
}

std::string name_defect(std::string_view name, const std::string& lower,
                        std::span<const std::string> taken) {
  if (name.size() > kHeaderNameMax) {
    return fmt::format("its name is longer than {} bytes", kHeaderNameMax);
  }
  if (!is_header_name(name)) return "its name is not a header name (RFC 9110 token)";
  if (is_reserved(lower)) return "the name is reserved for the relay and the protocol";
  if (std::ranges::find(taken, lower) != taken.end()) {
    return "the name is taken by a configured header of the broker";
  }
  return {};
}

}  // namespace

std::string header_value_defect(std::string_view value) {
  if (value.size() > kHeaderValueMax) {
    return fmt::format("is longer than {} bytes", kHeaderValueMax);
  }
  if (!is_valid_utf8(value)) return "is not valid UTF-8";
  if (has_control_character(value)) return "has a line break or another control character";
  if (!value.empty() && (value.front() == ' ' || value.back() == ' ')) {
    return "begins or ends with a space";
  }
  return {};
}

std::string http_headers_defect(const std::vector<Header>& headers,
                                std::span<const std::string> taken) {
  if (headers.size() > kHeadersMax) {
    return fmt::format("the row has {} headers, more than {}", headers.size(), kHeadersMax);
  }
  std::size_t bytes = 0;
  std::vector<std::string> seen;
  seen.reserve(headers.size());
  for (const Header& header : headers) {
    std::string lower = to_lower(header.name);
    if (const std::string why = name_defect(header.name, lower, taken); !why.empty()) {
      return fmt::format("header \"{}\": {}", shown(header.name), why);
    }
    if (std::ranges::find(seen, lower) != seen.end()) {
      return fmt::format("header \"{}\": the name appears twice", shown(header.name));
    }
    if (const std::string why = header_value_defect(header.value); !why.empty()) {
      return fmt::format("header \"{}\": its value {}", shown(header.name), why);
    }
    bytes += header.name.size() + header.value.size();
    seen.push_back(std::move(lower));
  }
  if (bytes > kHeadersBytesMax) {
    return fmt::format("the row's headers have {} bytes, more than {}", bytes, kHeadersBytesMax);
  }
  return {};
}

bool is_reserved_http_header(std::string_view name) { return is_reserved(to_lower(name)); }

}  // namespace outbox
