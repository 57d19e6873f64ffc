#pragma once

#include <string>
#include <string_view>

namespace outbox {

// SHA-256 in lower-case hexadecimal digits; empty if this machine's OpenSSL refuses it.
std::string sha256_hex(std::string_view text);

}  // namespace outbox
