// The little JSON that publishers write and look at. Pure functions, safe from any thread.
#pragma once

#include <string>
#include <string_view>

namespace outbox {

// The text as a JSON string with its quotes. It has to be valid UTF-8.
std::string json_string(std::string_view text);

// Whether the bytes are one JSON value and nothing else: valid UTF-8, no byte order mark.
bool is_json(std::string_view bytes);

}  // namespace outbox
