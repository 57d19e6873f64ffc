#include "metrics/label_text.h"

#include <algorithm>

namespace outbox {

namespace {

// Bytes that follow a lead byte, or -1 if it is none.
int continuation_bytes(unsigned char lead) {
  if (lead < 0x80) return 0;
  if (lead >= 0xC2 && lead <= 0xDF) return 1;
  if (lead >= 0xE0 && lead <= 0xEF) return 2;
  if (lead >= 0xF0 && lead <= 0xF4) return 3;
  return -1;
}

// Overlong forms, surrogates and what lies beyond Unicode show in the second byte.
bool second_byte_fits(unsigned char lead, unsigned char second) {
  if (lead == 0xE0) return second >= 0xA0;
  if (lead == 0xED) return second <= 0x9F;
  if (lead == 0xF0) return second >= 0x90;
  if (lead == 0xF4) return second <= 0x8F;
  return true;
}

}  // namespace

bool is_label_text(std::string_view text, std::size_t length_max) {
  if (text.empty() || text.size() > length_max) return false;
  for (std::size_t at = 0; at < text.size();) {
    const auto lead = static_cast<unsigned char>(text[at++]);
    if (lead < 0x20 || lead == 0x7F) return false;
    const int following = continuation_bytes(lead);
    if (following < 0 || at + static_cast<std::size_t>(following) > text.size()) return false;
    for (int i = 0; i < following; ++i) {
      const auto next = static_cast<unsigned char>(text[at++]);
      if ((next & 0xC0) != 0x80) return false;
      if (i == 0 && !second_byte_fits(lead, next)) return false;
    }
  }
  return true;
}

std::string without_secrets(std::string_view url) {
  const std::size_t scheme = url.find("://");
  const std::size_t authority = scheme == std::string_view::npos ? 0 : scheme + 3;
  const std::string start(url.substr(0, authority));
  const std::string_view rest = url.substr(authority);
  const std::size_t authority_end = std::min(rest.find_first_of("/?#"), rest.size());
  const std::size_t at = rest.rfind('@');
  // Beyond the authority it may end a password that holds a slash: better nothing than half of it.
  if (at != std::string_view::npos && at > authority_end) return start + "...";
  const std::size_t host = at == std::string_view::npos ? 0 : at + 1;
  return start + std::string(rest.substr(host, rest.find_first_of("?#") - host));
}

}  // namespace outbox
