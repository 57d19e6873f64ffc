// Text as brokers take it: what may stand in a header, an attribute or a path, and how it is
// encoded. Pure functions, safe from any thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace outbox {

// Strict UTF-8: no overlong forms, no surrogates, nothing above U+10FFFF.
bool is_valid_utf8(std::string_view text);

// U+0000 to U+001F and U+007F to U+009F. The text has to be valid UTF-8.
bool has_control_character(std::string_view text);

// At most `size` bytes of it, without half a character at the end. Valid UTF-8 stays so.
std::string cut_text(std::string_view text, std::size_t size);

// A header name as RFC 9110 has it: a token, at least one character long.
bool is_header_name(std::string_view name);

// Case-insensitive for ASCII, as header names are.
std::string to_lower(std::string_view text);

// The CloudEvents HTTP binding: space, double quote, percent and everything outside U+0021-U+007E
// become %XX of their UTF-8 bytes.
std::string percent_encode_attribute(std::string_view value);

// One path segment: everything but the unreserved characters of RFC 3986. Stricter than the RFC
// asks for, because some servers give `;` and `:` in a segment a meaning of their own.
std::string percent_encode_segment(std::string_view segment);

std::string base64(std::string_view bytes);

// The bytes; nothing if the text is not base64 of the standard alphabet with its padding.
std::optional<std::string> base64_decoded(std::string_view text);

}  // namespace outbox
