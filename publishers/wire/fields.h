// What a row may ask a broker to carry, checked before any client library sees it: client libraries
// send a line break in a header value as it is, which lets a row write headers or requests of its
// own.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "relay/message.h"

namespace outbox {

inline constexpr std::size_t kHeaderNameMax = 256;
inline constexpr std::size_t kHeaderValueMax = 8 * 1024;
inline constexpr std::size_t kHeadersMax = 64;
inline constexpr std::size_t kHeadersBytesMax = 16 * 1024;  // names and values together

// Why the value can't be carried unchanged by a text header, as the end of a sentence ("has a line
// break or another control character"); empty if it can. Spaces at the ends are refused: receivers
// strip them.
std::string header_value_defect(std::string_view value);

// Why the row's headers can't be sent over HTTP: the first bad one, by name, and the reason; empty
// if all can. `taken` are lower-case names that the operator has configured and a row must not
// replace. Names that frame the request, route it, authenticate it or belong to the relay are
// refused, and so is a name that appears twice, because in HTTP the two are one field.
std::string http_headers_defect(const std::vector<Header>& headers,
                                std::span<const std::string> taken = {});

// Whether a row must not set this header (any case).
bool is_reserved_http_header(std::string_view name);

}  // namespace outbox
