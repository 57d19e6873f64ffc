// Ids of events, which tables keep as texts, numbers or the 16 bytes of a GUID.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "storage/mapping/mapping.h"

namespace outbox {

// A GUID of 16 bytes as a text: lower-case, with hyphens. Nothing for another number of bytes.
std::optional<std::string> guid_text(std::string_view bytes, GuidOrder order);

// The other way round; nothing if the text is no such thing.
std::optional<std::string> guid_bytes(std::string_view text, GuidOrder order);

// x'00ff', and the other way round; nothing if the text is no such thing.
std::string hex_text(std::string_view bytes);
std::optional<std::string> hex_bytes(std::string_view text);

}  // namespace outbox
