#include "relay/app/digest.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>

namespace outbox {

std::string sha256_hex(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1) {
    return {};
  }
  std::string hex;
  for (unsigned index = 0; index < length; ++index) hex += fmt::format("{:02x}", digest[index]);
  return hex;
}

}  // namespace outbox
