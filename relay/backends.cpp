#include "relay/backends.h"

namespace outbox {

std::string scheme_of(const std::string& url) {
  const auto colon = url.find(':');
  return colon == std::string::npos ? std::string{} : url.substr(0, colon);
}

}  // namespace outbox
