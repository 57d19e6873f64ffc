// The headers column of a row.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "relay/message.h"

namespace outbox {

// Reads a JSON object of texts, numbers and booleans into `headers`, in its order. Returns what is
// wrong with it, and where; nothing if it is fine.
std::optional<std::string> parse_headers(std::string_view json, std::vector<Header>& headers);

// Whether these bytes are UTF-8 as RFC 3629 has it: shortest forms, no surrogates.
bool is_utf8(std::string_view bytes);

}  // namespace outbox
